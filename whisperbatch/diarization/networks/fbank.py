"""Kaldi's filter bank: the input of the speaker embedding.

    frame t = samples 160 t to 160 t + 400, less their mean
      -> pre-emphasis -> Povey's window -> power spectrum of 512 -> 80 mel filters -> logarithm

A frame depends only on its own samples, so the features of a window are a slice of the features of
a longer stretch; equal up to rounding, as a matrix product may add in another order at the edge of
a block. The network expects the mean over the frames of each window to be removed; the caller does
that.

Source: Kaldi, feat/feature-fbank.h and feat/mel-computations.h, with the options of 3D-Speaker: 80
bins, no dither, otherwise defaults.
"""

from typing import Final

import numpy as np
import numpy.typing as npt

from whisperbatch.runtimes.matrix_products import product
from whisperbatch.types import SAMPLING_RATE, Features, Samples

FRAME: Final = 400  # samples: 25 ms
HOP: Final = 160  # samples: 10 ms
N_FFT: Final = 512  # samples, the next power of two
BANDS: Final = 80
LOW: Final = 20.0  # Hz: lower edge of the first filter
HIGH: Final = SAMPLING_RATE / 2  # Hz: upper edge of the last filter
PREEMPHASIS: Final = 0.97
POVEY_EXPONENT: Final = 0.85  # Povey's window is a Hann window to this power
SCALE: Final = 2.0**15  # from samples between -1 and 1 to 16-bit integers
MIN_ENERGY: Final = float(np.finfo(np.float32).eps)  # smaller energy is raised to this value
FRAMES_PER_BLOCK: Final = 160  # computed at a time: the buffers take 1 MB for any length


class Fbank:
    """Computes the filter bank of CAM++. Thread-safe."""

    def __init__(self) -> None:
        # Removing the mean and pre-emphasis are linear, but as a matrix they would take longer.
        window = np.hanning(FRAME) ** POVEY_EXPONENT
        self._window = (window * SCALE).astype(np.float32)
        self._filters = np.ascontiguousarray(kaldi_filters().T)  # (256, 80)

    def __call__(self, samples: Samples) -> Features:
        """Return the logarithms of the mel energies.

        Args:
            samples: at 16 kHz, between -1 and 1, shape (n,).

        Returns:
            float32, shape (frames, 80), with 1 + (n - 400) // 160 frames; no frame for less than
            400 samples.
        """
        count = frame_count(len(samples))
        features = np.empty((count, BANDS), np.float32)
        if count:
            audio = np.ascontiguousarray(samples, np.float32)
            frames = np.lib.stride_tricks.sliding_window_view(audio, FRAME)[::HOP]
            for start in range(0, count, FRAMES_PER_BLOCK):
                block = slice(start, start + FRAMES_PER_BLOCK)
                product(self._power(frames[block]), self._filters, features[block])
            np.maximum(features, np.float32(MIN_ENERGY), out=features)
            np.log(features, out=features)
        return features

    def _power(self, frames: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Return the power of frames (n, 400) in FFT bins (n, 256), without the highest bin."""
        centred = frames - frames.mean(axis=1, keepdims=True)
        emphasised = np.empty_like(centred)
        np.multiply(centred[:, :-1], np.float32(-PREEMPHASIS), out=emphasised[:, 1:])
        np.add(emphasised[:, 1:], centred[:, 1:], out=emphasised[:, 1:])
        # Kaldi takes the first sample as its own predecessor
        np.multiply(centred[:, 0], np.float32(1 - PREEMPHASIS), out=emphasised[:, 0])
        np.multiply(emphasised, self._window, out=emphasised)
        spectrum = np.fft.rfft(emphasised, N_FFT)[:, :-1]  # NumPy 1 computes in double precision
        power = spectrum.real**2 + spectrum.imag**2
        return power.astype(np.float32, copy=False)


def frame_count(samples: int) -> int:
    """Return the number of frames of a number of samples."""
    return max(0, 1 + (samples - FRAME) // HOP)


def kaldi_filters() -> npt.NDArray[np.float32]:
    """Return Kaldi's filters, triangles over mel, shape (80, 256)."""
    mels = _to_mel(np.arange(N_FFT // 2, dtype=np.float64) * SAMPLING_RATE / N_FFT)
    low, high = _to_mel(np.array([LOW, HIGH]))
    edges = np.linspace(low, high, BANDS + 2)[:, None]
    rising = (mels - edges[:-2]) / (edges[1:-1] - edges[:-2])
    falling = (edges[2:] - mels) / (edges[2:] - edges[1:-1])
    filters: npt.NDArray[np.float32] = np.maximum(np.minimum(rising, falling), 0).astype(np.float32)
    return filters


def _to_mel(hertz: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return 1127.0 * np.log1p(hertz / 700.0)
