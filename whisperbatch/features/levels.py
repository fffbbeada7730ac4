r"""Remove steady sound, and raise soft speech to the level of the loudest speech in its chunk.

    before   __/^^^^^\____________/--\____       a loud voice, then a soft voice
    after    __/^^^^^\____________/^^\____

After a loud voice, Whisper skips a soft voice in the same window. The speech spans of a chunk are
therefore raised to one level before the features. The level changes gradually in the pauses. Speech
is never attenuated, and the samples of the chunk are unchanged. Hum and other steady sound that is
louder than the speech is removed before (`vad.steady_sound`).
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from whisperbatch.types import Chunk, Samples
from whisperbatch.vad.levels import quantile_of
from whisperbatch.vad.steady_sound import without_steady_sound

FRAME: Final = 512  # samples (32 ms) in one measurement of the level
LOUD: Final = 0.9  # quantile of the levels of a span that is the level of its speech
MARGIN: Final = 3.0  # decibels: difference between two spans that remains
MAX_GAIN: Final = 30.0  # decibels
MIN_POWER: Final = 1e-10  # mean square of a silent span: -100 dB


def level_speech(chunk: Chunk) -> Samples:
    """Return the samples of a chunk with speech spans of similar levels, without steady sound.

    If there is no steady sound, and no span is more than `MARGIN` softer than the loudest span, the
    chunk's own samples are returned. Samples can exceed the range from -1 to 1.
    """
    spans = [(chunk.chunk_time(span.start), chunk.chunk_time(span.end)) for span in chunk.speech]
    samples = without_steady_sound(chunk.samples)
    levels = np.array([_level(samples[start:end]) for start, end in spans])
    gains = np.clip(levels.max(initial=-np.inf) - MARGIN - levels, 0.0, MAX_GAIN)
    if not gains.any():
        return samples
    return samples * _factors(spans, gains, len(samples))


def _factors(
    spans: Sequence[tuple[int, int]], gains: npt.NDArray[np.float64], count: int
) -> Samples:
    """Return the factor of each sample: constant in a span, changing linearly (in dB) in a pause.

    Args:
        spans: first sample of each span, and the sample after its last, in order.
        gains: of the spans, in decibels.
        count: number of samples.
    """
    factors = np.empty(count, np.float32)
    position, gain = 0, gains[:1]
    for (start, end), own in zip(spans, np.split(gains, len(gains)), strict=True):
        pause = np.arange(position, start)
        changing = np.interp(pause, (position, start), np.concatenate((gain, own)))
        factors[position:start] = 10 ** (changing / 20)
        factors[start:end] = 10 ** (own / 20)
        position, gain = end, own
    factors[position:] = 10 ** (gain / 20)
    return factors


def _level(samples: Samples) -> float:
    """Return the level of a span in dBFS: the level of its loud frames."""
    frame = min(FRAME, len(samples))
    frames = samples[: len(samples) // frame * frame].reshape(-1, frame)
    powers = np.einsum("ij,ij->i", frames, frames) / frame
    power: float = max(quantile_of(powers, LOUD), MIN_POWER)  # type: ignore[assignment]
    return float(10 * np.log10(power))
