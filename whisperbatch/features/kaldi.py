"""Features on Kaldi's frames, by torchaudio.compliance.kaldi: the extra `kaldi`.

Two kinds, so that they can be compared:

    KaldiMel    Kaldi's frames and Fourier transform, then Whisper's mel filters and logarithm:
                nearly Whisper's own features
    KaldiFbank  Kaldi's whole filter bank, normalised over AudioSet as AST has it
                (https://github.com/YuanGongND/ast): pre-emphasis, another mel scale, natural
                logarithm, no floor under the peak; not what Whisper was trained on

torchaudio's public functions only. PyTorch is imported when an extractor is made, and its number
of threads, which belongs to the whole process, is left alone. From a pool of threads PyTorch is
fastest with one thread a call: set OMP_NUM_THREADS=1 where nothing else needs more.
"""

import importlib
import math
import sys
from typing import Any, Final

import numpy as np

from whisperbatch.errors import MissingExtraError
from whisperbatch.features.mel import N_FFT, MelFilters, log_normalise, silence_beside
from whisperbatch.features.whisper import pad
from whisperbatch.types import HOP, Features, Samples

BLOCK: Final = 320
"""Frames a call of KaldiMel: 30 s take 5.0 ms, for 8.0 ms in one call and 7.5 ms in calls of 160,
where PyTorch's overhead a call tells."""

KALDI_SCALE: Final = 2.0**15
"""Kaldi's samples are 16-bit integers. Its spectrogram raises power to float32's epsilon, 1.2e-7:
with samples within 1 that is far above Whisper's least, 1e-10; at Kaldi's scale far below."""

# AST's mean and standard deviation of fbank over AudioSet. Its samples lie within 1, and so must
# these: at Kaldi's scale every feature would be 2.3 higher (20.8 / 9.14).
FBANK_MEAN: Final = -4.2677393
FBANK_DEVIATION: Final = 4.5689974
FBANK_SILENCE: Final = (math.log(2.0**-23) - FBANK_MEAN) / (2 * FBANK_DEVIATION)  # -1.28


class KaldiMel:
    """Whisper's mel filters, logarithm and floor on Kaldi's spectrogram. Thread-safe.

    Framed like Whisper's features, frame for frame. Dither, pre-emphasis, the removal of the mean
    and the rounding of 25 ms to a power of two are off. What is left of the difference is Kaldi's
    Hann window, symmetric where Whisper's is periodic: on speech 0.0007 on average, 0.25 at most,
    where a strong tone's side lobes are all there is.

    Raises:
        MissingExtraError: PyTorch or torchaudio is missing, or does not load.
    """

    def __init__(self, n_mels: int) -> None:
        self.n_mels = n_mels
        self._torch, self._kaldi = load_torchaudio()
        self._filters = MelFilters(n_mels, gain=KALDI_SCALE**-2)

    def __call__(self, samples: Samples) -> Features:
        """See `protocols.FeatureExtractor`."""
        count = len(samples) // HOP
        mel = np.empty((self.n_mels, count), np.float32)
        beyond = np.empty((self.n_mels, 1), np.float32)
        if count:
            padded = pad(samples)
            padded *= np.float32(KALDI_SCALE)
            for start in range(0, count, BLOCK):
                end = min(start + BLOCK, count)
                self._spectrum(padded, start, end, mel[:, start:end])
            self._spectrum(padded, count, count + 1, beyond)  # only for the peak: see whisper.py
            log_normalise(mel, beyond)
        return mel

    def pad_value(self, features: Features) -> float:
        """See `protocols.FeatureExtractor`: the floor under the window's peak."""
        return silence_beside(features)

    def _spectrum(self, padded: Samples, start: int, end: int, out: Features) -> None:
        """Write the mel power of frames `start` to `end` to `out`, (n_mels, end - start)."""
        audio = padded[start * HOP : (end - 1) * HOP + N_FFT]
        with self._torch.inference_mode():
            # (frames, 201), natural log; the lowest bin holds the energy, but no filter covers it
            log_power = self._kaldi.spectrogram(
                self._torch.from_numpy(audio)[None],
                window_type="hanning",
                preemphasis_coefficient=0.0,
                remove_dc_offset=False,
                round_to_power_of_two=False,
            )
            self._filters(log_power.exp_().numpy(), out)


class KaldiFbank:
    """Kaldi's log filter bank as published for AST, but with Whisper's number of bands.

    torchaudio.compliance.kaldi.fbank with a Hann window and its other defaults, of samples within
    1, then less the mean of AudioSet and over twice its deviation: on speech a mean of -0.2 and a
    deviation of 0.5. Frame t is that of samples 160 t to 160 t + 400, so its centre lies 12.5 ms
    later than that of Whisper's frame t; 240 zeros after the end make n // 160 of them.
    Thread-safe.

    Raises:
        MissingExtraError: PyTorch or torchaudio is missing, or does not load.
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

    def pad_value(self, features: Features) -> float:  # noqa: ARG002 - silence is the same anywhere
        """See `protocols.FeatureExtractor`: the filter bank of zeros."""
        return FBANK_SILENCE


def load_torchaudio() -> tuple[Any, Any]:
    """The modules torch and torchaudio.compliance.kaldi.

    torchaudio's compiled extension must match torch's build. PyPI's for Linux is a CUDA build:
    beside a CPU build of torch its import raises OSError.

    Raises:
        MissingExtraError: one of them is missing, or does not load.
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
        # torch is not in sys.modules where it is itself what fails
        version = getattr(sys.modules.get("torch"), "__version__", "")
        failed = f"torchaudio does not load beside torch {version}" if version else "torch fails"
        cause = next(iter(str(error).splitlines()), type(error).__name__)
        raise MissingExtraError(
            f'features="kaldi": {failed} ({cause}); install torch and torchaudio of one build, '
            "both for CUDA or both for the CPU: https://pytorch.org/get-started says how"
        ) from error
