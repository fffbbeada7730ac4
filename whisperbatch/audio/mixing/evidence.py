"""Measurements of the channels in a few seconds of audio: products of all pairs, frame by frame.

Everything that the choice needs follows from the products <x_i, x_j> of the channels and the plain
mix in frames of 50 ms: levels, correlations, and how much of a channel another mix contains.

Products are measured twice, at 8 kHz: of the sound itself, and of its speech band. The band is the
difference of two samples that lie 0.25 ms apart: nothing at 0 and 4000 Hz, all at 2000 Hz, half of
the amplitude at 670 Hz, and 28 dB less at 50 Hz (hum).
"""

from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
from typing_extensions import Self

from whisperbatch.audio.mixing.blocks import ChannelBlock
from whisperbatch.types import SAMPLING_RATE

FRAME: Final = SAMPLING_RATE // 20  # samples, 50 ms: syllables last 100 to 300 ms
LAG: Final = 2  # samples at 8 kHz, 0.25 ms
MAX_COMPARED: Final = 16  # channels; of more, the loudest and the most varied are compared
SILENCE: Final = 1e-9  # mean square: -90 dBFS, the rounding of 16-bit samples

Products: TypeAlias = npt.NDArray[np.float64]
"""Shape (n_frames, 1 + n_channels, 1 + n_channels); the plain mix comes first. Mean products of
samples, so that the diagonal is a mean square."""


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """Products of channels.

    Attributes:
        speech_band: of the speech band.
        full_band: of the sound itself.
        numbers: the compared channels, counted from 0; shape (n_compared,).
        n_channels: number of channels of the recording.
    """

    speech_band: Products
    full_band: Products
    numbers: npt.NDArray[np.int64]
    n_channels: int

    @classmethod
    def of(cls, block: ChannelBlock) -> Self | None:
        """Measure a block; None if it is shorter than a frame, or has NaN or infinite samples."""
        count = len(block) // FRAME
        if not count:
            return None
        with np.errstate(over="ignore", invalid="ignore"):
            return cls._measured(block.part(0, count * FRAME))

    @classmethod
    def _measured(cls, block: ChannelBlock) -> Self | None:
        # neighbours added: 8 kHz, and a zero at the new rate's highest frequency
        halves = block.channels[::2] + block.channels[1::2]
        numbers = _compared(halves)
        halves = np.ascontiguousarray(halves[:, numbers].T)  # shape (n_compared, n_samples)
        is_mean = block.is_averaged and len(numbers) == block.channels.shape[1]
        if not is_mean:
            mixed = block.mixed[::2] + block.mixed[1::2]
            halves = np.concatenate((mixed[None], halves))
        halves *= np.float32(0.5)
        full = _products(halves)
        band = _products(_speech_band(halves))
        if is_mean:
            full, band = _with_mean(full), _with_mean(band)
        if not (np.isfinite(full).all() and np.isfinite(band).all()):
            return None
        return cls(band, full, numbers, block.channels.shape[1])


def _speech_band(sound: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Return the speech band of signals, shape (n_signals, n_samples)."""
    band = np.zeros_like(sound)
    np.subtract(sound[:, LAG:], sound[:, :-LAG], out=band[:, LAG:])
    return band


def _products(sound: npt.NDArray[np.float32]) -> Products:
    """Return the mean products of all pairs of signals, shape (n_signals, n_samples)."""
    frames = sound.reshape(len(sound), -1, FRAME // 2).transpose(1, 0, 2)
    products: Products = (frames @ frames.transpose(0, 2, 1)).astype(np.float64)
    products /= FRAME // 2
    return products


def _with_mean(products: Products) -> Products:
    """Return the products with those of the mean of all signals before them."""
    count = products.shape[1]
    rows = np.concatenate((np.full((1, count), 1 / count), np.eye(count)))
    result: Products = rows @ products @ rows.T
    return result


def _compared(halves: npt.NDArray[np.float32]) -> npt.NDArray[np.int64]:
    """Return the numbers of the channels that are compared: of many, the likeliest."""
    count = halves.shape[1]
    if count <= MAX_COMPARED:
        return np.arange(count)
    squares = np.square(_speech_band(halves.T).T)
    powers = squares.reshape(-1, FRAME // 2, count).mean(axis=1).astype(np.float64)
    levels = np.log(np.maximum(powers, SILENCE))
    ranges = np.percentile(levels, 98, axis=0) - np.percentile(levels, 10, axis=0)
    varied = np.argsort(-ranges, kind="stable")[: MAX_COMPARED // 2]
    loud = np.argsort(-powers.sum(axis=0), kind="stable")
    others = loud[~np.isin(loud, varied)][: MAX_COMPARED - len(varied)]
    return np.sort(np.concatenate((varied, others))).astype(np.int64)
