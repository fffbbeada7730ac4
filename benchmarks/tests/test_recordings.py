"""Built recordings: their clips, samples, utterances, blocks, files and memory."""

import hashlib
import tracemalloc
import wave
from itertools import pairwise
from pathlib import Path
from typing import Any

import av
import numpy as np
import numpy.typing as npt
import pytest

from benchmarks import clips, recordings
from benchmarks.recordings import Recording, Utterance


def level(samples: npt.NDArray[Any]) -> float:
    """Return the root mean square in dB of full scale."""
    return float(10 * np.log10((samples.astype(np.float64) ** 2).mean() / 32768**2))


def excerpt(recording: Recording, start: float, end: float) -> recordings.Samples:
    return recording.samples[round(start * 16_000) : round(end * 16_000)]


@pytest.fixture(scope="module")
def minute() -> Recording:
    return recordings.prompts(duration=60, seed=7)


def test_a_seed_always_gives_the_same_recording(minute: Recording) -> None:
    again = recordings.prompts(duration=60, seed=7)
    different = recordings.prompts(duration=60, seed=8)
    assert np.array_equal(minute.samples, again.samples)
    assert minute.utterances == again.utterances
    assert minute.utterances != different.utterances


def test_random_numbers_do_not_depend_on_installed_versions() -> None:
    rng = recordings.random_from(0)
    noise = recordings._add_noise(np.zeros(1000, np.int16), rng)
    digest = hashlib.sha256(noise.astype("<i2").tobytes()).hexdigest()
    assert digest[:16] == "5063eb7a1ed72823"
    assert [round(rng.uniform(0, 1), 6) for _ in range(2)] == [0.021637, 0.961031]


def test_duration_is_exact_and_utterances_are_in_order(minute: Recording) -> None:
    assert minute.duration == 60.0
    assert len(minute.utterances) > 5
    for utterance, following in pairwise(minute.utterances):
        assert utterance.start < utterance.end < following.start
    assert minute.utterances[-1].end < 60


def test_pauses_have_the_chosen_length_and_faint_noise(minute: Recording) -> None:
    for utterance, following in pairwise(minute.utterances):
        assert 0.3 <= following.start - utterance.end <= 2.0 + 1e-3
        middle = (utterance.end + following.start) / 2
        assert level(excerpt(minute, middle - 0.08, middle + 0.08)) == pytest.approx(-70, abs=1.5)


def test_an_utterance_starts_and_ends_where_its_sound_does(minute: Recording) -> None:
    for utterance in minute.utterances:
        loudest = max(
            level(excerpt(minute, at, at + 0.01))
            for at in np.arange(utterance.start, utterance.end - 0.01, 0.01)
        )
        for at in (utterance.start, utterance.end - 0.03):  # three frames at each end
            assert level(excerpt(minute, at, at + 0.03)) > loudest - 36
        assert level(excerpt(minute, utterance.start - 0.1, utterance.start - 0.06)) < -60


def test_no_prompt_is_repeated_before_all_are_used() -> None:
    rng = recordings.random_from(1)
    prompts = clips.asterisk_clips("en")
    drawn = recordings.shuffled(prompts, rng)
    first_round = {id(next(drawn)) for _ in prompts}
    assert len(first_round) == len(prompts)


@pytest.mark.parametrize(
    ("text", "verbatim"),
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
def test_texts_with_several_spoken_forms_are_left_out(*, text: str, verbatim: bool) -> None:
    assert clips.is_verbatim(text) is verbatim


def test_silence_and_clicks_are_not_utterances() -> None:
    click = np.zeros(16_000, np.int16)
    click[5000:5100] = 20_000
    assert clips.trim(np.zeros(16_000, np.int16), "x", "en") is None
    assert clips.trim(np.zeros(100, np.int16), "x", "en") is None
    assert clips.trim(click, "x", "en") is None


def test_dense_and_read_speech_have_short_pauses() -> None:
    for recording, max_pause in (
        (recordings.dense(duration=60), 0.5),
        (recordings.read_speech(60), 1),
    ):
        pauses = [after.start - before.end for before, after in pairwise(recording.utterances)]
        assert max(pauses) <= max_pause + 1e-3
        assert recording.duration == 60
    assert "<s>" not in recordings.read_speech(60).text


def test_blocks_cover_the_recording_and_meet_in_the_middle_of_pauses() -> None:
    utterances = [(1, 2, "a", "en"), (3, 4, "b", "en"), (6, 7, "c", "fr"), (8, 9, "d", "en")]
    recording = Recording(
        "x", np.zeros(160_000, np.int16), tuple(Utterance(*u) for u in utterances)
    )
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


def test_nine_languages_end_with_a_telephone_call() -> None:
    recording = recordings.nine_languages()
    blocks = recording.blocks()
    languages = [block.language for block in blocks]
    assert languages == ["en", "es", "fr", "hi", "it", "ja", "pl", "pt", "zh", "en"]
    assert 120 < recording.duration < 300
    assert blocks[-1].text.endswith("I don't hear that in New Jersey now.")
    # There is sound within every utterance.
    assert all(level(excerpt(recording, u.start, u.end)) > -45 for u in recording.utterances)


def test_joined_recordings_follow_each_other() -> None:
    first = Recording("a", np.ones(24_000, np.int16), (Utterance(0.5, 1, "a", "en"),))
    second = Recording(
        "b",
        np.full(16_000, 2, np.int16),
        (Utterance(0, 0.2, "b", "fr"), Utterance(0.5, 1, "c", "fr")),
    )
    joined = recordings.joined("all", [first, second, first])
    assert joined.samples.tolist() == [1] * 24_000 + [2] * 16_000 + [1] * 24_000
    assert joined.utterances == (
        Utterance(0.5, 1, "a", "en"),
        Utterance(1.5, 1.7, "b", "fr"),
        Utterance(2.0, 2.5, "c", "fr"),
        Utterance(3.0, 3.5, "a", "en"),
    )


@pytest.mark.parametrize("suffix", [".wav", ".flac", ".mp3", ".m4a", ".ogg", ".webm"])
def test_written_files_contain_the_recording(
    minute: Recording, tmp_path: Path, suffix: str
) -> None:
    path = recordings.write(minute, tmp_path / f"a{suffix}")
    with av.open(str(path)) as container:
        assert container.streams.audio[0].codec_context.channels == 1
    decoded = clips.decode(path)
    assert abs(len(decoded) - len(minute.samples)) < 3000
    if suffix in (".wav", ".flac"):
        assert np.array_equal(decoded, minute.samples)


def test_long_files_are_written_in_flat_memory(tmp_path: Path) -> None:
    clips.asterisk_clips("en")
    tracemalloc.start()
    utterances = recordings.long_wav(tmp_path / "long.wav", hours=1, seed=3)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    with wave.open(str(tmp_path / "long.wav")) as file:
        assert file.getparams()[:4] == (1, 2, 16_000, 3600 * 16_000)
    assert 3500 < utterances[-1].end < 3600
    assert peak < 30e6  # bytes; the file has 115e6, the longest prompt 2e6


def test_gaps_are_the_ranges_without_speech() -> None:
    utterances = [
        Utterance(*times, "x", "en") for times in [(1, 5), (2, 3), (4, 6), (6, 7), (8, 9)]
    ]
    assert recordings.gaps(utterances, 10) == [(0, 1), (7, 8), (9, 10)]
    assert recordings.gaps(utterances, 8.5) == [(0, 1), (7, 8)]
    assert recordings.gaps([], 10) == [(0, 10)]
    assert recordings.gaps([Utterance(0, 10, "x", "en")], 10) == []
