"""The feature extractor that programs use as `WhisperModel.feature_extractor`."""

import numpy as np
import numpy.typing as npt

from whisperbatch.features import WhisperFeatures
from whisperbatch.types import HOP, SAMPLING_RATE, WINDOW, WINDOW_FRAMES, Features


class FeatureExtractor:
    """Whisper's log-mel spectrogram of samples of any length.

    Args:
        n_mels: number of mel bands.
    """

    sampling_rate = SAMPLING_RATE
    hop_length = HOP
    chunk_length = WINDOW // SAMPLING_RATE
    n_samples = WINDOW
    nb_max_frames = WINDOW_FRAMES
    time_per_frame = HOP / SAMPLING_RATE

    def __init__(self, n_mels: int) -> None:
        self._extract = WhisperFeatures(n_mels)

    def __call__(self, waveform: npt.NDArray[np.float32], padding: int = HOP) -> Features:
        """Return features of shape (n_mels, n_frames).

        Args:
            waveform: samples at 16 kHz, of shape (n_samples,).
            padding: number of zeros appended to the samples.
        """
        return self._extract(np.pad(np.asarray(waveform, np.float32), (0, padding)))
