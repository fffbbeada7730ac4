"""Features: what the encoder sees of the audio."""

from collections.abc import Callable, Mapping
from typing import Final

from whisperbatch.errors import OptionError
from whisperbatch.features.kaldi import KaldiFbank, KaldiMel
from whisperbatch.features.mel import silence_beside
from whisperbatch.features.whisper import WhisperFeatures
from whisperbatch.options import FeatureKind
from whisperbatch.protocols import FeatureExtractor

__all__ = ["EXTRACTORS", "KALDI", "WhisperFeatures", "feature_extractor", "silence_beside"]

KALDI: Final = KaldiMel
"""The better of the two kinds on Kaldi's frames: what `features="kaldi"` means."""

EXTRACTORS: Final[Mapping[FeatureKind, Callable[[int], FeatureExtractor]]] = {
    "whisper": WhisperFeatures,
    "kaldi": KALDI,
    "kaldi-mel": KaldiMel,
    "kaldi-fbank": KaldiFbank,
}


def feature_extractor(kind: FeatureKind, n_mels: int) -> FeatureExtractor:
    """The extractor of that kind. Importing it loads no extra; making one does, where it needs it.

    Args:
        kind: see `FeatureOptions.features`.
        n_mels: mel bands, as the model wants them: 80 or 128.

    Raises:
        OptionError: there is no such kind.
        MissingExtraError: the kind needs PyTorch and torchaudio, and they are missing or do not
            load.
    """
    if kind not in EXTRACTORS:
        raise OptionError(f"features={kind!r} is none of {', '.join(EXTRACTORS)}")
    return EXTRACTORS[kind](n_mels)
