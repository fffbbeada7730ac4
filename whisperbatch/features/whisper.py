"""Whisper's log-mel spectrogram, exact, from strided frames and batched real Fourier transforms.

Source: openai/whisper, whisper/audio.py, log_mel_spectrogram.

    samples    [reflected 200][============ n ============][zeros]
    frame 0    [------- 400 -------]
    frame 1          [------- 400 -------]          every 160 samples, n // 160 + 1 of them;
    frame 2                [------- 400 -------]    the last only counts for the peak
"""

from collections.abc import Iterator
from typing import Final

import numpy as np

from whisperbatch.features.mel import N_FFT, Array, MelFilters, log_normalise, silence_value
from whisperbatch.types import HOP, Features, Samples

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
