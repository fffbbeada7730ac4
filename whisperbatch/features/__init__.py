"""Feature extractors: from audio samples to the encoder's input."""

from collections.abc import Callable, Mapping
from typing import Final

from whisperbatch.errors import OptionError
from whisperbatch.features.kaldi import KaldiFbank, KaldiMel
from whisperbatch.features.whisper import WhisperFeatures, silence_value
from whisperbatch.options import FeatureKind
from whisperbatch.protocols import FeatureExtractor

__all__ = ["EXTRACTORS", "KALDI", "WhisperFeatures", "feature_extractor", "silence_value"]

KALDI: Final = KaldiMel
"""The extractor for `features="kaldi"`: the better of the two kinds on Kaldi's frames."""

EXTRACTORS: Final[Mapping[FeatureKind, Callable[[int], FeatureExtractor]]] = {
    "whisper": WhisperFeatures,
    "kaldi": KALDI,
    "kaldi-mel": KaldiMel,
    "kaldi-fbank": KaldiFbank,
}


def feature_extractor(kind: FeatureKind, n_mels: int) -> FeatureExtractor:
    """Return a feature extractor of this kind.

    PyTorch and torchaudio are imported here, and only for the kinds that need them.

    Args:
        kind: see `Options.features`.
        n_mels: number of mel bands of the model's input: 80 or 128.

    Raises:
        OptionError: the kind is unknown.
        MissingExtraError: the kind needs PyTorch and torchaudio, but they are not installed or do
            not load.
    """
    if kind not in EXTRACTORS:
        raise OptionError(f"`features={kind!r}` is none of {', '.join(EXTRACTORS)}")
    return EXTRACTORS[kind](n_mels)
