"""faster-whisper's feature extractor: the original class, for programs that compute features."""

from whisperbatch.compat.faster_whisper._values import originals

__getattr__ = originals(__name__, "FeatureExtractor")
