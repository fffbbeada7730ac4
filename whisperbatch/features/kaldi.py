"""Features on Kaldi's frames, computed by torchaudio.compliance.kaldi. Needs the extra `kaldi`.

There are two kinds, for comparison:

    KaldiMel    Kaldi's frames and Fourier transform, then Whisper's mel filters and logarithm:
                nearly equal to Whisper's features
    KaldiFbank  Kaldi's complete filter bank, normalised with AudioSet's mean and deviation as in
                AST (https://github.com/YuanGongND/ast): pre-emphasis, another mel scale, natural
                logarithm, no floor below the peak; Whisper was not trained on these features

Only public functions of torchaudio are used. PyTorch is imported when an extractor is created. Its
number of threads applies to the whole process and is not changed here. If a thread pool calls the
extractors, PyTorch is fastest with one thread per call: set OMP_NUM_THREADS=1, unless other code
of the process needs more threads.
"""

import importlib
import math
import sys
from typing import Any, Final

import numpy as np

from whisperbatch.errors import MissingExtraError
from whisperbatch.features.whisper import N_FFT, MelFilters, log_normalise, pad, silence_value
from whisperbatch.types import HOP, Features, Samples

FRAMES_PER_CALL: Final = 320
"""Frames that KaldiMel computes in one call of PyTorch: 30 s take 5.0 ms. They take 8.0 ms in one
call, and 7.5 ms in calls of 160 frames, because of PyTorch's overhead per call."""

KALDI_SCALE: Final = 2.0**15
"""Factor from samples between -1 and 1 to Kaldi's samples, which are 16-bit integers.

Kaldi's spectrogram raises smaller power to float32's epsilon, 1.2e-7. For samples between -1 and 1
this is far above Whisper's minimum, 1e-10; at Kaldi's scale it is far below."""

# AST's mean and standard deviation of fbank over AudioSet, for samples between -1 and 1. At Kaldi's
# scale every feature would be 2.3 higher (20.8 / 9.14).
FBANK_MEAN: Final = -4.2677393
FBANK_DEVIATION: Final = 4.5689974
FBANK_SILENCE: Final = (math.log(2.0**-23) - FBANK_MEAN) / (2 * FBANK_DEVIATION)  # -1.28


class KaldiMel:
    """Whisper's mel filters, logarithm and floor on Kaldi's spectrogram. Thread-safe.

    The frames are those of Whisper's features. Dither, pre-emphasis, the removal of the mean and
    the rounding of 25 ms to a power of two are off. One difference remains: Kaldi's Hann window is
    symmetric, Whisper's is periodic. On speech the features differ by 0.0007 on average, and by
    0.25 at most, in mel bands that contain only the side lobes of a strong tone.

    Args:
        n_mels: number of mel bands.

    Raises:
        MissingExtraError: PyTorch or torchaudio is not installed or does not load.
    """

    def __init__(self, n_mels: int) -> None:
        self.n_mels = n_mels
        self._torch, self._kaldi = load_torchaudio()
        self._filters = MelFilters(n_mels, gain=KALDI_SCALE**-2)

    def __call__(self, samples: Samples) -> Features:
        """See `protocols.FeatureExtractor`."""
        count = len(samples) // HOP
        mel = np.empty((self.n_mels, count), np.float32)
        extra_frame = np.empty((self.n_mels, 1), np.float32)
        if count:
            padded = pad(samples)
            padded *= np.float32(KALDI_SCALE)
            for start in range(0, count, FRAMES_PER_CALL):
                end = min(start + FRAMES_PER_CALL, count)
                self._spectrum(padded, start, end, mel[:, start:end])
            # as in whisper.py, the last frame only counts for the peak
            self._spectrum(padded, count, count + 1, extra_frame)
            log_normalise(mel, extra_frame)
        return mel

    def pad_value(self, features: Features) -> float:
        """See `protocols.FeatureExtractor`. The value is the floor below the window's peak."""
        return silence_value(features)

    def _spectrum(self, padded: Samples, start: int, end: int, out: Features) -> None:
        """Write the mel power of frames `start` to `end` to `out`, (n_mels, end - start)."""
        audio = padded[start * HOP : (end - 1) * HOP + N_FFT]
        with self._torch.inference_mode():
            # (frames, 201), natural log; the lowest bin contains the frame's energy, but no filter
            # covers that bin
            log_power = self._kaldi.spectrogram(
                self._torch.from_numpy(audio)[None],
                window_type="hanning",
                preemphasis_coefficient=0.0,
                remove_dc_offset=False,
                round_to_power_of_two=False,
            )
            self._filters(log_power.exp_().numpy(), out)


class KaldiFbank:
    """Kaldi's log filter bank as published for AST, but with Whisper's number of mel bands.

    torchaudio.compliance.kaldi.fbank gets samples between -1 and 1, a Hann window, and otherwise
    default arguments. AudioSet's mean is subtracted from its output, and the difference divided by
    twice AudioSet's deviation. On speech the features have a mean of -0.2 and a deviation of 0.5.
    Frame t covers samples 160 t to 160 t + 400, so its centre is 12.5 ms later than the centre of
    Whisper's frame t. With 240 zeros after the end there are n // 160 frames. Thread-safe.

    Args:
        n_mels: number of mel bands.

    Raises:
        MissingExtraError: PyTorch or torchaudio is not installed or does not load.
    """

    def __init__(self, n_mels: int) -> None:
        self.n_mels = n_mels
        self._torch, self._kaldi = load_torchaudio()

    def __call__(self, samples: Samples) -> Features:
        """See `protocols.FeatureExtractor`."""
        if len(samples) < HOP:
            return np.empty((self.n_mels, 0), np.float32)
        padded = np.zeros((1, len(samples) + N_FFT - HOP), np.float32)
        padded[0, : len(samples)] = samples
        with self._torch.inference_mode():
            bank = self._kaldi.fbank(  # (frames, n_mels)
                self._torch.from_numpy(padded), num_mel_bins=self.n_mels, window_type="hanning"
            )
            bank = bank.sub_(FBANK_MEAN).div_(2 * FBANK_DEVIATION)
        features: Features = np.ascontiguousarray(bank.numpy().T)
        return features

    def pad_value(self, features: Features) -> float:  # noqa: ARG002 - silence does not depend on it
        """See `protocols.FeatureExtractor`. The value is the filter bank of digital silence."""
        return FBANK_SILENCE


def load_torchaudio() -> tuple[Any, Any]:
    """Import and return the modules torch and torchaudio.compliance.kaldi.

    torchaudio's compiled extension must match the build of torch. PyPI's torchaudio for Linux is a
    CUDA build: with a CPU build of torch its import raises OSError.

    Raises:
        MissingExtraError: a module is not installed or does not load.
    """
    try:
        torch = importlib.import_module("torch")
        return torch, importlib.import_module("torchaudio.compliance.kaldi")
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f'features="kaldi" needs torch and torchaudio, and {error.name} is not installed: '
            'pip install "whisperbatch[kaldi]"'
        ) from error
    except (ImportError, OSError, RuntimeError) as error:
        # if the import of torch failed, torch is not in sys.modules
        version = getattr(sys.modules.get("torch"), "__version__", "")
        failure = f"torchaudio does not load with torch {version}" if version else "torch fails"
        cause = next(iter(str(error).splitlines()), type(error).__name__)
        raise MissingExtraError(
            f'features="kaldi": {failure} ({cause}); install torch and torchaudio of the same '
            "build, both for CUDA or both for the CPU: see https://pytorch.org/get-started"
        ) from error
