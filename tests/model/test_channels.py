"""Speech on any channel and track is transcribed, also one speaker per channel; real speech.

The word errors of each case are compared with those of the same speech as a mono recording.
"""

from collections.abc import Callable
from functools import cache
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pytest

import whisperbatch as wb
from benchmarks import recordings, scoring, sounds
from benchmarks.recordings import SAMPLING_RATE, Recording
from benchmarks.scoring import word_error_rate
from tests.unit.audio.voices import timecode
from tests.unit.media_files import encode, wav

LEFT, RIGHT = "SPEAKER_00", "SPEAKER_01"
Channels = npt.NDArray[np.float32]


@pytest.fixture(scope="module")
def talks() -> tuple[Recording, Recording]:
    """What each of two speakers says, of 20 s each."""
    return recordings.dense("en", 20, seed=11), recordings.dense("en", 20, seed=12)


def call(talks: tuple[Recording, Recording], start: float, level: float, bleed: float) -> Channels:
    """A call in which the second speaker begins at `start`; `level` and `bleed` in dB."""
    left, right = (talk.samples.astype(np.float32) / 32768 for talk in talks)
    first = round(start * SAMPLING_RATE)
    samples = np.zeros((first + len(right), 2), np.float32)
    samples[: len(left), 0] = left
    samples[first:, 1] = right * np.float32(10 ** (level / 20))
    crosstalk = np.roll(samples[:, ::-1], 64, axis=0) * np.float32(10 ** (bleed / 20))
    return samples + crosstalk


def said(transcript: wb.Transcript, speaker: str) -> str:
    return " ".join(part.text for part in transcript.segments if part.speaker == speaker)


CALLS: Final = [
    # start of the second speaker, level, bleed, word errors per 100 words that are allowed
    (14.0, 0.0, -100.0, 10.0),
    (10.0, -12.0, -100.0, 10.0),
    (14.0, -6.0, -15.0, 15.0),
    (20.5, 0.0, -15.0, 10.0),  # one after the other
]
"""With the mix alone, 30 to 50 of 100 words are wrong in the first three."""


@pytest.mark.parametrize("case", CALLS)
def test_both_speakers_are_written(
    base: wb.Transcriber,
    talks: tuple[Recording, Recording],
    case: tuple[float, float, float, float],
) -> None:
    start, level, bleed, limit = case
    samples = call(talks, start, level, bleed)
    transcript = base.transcribe(
        samples, language="en", diarize=True, speaker="channel", word_timestamps=True
    )
    score = word_error_rate(talks[0].text, said(transcript, LEFT))
    score += word_error_rate(talks[1].text, said(transcript, RIGHT))
    assert 100 * score.rate <= limit, transcript.segments
    starts = [segment.start for segment in transcript.segments]
    assert starts == sorted(starts)
    assert [segment.id for segment in transcript.segments] == list(range(len(starts)))
    for segment in transcript.segments:
        assert {word.speaker for word in segment.words or ()} == {segment.speaker}


def test_a_stream_yields_the_same_text_in_order(
    base: wb.Transcriber, talks: tuple[Recording, Recording]
) -> None:
    samples = call(talks, 14.0, 0.0, -100.0)
    whole = base.transcribe(samples, language="en", diarize=True, speaker="channel")
    with base.stream(samples, language="en", diarize=True, speaker="channel") as stream:
        segments = list(stream)
    assert [part.text for part in segments] == [part.text for part in whole.segments]
    assert [part.speaker for part in segments] == [part.speaker for part in whole.segments]


SECONDS = 30

Sound = npt.NDArray[np.float64]
"""Samples from -1 to 1."""


def at_level(sound: npt.NDArray[np.generic], decibels: float) -> Sound:
    """Return a sound from -1 to 1 at a level in dBFS."""
    return sounds.at_level(sound.astype(np.float64), decibels) / sounds.FULL_SCALE


@cache
def speech() -> tuple[Sound, str]:
    """Return read speech at -26 dBFS, and its text."""
    recording = recordings.read_speech(SECONDS)
    return at_level(recording.samples, -26), recording.text


def noise(seed: int, level: float) -> Sound:
    return at_level(sounds.white(len(speech()[0]), recordings.random_from(seed)), level)


def inverted_from(second: float) -> Sound:
    sound = speech()[0]
    return np.where(np.arange(len(sound)) < second * SAMPLING_RATE, sound, -sound)


def later(samples: int) -> Sound:
    return np.roll(speech()[0], samples)


class Case(NamedTuple):
    channels: Callable[[Sound], list[Sound]]
    text: str = ""  # of the notice; empty for the plain mix


MIXES = {
    "inverted": Case(lambda x: [x, -x], "the right channel is inverted"),
    "inverted from 15 s on": Case(lambda x: [x, inverted_from(15)], "is inverted"),
    "inverted in noise": Case(
        lambda x: [x + noise(1, -36), -0.7 * x + noise(2, -36)], "the right channel is inverted"
    ),
    "noise at +10 dB": Case(lambda x: [noise(1, -16), x], "the left channel is loud"),
    "timecode": Case(
        lambda x: [x, at_level(timecode(len(x) / SAMPLING_RATE), -16)], "the right channel is loud"
    ),
    "four channels, two inverted": Case(lambda x: [x, x, -x, -x], "channels 3, 4 are inverted"),
    "twelve channels, one with speech": Case(lambda x: [0 * x] * 7 + [x] + [0 * x] * 4),
    "twelve channels, noise on eleven": Case(
        lambda x: [*(noise(n, -36) for n in range(7)), x, *(noise(n, -36) for n in range(8, 12))],
        "are loud",
    ),
    "six channels, speech on the fourth": Case(
        lambda x: [0 * x] * 3 + [x] + [0 * x] * 2, "lacks speech"
    ),
    "1 ms later": Case(lambda x: [x, later(16)]),
}


@cache
def errors_of_mono(asr: wb.Transcriber) -> int:
    sound, text = speech()
    return scoring.word_error_rate(text, asr.transcribe(in_wav([sound]), language="en").text).errors


def in_wav(channels: list[Sound]) -> bytes:
    samples = np.clip(np.stack(channels, axis=1), -1, 1)
    return wav(SAMPLING_RATE, len(channels), 2, np.round(samples * 32767).astype("<i2").tobytes())


@pytest.mark.parametrize("name", MIXES)
def test_speech_on_any_channel_is_heard(base: wb.Transcriber, name: str) -> None:
    sound, text = speech()
    transcript = base.transcribe(in_wav(MIXES[name].channels(sound)), language="en")
    score = scoring.word_error_rate(text, transcript.text)
    assert score.errors <= errors_of_mono(base) + 0.05 * score.words
    notices = [notice.text for notice in transcript.notices if notice.kind == "channels"]
    assert bool(notices) == bool(MIXES[name].text)
    assert any(MIXES[name].text in notice for notice in notices) or not notices


def test_the_track_with_speech_is_read(base: wb.Transcriber) -> None:
    """The first track is silent; the second has the speech."""
    sound = speech()[0].astype(np.float32)
    media = encode([np.zeros_like(sound)], "matroska", "flac", rate=SAMPLING_RATE, more=[sound])
    text = base.transcribe(media, language="en").text
    assert scoring.word_error_rate(speech()[1], text).errors <= errors_of_mono(base) + 3
    transcript = base.transcribe(media, language="en", track=0)
    assert transcript.segments == ()
