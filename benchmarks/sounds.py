"""Noises, levels, bands and companding: what `benchmarks.corpora` makes conditions of.

A sound is float64 of shape (n_samples,) at 16 kHz, on the scale of 16-bit samples: full scale is
32768. Noises are drawn from `random.Random` alone, so they are the same for the same seed.
"""

from random import Random
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from benchmarks.recordings import SAMPLING_RATE, Samples

Sound: TypeAlias = npt.NDArray[np.float64]

FULL_SCALE = 32768.0
MU = 255  # of the mu-law, ITU-T G.711


def level(sound: Sound) -> float:
    """Root mean square, in dBFS."""
    return float(10 * np.log10(np.mean(sound**2) / FULL_SCALE**2))


def at_level(sound: Sound, decibels: float) -> Sound:
    """The sound, louder or softer, so that `level` is `decibels`."""
    return sound * 10 ** ((decibels - level(sound)) / 20)


def white(count: int, rng: Random) -> Sound:
    """Noise with as much power in every hertz."""
    return np.frombuffer(rng.randbytes(2 * count), "<i2").astype(np.float64)


def pink(count: int, rng: Random) -> Sound:
    """Noise with as much power in every octave, from 20 Hz up."""
    spectrum = np.fft.rfft(white(count, rng))
    hertz = np.fft.rfftfreq(count, 1 / SAMPLING_RATE)
    return np.fft.irfft(spectrum / np.sqrt(np.maximum(hertz, 20)) * (hertz >= 20), count)


def hum(count: int, rng: Random) -> Sound:
    """Mains at 50 Hz with two of its harmonics, each softer than the one before."""
    seconds = np.arange(count) / SAMPLING_RATE
    phases = [rng.uniform(0, 2 * np.pi) for _ in range(3)]
    waves = [
        np.sin(2 * np.pi * 50 * number * seconds + phase) / number**2
        for number, phase in enumerate(phases, 1)
    ]
    sound: Sound = FULL_SCALE / 2 * np.sum(waves, axis=0)
    return sound


def band(sound: Sound, low: float, high: float) -> Sound:
    """What of the sound lies between two frequencies; half as loud at each, gone 50 Hz beyond."""
    hertz = np.fft.rfftfreq(len(sound), 1 / SAMPLING_RATE)
    inside = np.minimum(hertz - low, high - hertz)  # negative outside
    gain = np.sin(np.pi / 2 * np.clip((inside + 50) / 100, 0, 1)) ** 2
    return np.fft.irfft(np.fft.rfft(sound) * gain, len(sound))


def mu_law(sound: Sound) -> Sound:
    """The sound as eight bits of mu-law keep it: 127 steps on either side, finer where softer."""
    small = np.clip(sound / FULL_SCALE, -1, 1)
    steps = np.round(127 * np.sign(small) * np.log1p(MU * np.abs(small)) / np.log1p(MU))
    size = np.expm1(np.abs(steps) / 127 * np.log1p(MU)) / MU
    kept: Sound = FULL_SCALE * np.sign(steps) * size
    return kept


def rounded(sound: Sound) -> Samples:
    """The sound as 16-bit samples, cut off at full scale."""
    return np.clip(np.round(sound), -32768, 32767).astype(np.int16)
