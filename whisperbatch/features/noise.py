"""Noise in a row: in noise, merging similar encoder positions costs words.

    level of    clear   ▁▂█▇▁▁▅█▃▁    noisy   ▅▅█▇▅▅▆█▅▅
    a mel band          range: 40 dB          range: 15 dB

Noise fills the pauses between syllables and words, so that the soft frames of a band are not far
below the loud frames.
"""

from typing import Final

import numpy as np
import numpy.typing as npt

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
