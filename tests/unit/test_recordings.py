import hashlib
import tracemalloc
import wave
from itertools import pairwise
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

from benchmarks import recordings, speech
from benchmarks.recordings import Recording, Utterance


def level(samples: recordings.Samples) -> float:
    """RMS in dB of full scale."""
    return float(10 * np.log10((samples.astype(np.float64) ** 2).mean() / 32768**2))


def piece(recording: Recording, start: float, end: float) -> recordings.Samples:
    return recording.samples[round(start * 16_000) : round(end * 16_000)]


@pytest.fixture(scope="module")
def minute() -> Recording:
    return recordings.prompts(duration=60, seed=7)


def test_a_seed_always_gives_the_same_recording(minute: Recording) -> None:
    again = recordings.prompts(duration=60, seed=7)
    other = recordings.prompts(duration=60, seed=8)
    assert np.array_equal(minute.samples, again.samples)
    assert minute.utterances == again.utterances
    assert minute.utterances != other.utterances


def test_what_is_drawn_does_not_depend_on_the_versions_installed() -> None:
    rng = recordings._random(0)
    noise = recordings._noisy(np.zeros(1000, np.int16), rng)
    digest = hashlib.sha256(noise.astype("<i2").tobytes()).hexdigest()
    assert digest[:16] == "5063eb7a1ed72823"
    assert [round(rng.uniform(0, 1), 6) for _ in range(2)] == [0.021637, 0.961031]


def test_length_is_exact_and_utterances_are_in_order(minute: Recording) -> None:
    assert minute.duration == 60.0
    assert len(minute.utterances) > 5
    for one, other in pairwise(minute.utterances):
        assert one.start < one.end < other.start
    assert minute.utterances[-1].end < 60


def test_pauses_are_within_their_range_and_faint(minute: Recording) -> None:
    for one, other in pairwise(minute.utterances):
        assert 0.3 <= other.start - one.end <= 2.0 + 1e-3
        middle = (one.end + other.start) / 2
        assert level(piece(minute, middle - 0.08, middle + 0.08)) == pytest.approx(-70, abs=1.5)


def test_an_utterance_starts_and_ends_where_its_sound_does(minute: Recording) -> None:
    for spoken in minute.utterances:
        loudest = max(
            level(piece(minute, at, at + 0.01))
            for at in np.arange(spoken.start, spoken.end - 0.01, 0.01)
        )
        for at in (spoken.start, spoken.end - 0.03):  # three frames at either end
            assert level(piece(minute, at, at + 0.03)) > loudest - 36
        assert level(piece(minute, spoken.start - 0.1, spoken.start - 0.06)) < -60


def test_no_prompt_comes_twice_before_all_came() -> None:
    rng = recordings._random(1)
    clips = recordings._asterisk("en")
    drawn = recordings._shuffled(clips, rng)
    first = [id(next(drawn)) for _ in clips]
    assert len(set(first)) == len(clips)


@pytest.mark.parametrize(
    ("text", "fair"),
    [
        ("Please hold.", True),
        ("Login incorrect.  Mailbox?", True),
        ("[beep]", False),
        ("Please leave a message. (simple tone sound plays)", False),
        ("<beep ascending>", False),
        ("press * to toggle pause", False),
        ("...", False),
        ("N B S", False),
        ("IAX or IVR", True),
        ("La chiamata non pu? essere completata cos? come composta.", False),
        ("", False),
    ],
)
def test_texts_that_are_not_what_is_spoken_are_left_out(*, text: str, fair: bool) -> None:
    assert recordings._fair(text) is fair


def test_silence_and_clicks_are_no_utterance() -> None:
    click = np.zeros(16_000, np.int16)
    click[5000:5100] = 20_000
    assert recordings._trim(np.zeros(16_000, np.int16), "x", "en") is None
    assert recordings._trim(np.zeros(100, np.int16), "x", "en") is None
    assert recordings._trim(click, "x", "en") is None


def test_dense_and_read_speech_have_short_pauses() -> None:
    for recording, longest in (
        (recordings.dense(duration=60), 0.5),
        (recordings.read_speech(60), 1),
    ):
        gaps = [other.start - one.end for one, other in pairwise(recording.utterances)]
        assert max(gaps) <= longest + 1e-3
        assert recording.duration == 60
    assert "<s>" not in recordings.read_speech(60).text


def test_blocks_tile_the_recording_and_meet_mid_pause() -> None:
    said = [(1, 2, "a", "en"), (3, 4, "b", "en"), (6, 7, "c", "fr"), (8, 9, "d", "en")]
    recording = Recording("x", np.zeros(160_000, np.int16), tuple(Utterance(*u) for u in said))
    assert recording.blocks() == (
        Utterance(0, 5, "a b", "en"),
        Utterance(5, 7.5, "c", "fr"),
        Utterance(7.5, 10, "d", "en"),
    )


def test_languages_switch_after_a_block() -> None:
    recording = recordings.switching(("en", "fr"), block=(10, 20), duration=90, seed=2)
    blocks = recording.blocks()
    assert [block.language for block in blocks[:4]] == ["en", "fr", "en", "fr"]
    assert recording.duration == 90


def test_demo_holds_nine_languages_and_the_call() -> None:
    recording = recordings.demo()
    blocks = recording.blocks()
    languages = [block.language for block in blocks]
    assert languages == ["en", "es", "fr", "hi", "it", "ja", "pl", "pt", "zh", "en"]
    assert 120 < recording.duration < 300
    assert blocks[-1].text.endswith("I don't hear that in New Jersey now.")
    # where the truth says somebody speaks there is sound
    assert all(level(piece(recording, u.start, u.end)) > -45 for u in recording.utterances)


@pytest.mark.parametrize("suffix", [".wav", ".flac", ".mp3", ".m4a", ".ogg", ".webm"])
def test_written_files_hold_the_recording(minute: Recording, tmp_path: Path, suffix: str) -> None:
    path = recordings.write(minute, tmp_path / f"a{suffix}")
    with av.open(str(path)) as container:
        assert container.streams.audio[0].codec_context.channels == 1
    decoded = recordings._decode(path)
    assert abs(len(decoded) - len(minute.samples)) < 3000
    if suffix in (".wav", ".flac"):
        assert np.array_equal(decoded, minute.samples)


def test_long_files_are_written_in_flat_memory(tmp_path: Path) -> None:
    recordings._asterisk("en")
    tracemalloc.start()
    utterances = recordings.long_wav(tmp_path / "long.wav", hours=1, seed=3)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    with wave.open(str(tmp_path / "long.wav")) as file:
        assert file.getparams()[:4] == (1, 2, 16_000, 3600 * 16_000)
    assert 3500 < utterances[-1].end < 3600
    assert peak < 30e6  # bytes; the file holds 115e6, the longest prompt 2e6


def test_fetched_speech_is_whole_or_absent(tmp_path: Path) -> None:
    target = tmp_path / "cache" / "thing"

    def fail(directory: Path) -> None:
        (directory / "half").touch()
        raise speech.SpeechError("no network")

    with pytest.raises(speech.SpeechError):
        speech._once(target, fail)
    assert list((tmp_path / "cache").iterdir()) == []

    def other_was_first(directory: Path) -> None:
        speech._once(target, lambda other: (other / "first").touch())
        (directory / "second").touch()

    speech._once(target, other_was_first)
    assert [path.name for path in target.iterdir()] == ["first"]


def test_missing_tools_and_packages_are_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("WHISPERBATCH_SPEECH", str(tmp_path))
    with pytest.raises(speech.SpeechError, match="no Asterisk prompts in 'xx'"):
        speech.asterisk("xx")

    def missing(command: list[str], **_: Any) -> None:
        raise FileNotFoundError(2, "No such file", command[0])

    monkeypatch.setattr("subprocess.run", missing)
    with pytest.raises(
        speech.SpeechError, match=r"package no-such-speech, and apt-get is not here"
    ):
        speech.debian("no-such-speech", "usr/share/no-such-speech/*")
