"""The calibration of the second opinion: which texts pass, and the recommended threshold."""

import numpy as np
import pytest

import whisperbatch as wb
from benchmarks import corpora
from benchmarks.lost_speech import calibration
from benchmarks.lost_speech.calibration import CheckedRegion, Half
from benchmarks.recordings import Recording, Utterance
from whisperbatch.types import SpeechSpan


def region(
    avg_logprob: float, *, spoken: float = 1.0, words: int = 5, plausible: bool = True
) -> CheckedRegion:
    return CheckedRegion("x", 0.0, 4.0, avg_logprob, words, plausible, spoken, "text")


HALF = Half(
    (
        *(region(-0.1 - 0.01 * number) for number in range(19)),  # speech: -0.28 at the lowest
        region(-0.9),  # speech that gives bad text
        region(-0.2, plausible=False),  # speech that the other rules reject
        region(-0.05, spoken=0.3),  # neither speech nor noise
        region(-0.02, spoken=0.0, plausible=False),
        region(-0.6, spoken=0.0, words=4),
        region(-0.7, spoken=0.0, words=3),
    ),
    silence=50.0,
    speech_found=100.0,
    noise_found=9.0,
)


def test_plausible_regions_above_the_threshold_pass() -> None:
    assert HALF.recovered(-1.0) == pytest.approx(20 / 21)
    assert HALF.recovered(-0.5) == pytest.approx(19 / 21)
    assert HALF.recovered(-0.195) == pytest.approx(10 / 21)
    assert HALF.invented(-0.5) == 0
    assert HALF.invented(-0.65) == pytest.approx(4 / 50)
    assert HALF.invented(-0.7) == pytest.approx(7 / 50)
    assert Half((), 0.0).invented(-1.0) == Half((), 0.0).recovered(-1.0) == 0


def test_the_middle_of_the_good_thresholds_is_recommended() -> None:
    # -0.7 would invent 0.14 words per minute; above -0.28, more than 5 % of the speech is lost
    assert calibration.recommend(HALF) == pytest.approx((-0.7 - 0.28) / 2)
    quiet = Half(HALF.regions[:20], silence=50.0)
    assert calibration.recommend(quiet) == pytest.approx((-1.0 - 0.28) / 2)
    noise_is_better = Half((region(-0.5), region(-0.3, spoken=0.0)), silence=1.0)
    with pytest.raises(corpora.CorpusError, match="use more --minutes"):
        calibration.recommend(noise_is_better)


def test_the_share_of_utterances_is_exact() -> None:
    spoken = (Utterance(1, 3, "a", "en"), Utterance(5, 6, "b", "en"))
    recording = Recording("x", np.zeros(160_000, np.int16), spoken)
    shares = [
        calibration.spoken_share(recording, SpeechSpan(16_000 * start, 16_000 * end))
        for start, end in ((2, 6), (7, 9), (1, 3))
    ]
    assert shares == pytest.approx([0.5, 0.0, 1.0])


def test_the_tables_have_all_thresholds() -> None:
    lines = list(calibration.report({"development": HALF, "test": HALF}, -0.49, -0.6))
    assert len(lines) == 1 + 2 * 4 + 1 + 2 + 1 + len(calibration.THRESHOLDS) + 1
    (default,) = [line for line in lines if "(default)" in line]
    assert default.split() == ["-0.60", "(default)", *["90.5", "%", "0.08/min"] * 2]
    (recommended,) = [line for line in lines if "recommended" in line]
    assert recommended.startswith("-0.49")
    assert (
        "test: the VAD rejects 100.0 s of speech and 9.0 s of other sound; the filter passes "
        "84.0 s and 12.0 s"
    ) in lines
    speech = next(line for line in lines if line.startswith("test: speech, plausible"))
    assert speech.split()[3:6] == ["20", "80.0", "100"]


def test_a_recording_is_checked_with_real_weights() -> None:
    """Whispered and hoarse speech gives plausible text; the utterances are found in the truth."""
    with wb.load("tiny.en", device="cpu", compute_type="int8") as asr:
        half = calibration.measure_half(asr, ["hoarse:en:60:1", "hold_music:en:20:1"])
    assert half.silence > 20 / 60
    assert half.speech_found > 2
    assert half.noise_found > 10
    speech = [s for s in half.regions if s.is_speech]
    assert speech
    assert any(s.plausible and s.words >= 3 for s in speech)
    assert all(s.recording == "hoarse:en:60:1" and 0 <= s.start < s.end <= 60 for s in speech)


@pytest.mark.parametrize("argument", [["--minutes", "0"], ["--corpora", "prompts"]])
def test_invalid_arguments_are_refused(argument: list[str]) -> None:
    with pytest.raises(SystemExit) as error:
        calibration.main(argument)
    assert error.value.code == 2
