"""Signals that behave as voices, noise and timecode in the measurements of channels."""

from collections.abc import Callable

import numpy as np

from whisperbatch.types import SAMPLING_RATE, Samples

SECONDS = 4.0


def noise(seed: int, seconds: float = SECONDS, level: float = 0.05) -> Samples:
    samples = np.random.default_rng(seed).standard_normal(round(seconds * SAMPLING_RATE))
    return (level * samples).astype(np.float32)


def voice(seed: int, seconds: float = SECONDS, level: float = 0.05) -> Samples:
    """Noise from 0 to 2 kHz in syllables of 0.1 to 0.3 s, with pauses; `level` is that of all."""
    rng = np.random.default_rng(1000 + seed)
    sound = np.convolve(noise(seed, seconds), np.ones(4) / 4, "same")
    envelope = np.full(len(sound), 0.003)
    start = 0
    while start < len(sound):
        length, pause = (int(SAMPLING_RATE * rng.uniform(0.1, 0.3)) for _ in range(2))
        envelope[start : start + length] = 1
        start += length + pause
    shaped = sound * np.convolve(envelope, np.hanning(400) / 200, "same")
    samples: Samples = (level * shaped / np.sqrt(np.mean(np.square(shaped)))).astype(np.float32)
    return samples


def timecode(seconds: float = SECONDS, level: float = 0.05) -> Samples:
    """A square wave that changes between 1000 and 2000 Hz at random, as the bits of LTC do."""
    bits = np.random.default_rng(7).integers(0, 2, round(seconds * 2000))
    halves = np.repeat(np.where(np.arange(len(bits)) % 2, 1.0, -1.0), 8).reshape(-1, 8)
    halves[bits == 1, 4:] *= -1
    return (level * halves.ravel()).astype(np.float32)


def counter(*voices: Samples, least: float = 0.45) -> Callable[[Samples], int]:
    """A stand-in for the VAD: counts speech where a sound is similar to one of the voices."""

    def count(sound: Samples) -> int:
        known = [voice[: len(sound)] for voice in voices]
        fits = [
            abs(float(np.dot(sound, voice)))
            / float(np.linalg.norm(sound) * np.linalg.norm(voice) + 1e-9)
            for voice in known
        ]
        return 60 if max(fits, default=0.0) > least else 0

    return count


def relative_level(mix: Samples, wanted: Samples) -> float:
    """The level of `wanted` in a mix relative to everything else in the mix, in dB."""
    share = float(np.dot(mix, wanted) / np.dot(wanted, wanted))
    rest = mix - share * wanted
    signal = share**2 * float(np.mean(np.square(wanted)))
    return float(10 * np.log10((signal + 1e-12) / (float(np.mean(np.square(rest))) + 1e-12)))
