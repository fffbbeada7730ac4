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
        WriteError,
    )
    from whisperbatch.models import available_models
    from whisperbatch.options import Options
    from whisperbatch.streams import SegmentStream
    from whisperbatch.transcriber import Transcriber
    from whisperbatch.types import (
        Audio,
        Dropped,
        LanguageDetection,
        LanguageWindow,
        Segment,
        Transcript,
        Word,
    )
    from whisperbatch.writers import SubtitleOptions, write

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
    "SubtitleOptions",
    "Transcriber",
    "Transcript",
    "WhisperBatchError",
    "Word",
    "WriteError",
    "available_models",
    "detect_language",
    "load",
    "stream",
    "transcribe",
    "transcribe_many",
    "write",
]

_HOMES = ("errors", "options", "types", "writers", "models", "streams", "transcriber", "api")


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
