"""Noises, levels, frequency bands and companding for the conditions of `benchmarks.corpora`.

A sound is float64 of shape (n_samples,) at 16 kHz, on the scale of 16-bit samples: full scale is
32768. Noises use only `random.Random`, so they are the same for the same seed.
"""

from random import Random
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from benchmarks.recordings import SAMPLING_RATE, Recording, Samples

Sound: TypeAlias = npt.NDArray[np.float64]

FULL_SCALE = 32768.0
MU = 255  # parameter of the mu-law, ITU-T G.711


def level(sound: Sound) -> float:
    """Return the root mean square, in dBFS."""
    return float(10 * np.log10(np.mean(sound**2) / FULL_SCALE**2))


def speech_level(recording: Recording) -> float:
    """Return the level of all utterances together, in dBFS."""
    speech_samples = [
        recording.samples[round(u.start * SAMPLING_RATE) : round(u.end * SAMPLING_RATE)]
        for u in recording.utterances
    ]
    return level(np.concatenate(speech_samples).astype(np.float64))


def at_level(sound: Sound, decibels: float) -> Sound:
    """Return the sound scaled to a level of `decibels` dBFS."""
    return sound * 10 ** ((decibels - level(sound)) / 20)


def white(count: int, rng: Random) -> Sound:
    """Return noise with equal power in every hertz."""
    return np.frombuffer(rng.randbytes(2 * count), "<i2").astype(np.float64)


def pink(count: int, rng: Random) -> Sound:
    """Return noise with equal power in every octave above 20 Hz."""
    spectrum = np.fft.rfft(white(count, rng))
    hertz = np.fft.rfftfreq(count, 1 / SAMPLING_RATE)
    return np.fft.irfft(spectrum / np.sqrt(np.maximum(hertz, 20)) * (hertz >= 20), count)


def hum(count: int, rng: Random) -> Sound:
    """Return mains hum: 50 Hz with two harmonics, whose amplitude falls with the square."""
    seconds = np.arange(count) / SAMPLING_RATE
    phases = [rng.uniform(0, 2 * np.pi) for _ in range(3)]
    waves = [
        np.sin(2 * np.pi * 50 * number * seconds + phase) / number**2
        for number, phase in enumerate(phases, 1)
    ]
    sound: Sound = FULL_SCALE / 2 * np.sum(waves, axis=0)
    return sound


def band(sound: Sound, low: float, high: float) -> Sound:
    """Return a frequency band of the sound; the gain is 1/2 at its limits and 0 50 Hz outside."""
    hertz = np.fft.rfftfreq(len(sound), 1 / SAMPLING_RATE)
    inside = np.minimum(hertz - low, high - hertz)  # negative outside
    gain = np.sin(np.pi / 2 * np.clip((inside + 50) / 100, 0, 1)) ** 2
    return np.fft.irfft(np.fft.rfft(sound) * gain, len(sound))


def mu_law(sound: Sound) -> Sound:
    """Return the sound after 8-bit mu-law: 127 steps on each side of zero, finer near zero."""
    scaled = np.clip(sound / FULL_SCALE, -1, 1)
    steps = np.round(127 * np.sign(scaled) * np.log1p(MU * np.abs(scaled)) / np.log1p(MU))
    amplitude = np.expm1(np.abs(steps) / 127 * np.log1p(MU)) / MU
    decoded: Sound = FULL_SCALE * np.sign(steps) * amplitude
    return decoded


def rounded(sound: Sound) -> Samples:
    """Return the sound as 16-bit samples, clipped at full scale."""
    return np.clip(np.round(sound), -32768, 32767).astype(np.int16)
