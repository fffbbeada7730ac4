import hashlib
import tracemalloc
import wave
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import av
import numpy as np
import numpy.typing as npt
import pytest

from benchmarks import corpora, recordings, sounds, speech
from benchmarks.recordings import Recording, Utterance


def level(samples: npt.NDArray[Any]) -> float:
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
    rng = recordings.random_from(0)
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
    rng = recordings.random_from(1)
    clips = recordings.asterisk_clips("en")
    drawn = recordings.shuffled(clips, rng)
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
    decoded = recordings.decode(path)
    assert abs(len(decoded) - len(minute.samples)) < 3000
    if suffix in (".wav", ".flac"):
        assert np.array_equal(decoded, minute.samples)


def test_long_files_are_written_in_flat_memory(tmp_path: Path) -> None:
    recordings.asterisk_clips("en")
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


SEED = 5


@cache
def built(kind: str) -> Recording:
    return corpora.build(f"{kind}:en:60:{SEED}")


@pytest.fixture(scope="module")
def clean() -> Recording:
    return built("prompts")


def gaps_of(recording: Recording) -> list[tuple[float, float]]:
    return recordings.gaps(recording.utterances, recording.duration)


def long_gaps(recording: Recording) -> list[tuple[float, float]]:
    return [(start, end) for start, end in gaps_of(recording) if end - start > 2]


@pytest.mark.parametrize("kind", corpora.KINDS)
def test_every_kind_is_as_long_as_said_with_its_truth_in_order(kind: str) -> None:
    recording = built(kind)
    assert recording.name == f"{kind}:en:60:{SEED}"
    assert recording.duration == 60
    edges = [edge for spoken in recording.utterances for edge in (spoken.start, spoken.end)]
    assert edges == sorted(edges)
    assert edges[0] > 0
    assert edges[-1] < 60
    # where somebody speaks there is more sound than the noise of the pauses
    softest = {"quiet": -82}.get(kind, -45)
    assert min(level(piece(recording, u.start, u.end)) for u in recording.utterances) > softest


@pytest.mark.parametrize("kind", corpora.KINDS)
def test_every_kind_is_the_same_for_the_same_seed(kind: str) -> None:
    one, again = (corpora.build(f"{kind}:en:50:2") for _ in range(2))
    other = corpora.build(f"{kind}:en:50:3")
    assert np.array_equal(one.samples, again.samples)
    assert one.utterances == again.utterances
    assert one.utterances != other.utterances


@pytest.mark.parametrize("kind", ["music_under", "noise_under", "telephone", "quiet", "clipped"])
def test_conditions_change_the_sound_and_not_the_words(kind: str, clean: Recording) -> None:
    assert built(kind).utterances == clean.utterances
    assert not np.array_equal(built(kind).samples, clean.samples)


def test_pauses_between_groups_are_long_and_silent() -> None:
    recording = corpora.pauses(duration=300)
    gaps = gaps_of(recording)[:-1]
    apart = [(start, end) for start, end in gaps if end - start > 1 + 1e-3]
    assert len(apart) > 5
    assert all(2 - 1e-3 <= end - start <= 30 + 1e-3 for start, end in apart)
    assert max(end - start for start, end in apart) > 15
    assert all(end - start >= 0.3 - 1e-3 for start, end in gaps)
    assert max(level(piece(recording, start + 0.06, end - 0.06)) for start, end in apart) < -60


def test_groups_have_three_to_eight_prompts() -> None:
    recording = corpora.noise_between(duration=300)
    sizes = [0]
    for one, other in pairwise(recording.utterances):
        sizes[-1] += 1
        if other.start - one.end > 2:
            assert 10 - 1e-3 <= other.start - one.end <= 30 + 1e-3
            sizes.append(0)
    assert len(sizes) > 4
    assert all(3 <= size <= 8 for size in sizes[:-1])


def test_music_fills_the_gaps_at_its_own_level() -> None:
    recording = built("music_between")
    silent = corpora.groups("music_between", "en", 60, SEED, (10, 30))
    assert recording.utterances == silent.utterances
    music = np.concatenate(corpora._music())
    assert long_gaps(recording)
    for start, end in long_gaps(recording):
        added = piece(recording, start + 0.3, end - 0.3).astype(int) - piece(
            silent, start + 0.3, end - 0.3
        )
        assert level(added) > -45
        assert abs(added[0]) <= abs(added[:800]).max() / 10  # faded in
        middle = added[2000:2400]
        (found,) = np.flatnonzero(music == middle[100])[:, None].T
        assert any(np.array_equal(music[at - 100 : at + 300], middle) for at in found if at >= 100)
    for spoken in recording.utterances:
        assert np.array_equal(
            piece(recording, spoken.start, spoken.end), piece(silent, spoken.start, spoken.end)
        )


def test_noise_fills_the_gaps_white_then_pink_then_hum() -> None:
    recording = corpora.noise_between(duration=200, seed=1)
    shares = []
    for start, end in long_gaps(recording)[:3]:
        filled = piece(recording, start + 0.4, end - 0.4).astype(np.float64)
        assert -35.2 < sounds.level(filled) < -19.8
        power = np.abs(np.fft.rfft(filled)) ** 2
        hertz = np.fft.rfftfreq(len(filled), 1 / 16_000)
        shares.append(power[hertz < 200].sum() / power.sum())
    assert shares[0] < 0.05
    assert 0.2 < shares[1] < 0.5
    assert shares[2] > 0.99


@pytest.mark.parametrize(("kind", "below"), [("music_under", 15), ("noise_under", 10)])
def test_what_lies_under_speech_is_as_far_below_it_as_said(
    kind: str, below: float, clean: Recording
) -> None:
    added = built(kind).samples.astype(np.float64) - clean.samples
    assert corpora.speech_level(clean) - sounds.level(added) == pytest.approx(below, abs=0.1)
    seconds = added.reshape(60, 16_000)
    assert min(sounds.level(second) for second in seconds) > -70  # throughout


def test_the_telephone_has_its_band_and_eight_bits(clean: Recording) -> None:
    power = np.abs(np.fft.rfft(built("telephone").samples.astype(np.float64))) ** 2
    hertz = np.fft.rfftfreq(60 * 16_000, 1 / 16_000)
    outside = power[(hertz < 250) | (hertz > 3450)].sum() / power.sum()
    assert 10 * np.log10(outside) < -50
    assert corpora.speech_level(built("telephone")) > corpora.speech_level(clean) - 6
    ramp = np.arange(-32768, 32768).astype(np.float64)
    heard = sounds.mu_law(ramp)
    assert len(np.unique(heard)) == 255
    loud = abs(ramp) > 1000
    assert np.max(abs(heard[loud] / ramp[loud] - 1)) < 0.03


def test_quiet_and_clipped_are_as_loud_as_said(clean: Recording) -> None:
    speech_level = corpora.speech_level(clean)
    assert corpora.speech_level(built("quiet")) == pytest.approx(speech_level - 40, abs=0.5)
    assert np.array_equal(
        built("clipped").samples, np.clip(clean.samples.astype(int) * 10, -32768, 32767)
    )
    assert (abs(built("clipped").samples.astype(int)) >= 32767).mean() > 0.01


def test_mixed_is_made_of_conditions_one_after_the_other() -> None:
    recording = corpora.mixed(duration=9 * 60, seed=1)
    kinds = corpora._drawn(recordings.random_from("mixed 1"))
    assert sorted(kinds) == sorted(corpora.CONDITIONS)
    start = 0.0
    for number, kind in enumerate(kinds):
        section = corpora.CONDITIONS[kind]("en", 60, 1000 + number)
        assert np.array_equal(piece(recording, start, start + 60), section.samples)
        start += 60


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("promts:en:60:0", "the kinds are prompts, pauses, "),
        ("prompts", "write KIND:LANGUAGE:SECONDS:SEED, as prompts:en:600:0"),
        ("prompts:en:long:0", "write KIND:LANGUAGE:SECONDS:SEED"),
        ("prompts:en:nan:0", "from 1 to 86400 seconds"),
        ("read:fr:60:0", "the novel is in English"),
        ("prompts:xx:60:0", "no Asterisk prompts in 'xx'"),
        ("music_between:en:2:0", "too short for a single utterance"),
    ],
)
def test_a_name_of_no_recording_is_refused(name: str, message: str) -> None:
    with pytest.raises(corpora.CorpusError, match=message):
        corpora.build(name)


def test_gaps_are_where_nobody_speaks() -> None:
    said = [Utterance(*times, "x", "en") for times in [(1, 5), (2, 3), (4, 6), (6, 7), (8, 9)]]
    assert recordings.gaps(said, 10) == [(0, 1), (7, 8), (9, 10)]
    assert recordings.gaps(said, 8.5) == [(0, 1), (7, 8)]
    assert recordings.gaps([], 10) == [(0, 10)]
    assert recordings.gaps([Utterance(0, 10, "x", "en")], 10) == []
