"""Speech on any channel and any track is transcribed: real weights and real speech.

The word errors of each case are compared with those of the same speech as a mono recording.
"""

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pytest

import whisperbatch as wb
from benchmarks import recordings, scoring, sounds
from benchmarks.recordings import SAMPLING_RATE
from tests.unit.audio.mixing.voices import timecode
from tests.unit.media_files import encode, wav

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


CASES = {
    "inverted": Case(lambda x: [x, -x], "the right channel is inverted"),
    "inverted from 15 s on": Case(lambda x: [x, inverted_from(15)], "is inverted"),
    "inverted in noise": Case(
        lambda x: [x + noise(1, -36), -0.7 * x + noise(2, -36)], "the right channel is inverted"
    ),
    "noise at +10 dB": Case(lambda x: [noise(1, -16), x], "the left channel is loud"),
    "timecode": Case(
        lambda x: [x, at_level(timecode(len(x) / SAMPLING_RATE), -16)],
        "the right channel is loud",
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


@pytest.mark.parametrize("name", CASES)
def test_speech_on_any_channel_is_heard(base: wb.Transcriber, name: str) -> None:
    sound, text = speech()
    transcript = base.transcribe(in_wav(CASES[name].channels(sound)), language="en")
    score = scoring.word_error_rate(text, transcript.text)
    assert score.errors <= errors_of_mono(base) + 0.05 * score.words
    notices = [notice.text for notice in transcript.notices if notice.kind == "channels"]
    assert bool(notices) == bool(CASES[name].text)
    assert any(CASES[name].text in notice for notice in notices) or not notices


def test_the_track_with_speech_is_read(base: wb.Transcriber) -> None:
    """The first track is silent; the second has the speech."""
    sound = speech()[0].astype(np.float32)
    media = encode([np.zeros_like(sound)], "matroska", "flac", rate=SAMPLING_RATE, more=[sound])
    text = base.transcribe(media, language="en").text
    assert scoring.word_error_rate(speech()[1], text).errors <= errors_of_mono(base) + 3
    transcript = base.transcribe(media, language="en", track=0)
    assert transcript.segments == ()
