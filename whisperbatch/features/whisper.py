"""Whisper's log-mel spectrogram, exact, from strided frames and batched real Fourier transforms.

Source: openai/whisper, whisper/audio.py, log_mel_spectrogram.

    samples    [reflected 200][============ n ============][zeros]
    frame 0    [------- 400 -------]
    frame 1          [------- 400 -------]          every 160 samples, n // 160 + 1 of them;
    frame 2                [------- 400 -------]    the last only counts for the peak

Whisper's mel filters, and the logarithm and normalisation that follow them.

    power (frames, 201) -- MelFilters --> mel (n_mels, frames) -- log_normalise --> features

Filters: Slaney's mel scale and area normalisation (Auditory Toolbox, 1998), as in
librosa.filters.mel and in openai/whisper's assets/mel_filters.npz.
"""

import math
from collections.abc import Iterator
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from whisperbatch.types import HOP, SAMPLING_RATE, Features, Samples

Array: TypeAlias = npt.NDArray[np.float32]

N_FFT: Final = 400  # samples of Whisper's frame: 25 ms, so FFT bins are 40 Hz apart
MIN_POWER: Final = 1e-10  # Whisper raises smaller power to this value before the logarithm
DYNAMIC_RANGE: Final = 8.0  # powers of ten below the peak; smaller values are raised to this floor
SCALE: Final = 4.0  # a feature is (log10(power) + 4) / 4
SILENCE: Final = (math.log10(MIN_POWER) + SCALE) / SCALE  # -1.5: the feature of digital silence

BREAK_FREQUENCY: Final = 1000.0  # Hz: Slaney's scale is linear below, logarithmic above
LINEAR_STEP: Final = 200.0 / 3  # Hz per mel below the break frequency
BREAK_MEL: Final = BREAK_FREQUENCY / LINEAR_STEP
LOG_STEP: Final = math.log(6.4) / 27.0  # natural log of the frequency ratio per mel, above it

FILTERS_PER_BAND: Final = 16
"""Filters that are multiplied together. A filter covers few FFT bins, so nearly all of the complete
matrix is zeros. With bands of 16 filters the product takes half the time (0.66 ms instead of
1.36 ms for 30 s at 80 mel bands)."""

FRAMES_PER_PRODUCT: Final = 160
"""Frames in one matrix product: few enough that OpenBLAS starts no threads (its
GEMM_MULTITHREAD_THRESHOLD: 2 ** 18 multiplications), which would compete with the thread pool."""


class _Band(NamedTuple):
    filters: slice
    bins: slice
    weights: Array  # (filters, bins)


class MelFilters:
    """Sums power over Whisper's mel filters. Thread-safe.

    Args:
        n_mels: number of filters, from 0 Hz to 8 kHz.
        gain: factor on the power.
    """

    def __init__(self, n_mels: int, gain: float = 1.0) -> None:
        filters = mel_filters(n_mels) * np.float32(gain)
        self._bands: list[_Band] = []
        for first in range(0, n_mels, FILTERS_PER_BAND):
            band = filters[first : first + FILTERS_PER_BAND]
            used_bins = np.flatnonzero(band.any(axis=0))
            bins = (
                slice(int(used_bins[0]), int(used_bins[-1]) + 1) if len(used_bins) else slice(0, 1)
            )
            weights = np.ascontiguousarray(band[:, bins])
            self._bands.append(_Band(slice(first, first + len(band)), bins, weights))

    def __call__(self, power: Array, out: Array) -> None:
        """Write the mel spectrum of `power`, shape (frames, 201), to `out`, (n_mels, frames)."""
        for start in range(0, len(power), FRAMES_PER_PRODUCT):
            frames = slice(start, start + FRAMES_PER_PRODUCT)
            for band in self._bands:
                np.matmul(band.weights, power[frames, band.bins].T, out=out[band.filters, frames])


def log_normalise(mel: Array, extra_frames: Array) -> None:
    """Convert mel power to Whisper's features, in place.

    Args:
        mel: mel power, shape (n_mels, frames), any number of frames.
        extra_frames: mel power of further frames that count for the peak; stays unchanged.
    """
    # NumPy vectorises the natural logarithm on every x86 CPU with AVX2, log10 only with AVX-512.
    np.maximum(mel, np.float32(MIN_POWER), out=mel)
    peak = max(MIN_POWER, float(mel.max(initial=0)), float(extra_frames.max(initial=0)))
    np.log(mel, out=mel)
    log_10 = math.log(10)
    np.maximum(mel, np.float32(math.log(peak) - DYNAMIC_RANGE * log_10), out=mel)
    np.multiply(mel, np.float32(1 / (SCALE * log_10)), out=mel)
    np.add(mel, np.float32(1), out=mel)


def silence_value(features: Features) -> float:
    """Return the feature value of digital silence in the same window as `features`.

    openai/whisper pads the audio with zeros before it computes the log-mel spectrogram. Its padding
    therefore has the value of the floor below the window's peak, or the logarithm of the smallest
    power if that is higher.
    """
    if not features.size:
        return SILENCE
    return max(float(features.max()) - DYNAMIC_RANGE / SCALE, SILENCE)


def mel_filters(n_mels: int) -> Array:
    """Return triangular filters of equal area, evenly spaced in mel, shape (n_mels, 201)."""
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
    above_break = BREAK_FREQUENCY * np.exp(LOG_STEP * (mels - BREAK_MEL))
    return np.where(mels < BREAK_MEL, LINEAR_STEP * mels, above_break)


HALF_FRAME: Final = N_FFT // 2  # samples of a frame before and after its centre
FRAMES_PER_BLOCK: Final = 160
"""Frames computed at a time: the buffers take 0.6 MB for any length of the chunk, and stay in the
processor's cache. With 30 s in one block the Fourier transform takes twice as long."""


class WhisperFeatures:
    """The features that Whisper's encoder was trained on. Thread-safe.

    The audio is reflected before its start and followed by zeros. openai/whisper computes the same
    values for a chunk that it pads with zeros to 30 s, and faster-whisper for any chunk: equal
    to `faster_whisper.feature_extractor.FeatureExtractor()(samples)[:, :-1]`. (At exactly 30 s
    openai/whisper also reflects the end, which changes only its last frame.) Audio shorter than
    10 ms gives no frame.

    Args:
        n_mels: number of mel bands: 80, or 128 for large-v3 and its variants.
    """

    def __init__(self, n_mels: int) -> None:
        self.n_mels = n_mels
        self._filters = MelFilters(n_mels)
        # a periodic Hann window: the first N_FFT samples of a symmetric window of N_FFT + 1
        self._window = np.hanning(N_FFT + 1)[:-1].astype(np.float32)

    def __call__(self, samples: Samples) -> Features:
        """See `protocols.FeatureExtractor`."""
        count = len(samples) // HOP
        mel = np.empty((self.n_mels, count), np.float32)
        extra_frame = np.empty((self.n_mels, 1), np.float32)
        if count:
            frames = np.lib.stride_tricks.sliding_window_view(pad(samples), N_FFT)[::HOP]
            for start, power in self._power(frames[:count]):
                self._filters(power, mel[:, start : start + len(power)])
            for _, power in self._power(frames[count : count + 1]):
                self._filters(power, extra_frame)
            log_normalise(mel, extra_frame)
        return mel

    def pad_value(self, features: Features) -> float:
        """See `protocols.FeatureExtractor`. The value is the floor below the window's peak."""
        return silence_value(features)

    def _power(self, frames: Array) -> Iterator[tuple[int, Array]]:
        """Yield the power spectrum in blocks, each with the number of its first frame.

        A block has shape (at most FRAMES_PER_BLOCK, 201). The next block overwrites it.
        """
        rows = min(FRAMES_PER_BLOCK, len(frames))
        windowed = np.empty((rows, N_FFT), np.float32)
        power = np.empty((rows, N_FFT // 2 + 1), np.float32)
        for start in range(0, len(frames), FRAMES_PER_BLOCK):
            block = frames[start : start + FRAMES_PER_BLOCK]
            size = len(block)
            np.multiply(block, self._window, out=windowed[:size])
            spectrum = np.fft.rfft(windowed[:size])  # NumPy 1 computes in double precision
            # real and imaginary parts, alternating
            parts = spectrum.astype(np.complex64, copy=False).view(np.float32)
            np.multiply(parts, parts, out=parts)
            np.add(parts[:, 0::2], parts[:, 1::2], out=power[:size])
            yield start, power[:size]


def pad(samples: Samples) -> Samples:
    """Pad at least 160 samples: with half a frame of reflected samples before, and zeros after."""
    padded = np.zeros(HALF_FRAME + max(len(samples), HALF_FRAME + 1) + HALF_FRAME, np.float32)
    audio = padded[HALF_FRAME:]
    audio[: len(samples)] = samples
    padded[:HALF_FRAME] = audio[HALF_FRAME:0:-1]
    return padded
