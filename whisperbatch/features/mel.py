"""Whisper's mel filters, and the log and normalisation that follow them.

    power (frames, 201) -- MelFilters --> mel (n_mels, frames) -- log_normalise --> features

Filters: Slaney's mel scale and area normalisation (Auditory Toolbox, 1998), as
librosa.filters.mel and openai/whisper's assets/mel_filters.npz have them.
"""

import math
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from whisperbatch.types import SAMPLING_RATE, Features

Array: TypeAlias = npt.NDArray[np.float32]

N_FFT: Final = 400  # samples in Whisper's frame: 25 ms, 40 Hz from bin to bin
TINY: Final = 1e-10  # least power that Whisper takes the logarithm of
DYNAMIC_RANGE: Final = 8.0  # in powers of ten: what is further below the peak is raised to there
SCALE: Final = 4.0  # a feature is (log10(power) + 4) / 4
SILENCE: Final = (math.log10(TINY) + SCALE) / SCALE  # -1.5: the feature of digital silence

BREAK_FREQUENCY: Final = 1000.0  # Hz: Slaney's scale is linear below, logarithmic above
LINEAR_STEP: Final = 200.0 / 3  # Hz a mel below it
BREAK_MEL: Final = BREAK_FREQUENCY / LINEAR_STEP
LOG_STEP: Final = math.log(6.4) / 27.0  # natural log of the ratio of frequencies a mel above it

BAND: Final = 16
"""Filters that are multiplied together. A filter covers few bins, so the whole matrix is nearly
all zeros: in bands of 16 the product takes half the time (0.66 ms for 1.36 ms, 30 s at 80 mels)."""

PRODUCT: Final = 160
"""Frames in one product: few enough that OpenBLAS starts no threads of its own (its
GEMM_MULTITHREAD_THRESHOLD: 2 ** 18 multiplications), which would fight those of the pool."""


class _Band(NamedTuple):
    filters: slice
    bins: slice
    weights: Array  # (filters, bins)


class MelFilters:
    """Sums power over Whisper's mel filters. Thread-safe.

    Args:
        n_mels: how many filters, from 0 Hz to 8 kHz.
        gain: factor on the power.
    """

    def __init__(self, n_mels: int, gain: float = 1.0) -> None:
        filters = mel_filters(n_mels) * np.float32(gain)
        self._bands: list[_Band] = []
        for first in range(0, n_mels, BAND):
            band = filters[first : first + BAND]
            used = np.flatnonzero(band.any(axis=0))
            bins = slice(int(used[0]), int(used[-1]) + 1) if len(used) else slice(0, 1)
            weights = np.ascontiguousarray(band[:, bins])
            self._bands.append(_Band(slice(first, first + len(band)), bins, weights))

    def __call__(self, power: Array, out: Array) -> None:
        """Write the mel spectrum of `power`, shape (frames, 201), to `out`, (n_mels, frames)."""
        for start in range(0, len(power), PRODUCT):
            frames = slice(start, start + PRODUCT)
            for band in self._bands:
                np.matmul(band.weights, power[frames, band.bins].T, out=out[band.filters, frames])


def log_normalise(mel: Array, beyond: Array) -> None:
    """Turn mel power into Whisper's features, in place.

    Args:
        mel: shape (n_mels, frames), any number of frames.
        beyond: power outside `mel` that counts when the peak is looked for; it is not changed.
    """
    # The natural logarithm is vectorised in NumPy on every x86 with AVX2, log10 only with AVX-512.
    np.maximum(mel, np.float32(TINY), out=mel)
    peak = max(TINY, float(mel.max(initial=0)), float(beyond.max(initial=0)))
    np.log(mel, out=mel)
    decade = math.log(10)
    np.maximum(mel, np.float32(math.log(peak) - DYNAMIC_RANGE * decade), out=mel)
    np.multiply(mel, np.float32(1 / (SCALE * decade)), out=mel)
    np.add(mel, np.float32(1), out=mel)


def silence_beside(features: Features) -> float:
    """The value that digital silence has in the same window as `features`.

    openai/whisper pads the audio with zeros before the log-mel, so that its padding lies on the
    floor under the window's peak, or where the logarithm is clamped if that is higher.
    """
    if not features.size:
        return SILENCE
    return max(float(features.max()) - DYNAMIC_RANGE / SCALE, SILENCE)


def mel_filters(n_mels: int) -> Array:
    """Triangular filters of equal area, evenly spaced in mel, shape (n_mels, 201)."""
    bins = np.fft.rfftfreq(N_FFT, 1 / SAMPLING_RATE)
    corners = _to_hertz(np.linspace(0, _to_mel(SAMPLING_RATE / 2), n_mels + 2))
    low, centre, high = (corners[first : first + n_mels, None] for first in range(3))
    triangles = np.minimum((bins - low) / (centre - low), (high - bins) / (high - centre))
    area = (high - low) / 2
    return (np.maximum(triangles, 0) / area).astype(np.float32)


def _to_mel(hertz: float) -> float:
    if hertz < BREAK_FREQUENCY:
        return hertz / LINEAR_STEP
    return BREAK_MEL + math.log(hertz / BREAK_FREQUENCY) / LOG_STEP


def _to_hertz(mels: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    above = BREAK_FREQUENCY * np.exp(LOG_STEP * (mels - BREAK_MEL))
    return np.where(mels < BREAK_MEL, LINEAR_STEP * mels, above)
