"""Sounds that differ as words differ: each is a sequence of bands of noise of its own."""

import zlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tests.unit.fakes import noise
from whisperbatch.segmentation.timed_text import AlignedWord
from whisperbatch.types import SAMPLING_RATE, Chunk, Samples, SpeechSpan

PHONE = 1600  # samples of a sound within a word: 0.1 s


def word(text: str, seed: int = 0) -> Samples:
    """The sound of a word, of 0.4 s: equal bands for equal text, with other noise for each seed."""
    rng = np.random.default_rng(zlib.crc32(text.encode()))
    hertz = np.fft.rfftfreq(PHONE, 1 / SAMPLING_RATE)
    parts: list[npt.NDArray[np.float64]] = []
    for number in range(4):
        low = rng.uniform(200, 4000)
        spectrum = np.fft.rfft(noise(PHONE / SAMPLING_RATE, seed * 10 + number))
        inside = (hertz >= low) & (hertz < low * 1.6)
        parts.append(np.fft.irfft(spectrum * (0.02 + inside), PHONE) * rng.uniform(0.3, 1.0))
    return np.concatenate(parts).astype(np.float32)


def spoken_chunk(
    sounds: Sequence[str], pause: float = 0.3, *, under: float = 0.001
) -> tuple[Chunk, list[tuple[int, int]]]:
    """A chunk in which words are said, and where each of them lies; "" is noise for 0.4 s.

    All of the chunk is one speech span. The noise in the pauses has the level `under`.
    """
    parts: list[Samples] = []
    places: list[tuple[int, int]] = []
    position = 0
    for number, text in enumerate(sounds):
        sound = word(text, number) if text else noise(0.4, number)
        places.append((position, position + len(sound)))
        parts += [sound, np.zeros(round(pause * SAMPLING_RATE), np.float32)]
        position += len(parts[-2]) + len(parts[-1])
    samples = np.concatenate(parts) + under * noise(position / SAMPLING_RATE, 99) * 10
    span = SpeechSpan(0, position)
    return Chunk(0, 0, (span,), (span,), samples.astype(np.float32)), places


def aligned(text: str, start: int, end: int) -> AlignedWord:
    """A word with its place in samples."""
    return AlignedWord(f" {text}", start, end, 0.9, 0, (start, end))
