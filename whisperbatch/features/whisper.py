"""Whisper's log-mel spectrogram, exact, by strided frames and batched real Fourier transforms.

Source: openai/whisper, whisper/audio.py, log_mel_spectrogram.

    samples    [reflected 200][============ n ============][zeros]
    frame 0    [------- 400 -------]
    frame 1          [------- 400 -------]          every 160 samples, n // 160 + 1 of them;
    frame 2                [------- 400 -------]    the last only counts for the peak
"""

from collections.abc import Iterator
from typing import Final

import numpy as np

from whisperbatch.features.mel import N_FFT, Array, MelFilters, log_normalise, silence_beside
from whisperbatch.types import HOP, Features, Samples

EDGE: Final = N_FFT // 2  # samples of a frame on either side of its centre
BLOCK: Final = 160
"""Frames worked on at a time: 0.6 MB of buffers, whatever the chunk's length, and they stay in the
processor's cache. 30 s in one block takes twice as long in the Fourier transform."""


class WhisperFeatures:
    """Whisper's own features, as its encoder was trained on. Thread-safe.

    The audio is reflected before its start and followed by zeros. That is what openai/whisper
    computes for a chunk that it pads with zeros to 30 s, and faster-whisper for any chunk: equal
    to `faster_whisper.feature_extractor.FeatureExtractor()(samples)[:, :-1]`. (At exactly 30 s
    openai/whisper also reflects the end, which changes its last frame alone.) Audio shorter than
    10 ms gives no frame.

    Args:
        n_mels: mel bands; Whisper's models want 80, large-v3 and its kin 128.
    """

    def __init__(self, n_mels: int) -> None:
        self.n_mels = n_mels
        self._filters = MelFilters(n_mels)
        # periodic: the first N_FFT of a symmetric window of one more
        self._window = np.hanning(N_FFT + 1)[:-1].astype(np.float32)

    def __call__(self, samples: Samples) -> Features:
        """See `protocols.FeatureExtractor`."""
        count = len(samples) // HOP
        mel = np.empty((self.n_mels, count), np.float32)
        beyond = np.empty((self.n_mels, 1), np.float32)
        if count:
            frames = np.lib.stride_tricks.sliding_window_view(pad(samples), N_FFT)[::HOP]
            for start, power in self._power(frames[:count]):
                self._filters(power, mel[:, start : start + len(power)])
            for _, power in self._power(frames[count : count + 1]):
                self._filters(power, beyond)
            log_normalise(mel, beyond)
        return mel

    def pad_value(self, features: Features) -> float:
        """See `protocols.FeatureExtractor`: the floor under the window's peak."""
        return silence_beside(features)

    def _power(self, frames: Array) -> Iterator[tuple[int, Array]]:
        """The power spectrum in blocks, each with its first frame's number.

        Each has shape (at most BLOCK, 201) and holds until the next one is taken.
        """
        rows = min(BLOCK, len(frames))
        windowed = np.empty((rows, N_FFT), np.float32)
        spectrum = np.empty((rows, N_FFT // 2 + 1), np.complex64)
        power = np.empty((rows, N_FFT // 2 + 1), np.float32)
        for start in range(0, len(frames), BLOCK):
            block = frames[start : start + BLOCK]
            size = len(block)
            np.multiply(block, self._window, out=windowed[:size])
            np.fft.rfft(
                windowed[:size],
                out=spectrum[:size],  # type: ignore[arg-type]  # NumPy's stub has complex128 alone
            )
            parts = spectrum[:size].view(np.float32)  # real and imaginary by turns
            np.multiply(parts, parts, out=parts)
            np.add(parts[:, 0::2], parts[:, 1::2], out=power[:size])
            yield start, power[:size]


def pad(samples: Samples) -> Samples:
    """`samples`, at least 160 of them, reflected by half a frame before, with zeros after."""
    padded = np.zeros(EDGE + max(len(samples), EDGE + 1) + EDGE, np.float32)
    audio = padded[EDGE:]
    audio[: len(samples)] = samples
    padded[:EDGE] = audio[EDGE:0:-1]
    return padded
