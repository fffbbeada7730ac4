"""How similar two stretches of sound are: the same words again, or the same voice on two channels.

    "one"   bands  ▁▅█▃▁        "one"   bands  ▁▄█▃▁        0.9
    "one"   bands  ▁▅█▃▁        "two"   bands  █▂▃▆▂        0.2

The measure is the correlation of the levels of frequency bands after their means are removed, as
in the search for repeated phrases in speech (Park and Glass 2008, "Unsupervised pattern discovery
in speech"). A steady sound has no such pattern: two stretches of noise, hum or an engine have a
correlation near 0.
"""

import math
from functools import cache
from typing import Final

import numpy as np
import numpy.typing as npt

from whisperbatch.types import SAMPLING_RATE, Samples

FRAME: Final = 512  # samples, 32 ms
HOP: Final = 160  # samples from one frame to the next: 10 ms
BANDS: Final = 20
LIMITS: Final = (150.0, 6000.0)  # Hz
RANGE: Final = 50.0  # dB below the loudest band: softer is silence
MIN_DEVIATION: Final = 1.0  # dB; white noise has 2 to 6, speech 10 to 15
MIN_POWER: Final = 1e-7  # of a band in a frame of silence

BandLevels = npt.NDArray[np.float32]
"""Level of each band in dB, shape (n_frames, BANDS); frame n is centred at sample n * HOP."""


def band_levels(samples: Samples) -> BandLevels:
    """Return the levels of frequency bands, one frame every 10 ms.

    Args:
        samples: shape (n_samples,), at most some minutes.
    """
    padded = np.pad(samples, (FRAME // 2, FRAME // 2), "edge")
    frames = np.lib.stride_tricks.sliding_window_view(padded, FRAME)[::HOP]
    window = np.hanning(FRAME).astype(np.float32)
    power = np.abs(np.fft.rfft(frames * window, axis=1)) ** 2
    levels = 10 * np.log10(np.maximum(power @ _filters().T, MIN_POWER))
    floor = levels.max(initial=-np.inf) - RANGE
    result: BandLevels = np.maximum(levels, floor).astype(np.float32)
    return result


def correlations(pattern: BandLevels, levels: BandLevels) -> npt.NDArray[np.float64]:
    """Return the correlation of a pattern with the levels from each frame on.

    Args:
        pattern: at least one frame.
        levels: in which the pattern is searched.

    Returns:
        From -1 to 1, shape (n_frames - n_pattern + 1,); 0 where one of the two is steady. Empty if
        the pattern is longer than the levels.
    """
    length, count = len(pattern), len(levels) - len(pattern) + 1
    if count < 1:
        return np.zeros(0)
    centred = pattern.astype(np.float64) - pattern.mean(axis=0)
    values = levels.astype(np.float64) - levels.mean(axis=0)
    size = 1 << (len(levels) + length - 1).bit_length()
    spectrum = np.fft.rfft(values, size, axis=0) * np.fft.rfft(centred, size, axis=0).conj()
    products = np.fft.irfft(spectrum.sum(axis=1), size)[:count]
    sums = np.cumsum(np.pad(values, ((1, 0), (0, 0))), axis=0)
    squares = np.cumsum(np.pad(values**2, ((1, 0), (0, 0))), axis=0)
    means = (sums[length:] - sums[:-length]) ** 2 / length
    power = np.sum(squares[length:] - squares[:-length] - means, axis=1)
    scale = np.sqrt(np.maximum(power, 0.0) * np.sum(centred**2))
    steady = scale < MIN_DEVIATION**2 * length
    return np.where(steady, 0.0, np.clip(products / np.maximum(scale, 1e-9), -1.0, 1.0))


def has_pattern(levels: BandLevels) -> bool:
    """Return whether the levels of a stretch change: a steady tone or silence has no pattern."""
    return bool(len(levels)) and float(levels.std(axis=0).mean()) >= MIN_DEVIATION


@cache
def _filters() -> npt.NDArray[np.float32]:
    """Return which frequencies belong to each band, in equal steps on the mel scale."""
    low, high = map(_mel, LIMITS)
    steps = [(_mel(n * SAMPLING_RATE / FRAME) - low) / (high - low) for n in range(FRAME // 2 + 1)]
    bands = np.floor(np.array(steps) * BANDS)
    filters: npt.NDArray[np.float32] = np.equal.outer(np.arange(BANDS), bands).astype(np.float32)
    return filters


def _mel(hertz: float) -> float:
    return 2595 * math.log10(1 + hertz / 700)
