"""Measures of sound: whether a row has noise, and how similar two stretches of sound are.

Noise: in noise, merging similar encoder positions costs words.

    level of    clear   ▁▂█▇▁▁▅█▃▁    noisy   ▅▅█▇▅▅▆█▅▅
    a mel band          range: 40 dB          range: 15 dB

Noise fills the pauses between syllables and words, so that the soft frames of a band are not far
below the loud frames.

Similarity: the same words again, or the same voice on two channels.

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

MIN_RANGE: Final = 24.0
"""Decibels: rows with a smaller range are noisy.

71 recordings of two minutes in five languages were decoded with base (greedy search). With half of
the frames, ten recordings with pink noise at 10 dB or cafe noise (12 to 21 dB in their median row)
had 5.2 points more word errors. The other 61 (26 to 50 dB: prompts, read speech, telephone, music
under speech, difficult voices) had 0.3 points more.
"""

MIN_FRAMES: Final = 100  # feature frames with sound: 1 s; with fewer, the range is unknown
STEP: Final = 4  # every 40 ms one frame is enough, and takes less than 1 ms for a row of 30 s
SOFT: Final = 0.1  # quantile of the levels of a band
LOUD: Final = 0.9
DECIBELS: Final = 40.0  # per unit of Whisper's log-mel features: 10 * log10, divided by 4


FRAME: Final = 512  # samples, 32 ms
HOP: Final = 160  # samples from one frame to the next: 10 ms
BANDS: Final = 20
LIMITS: Final = (150.0, 6000.0)  # Hz
RANGE: Final = 50.0  # dB below the loudest band: softer is silence
MIN_DEVIATION: Final = 1.0  # dB; white noise has 2 to 6, speech 10 to 15
MIN_POWER: Final = 1e-7  # of a band in a frame of silence

BandLevels = npt.NDArray[np.float32]
"""Level of each band in dB, shape (n_frames, BANDS); frame n is centred at sample n * HOP."""


def share_to_keep(features: npt.NDArray[np.float32], kept_frames: float) -> float:
    """Return the share of a row's encoder positions that is left: 1 if the row is not clear.

    A row with less than a second of sound keeps all positions, too.

    Args:
        features: of one row, shape (n_mels, frames).
        kept_frames: the share for a clear row.
    """
    decibels = mean_range(features)
    return 1.0 if decibels is None or decibels < MIN_RANGE else kept_frames


def is_noisy(features: npt.NDArray[np.float32]) -> bool:
    """Return whether a row has noise; False with less than a second of sound.

    Args:
        features: of one row, shape (n_mels, frames).
    """
    decibels = mean_range(features)
    return decibels is not None and decibels < MIN_RANGE


def mean_range(features: npt.NDArray[np.float32]) -> float | None:
    """Return the mean range of a row's mel bands in decibels; None with too few frames of sound.

    The range of a band is the level of its loud frames minus the level of its soft frames. Frames
    of digital silence and of padding do not count. Other features than Whisper's log-mel have other
    units, so that this measure does not apply to them.

    Args:
        features: of one row, shape (n_mels, frames).
    """
    frames = features[:, ::STEP]
    frames = frames[:, (frames > features.min()).any(axis=0)]
    count = frames.shape[1]
    if count * STEP < MIN_FRAMES:
        return None
    soft, loud = int(SOFT * count), int(LOUD * count)
    levels = np.partition(frames, [soft, loud], axis=1)
    return float(DECIBELS * np.mean(levels[:, loud] - levels[:, soft]))


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
