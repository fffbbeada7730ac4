"""Rooms and telephones for `conversations`: sounds are float32, full scale is 1, 16 kHz."""

from random import Random
from typing import Final

import numpy as np

from benchmarks import sounds
from benchmarks.clips import SAMPLING_RATE
from benchmarks.diarization.voices import Sound

ROOM: Final = (-75.0, -60.0)  # dBFS, noise of a quiet room
NOISE: Final = (-50.0, -40.0)  # dBFS, noise at a distant microphone; speech is at -17 to -29
LINE: Final = (-60.0, -50.0)  # dBFS, noise of a telephone line
TELEPHONE: Final = (300.0, 3400.0)  # Hz
REVERBERATION: Final = (0.3, 0.7)  # seconds until the echoes are 60 dB softer
DIRECT: Final = (-4.0, 4.0)  # dB, the direct sound relative to its echoes
FIRST_ECHO: Final = 0.005  # seconds


def room(rng: Random) -> Sound:
    """Return an impulse response: the direct sound, then echoes that fade exponentially."""
    fading = rng.uniform(*REVERBERATION)
    count = round(fading * SAMPLING_RATE)
    seconds = np.arange(count) / SAMPLING_RATE
    echoes = sounds.white(count, rng) * 10 ** (-3 * seconds / fading)
    echoes[: round(FIRST_ECHO * SAMPLING_RATE)] = 0
    echoes *= 10 ** (-rng.uniform(*DIRECT) / 20) / np.sqrt(np.sum(echoes**2))
    echoes[0] = 1
    response: Sound = (echoes / np.sqrt(np.sum(echoes**2))).astype(np.float32)
    return response


def dry(sound: Sound, _: Sound) -> Sound:
    """Return the sound as it is."""
    return sound


def far(sound: Sound, response: Sound) -> Sound:
    """Return the sound in a room, as long as its echoes last."""
    count = len(sound) + len(response) - 1
    size = 1 << (count - 1).bit_length()
    spectrum = np.fft.rfft(sound, size) * np.fft.rfft(response, size)
    heard: Sound = np.fft.irfft(spectrum, size)[:count].astype(np.float32)
    return heard


def quiet(sound: Sound, rng: Random) -> Sound:
    """Return a conversation in a quiet room."""
    return _with_noise(sound, ROOM, rng)


def noisy(sound: Sound, rng: Random) -> Sound:
    """Return a conversation in a room with a fan."""
    return _with_noise(sound, NOISE, rng)


def telephone(sound: Sound, rng: Random) -> Sound:
    """Return a conversation over a telephone: 300 to 3,400 Hz, mu-law."""
    line = _with_noise(sound, LINE, rng).astype(np.float64) * sounds.FULL_SCALE
    heard = sounds.mu_law(sounds.band(line, *TELEPHONE)) / sounds.FULL_SCALE
    return heard.astype(np.float32)


def _with_noise(sound: Sound, decibels: tuple[float, float], rng: Random) -> Sound:
    """Add pink noise; one minute of noise is repeated; the repetition is not audible."""
    count = min(len(sound), 60 * SAMPLING_RATE)
    noise = sounds.at_level(sounds.pink(count, rng), rng.uniform(*decibels)) / sounds.FULL_SCALE
    return sound + np.resize(noise, len(sound)).astype(np.float32)
