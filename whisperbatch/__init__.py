"""Batched long-form transcription on Whisper: streamed, in flat memory, with nothing lost."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from whisperbatch.api import detect_language, load, stream, transcribe, transcribe_many
    from whisperbatch.errors import (
        AudioError,
        ClosedError,
        EngineError,
        MissingExtraError,
        ModelError,
        OptionError,
        WhisperBatchError,
    )
    from whisperbatch.models import available_models
    from whisperbatch.options import Options
    from whisperbatch.transcriber import SegmentStream, Transcriber
    from whisperbatch.types import (
        Audio,
        Dropped,
        LanguageDetection,
        LanguageWindow,
        Segment,
        Transcript,
        Word,
    )

__all__ = [
    "Audio",
    "AudioError",
    "ClosedError",
    "Dropped",
    "EngineError",
    "LanguageDetection",
    "LanguageWindow",
    "MissingExtraError",
    "ModelError",
    "OptionError",
    "Options",
    "Segment",
    "SegmentStream",
    "Transcriber",
    "Transcript",
    "WhisperBatchError",
    "Word",
    "available_models",
    "detect_language",
    "load",
    "stream",
    "transcribe",
    "transcribe_many",
]

_HOMES = ("errors", "options", "types", "models", "transcriber", "api")


def __getattr__(name: str) -> object:
    """Import a public name when it is first used, so that importing the package loads nothing."""
    if name in __all__:
        for home in _HOMES:
            module = import_module(f"whisperbatch.{home}")
            if name in getattr(module, "__all__", vars(module)):
                return getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return list(__all__)
