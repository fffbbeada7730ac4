"""faster-whisper's feature extractor: the original class, for programs that compute features."""

from typing import Any, Final

from whisperbatch.compat.faster_whisper._reexports import reexported

ORIGINALS: Final = ("FeatureExtractor",)


def __getattr__(name: str) -> Any:  # noqa: ANN401 - untyped
    return reexported("feature_extractor", ORIGINALS, name)
