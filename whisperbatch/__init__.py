"""Batched transcription of long recordings with Whisper: streamed, in bounded memory."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from whisperbatch.api import (
        chunk_audio,
        detect_language,
        load,
        stream,
        transcribe,
        transcribe_many,
    )
    from whisperbatch.audio import AudioReader, open_audio
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
    from whisperbatch.models.registry import available_models
    from whisperbatch.options import Options
    from whisperbatch.streams import SegmentStream
    from whisperbatch.transcriber import Transcriber
    from whisperbatch.types import (
        Audio,
        Chunk,
        LanguageDetection,
        LanguageWindow,
        Omission,
        Segment,
        Transcript,
        Word,
    )
    from whisperbatch.writers import SubtitleOptions, write

__all__ = [
    "Audio",
    "AudioError",
    "AudioReader",
    "Chunk",
    "ClosedError",
    "EngineError",
    "LanguageDetection",
    "LanguageWindow",
    "MissingExtraError",
    "ModelError",
    "Omission",
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
    "chunk_audio",
    "detect_language",
    "load",
    "open_audio",
    "stream",
    "transcribe",
    "transcribe_many",
    "write",
]

_MODULES = (
    "errors",
    "options",
    "types",
    "writers",
    "models",
    "audio",
    "streams",
    "transcriber",
    "api",
)


def __getattr__(name: str) -> object:
    """Import a public name at its first use, so that `import whisperbatch` is fast."""
    if name in __all__:
        for module_name in _MODULES:
            module = import_module(f"whisperbatch.{module_name}")
            if name in getattr(module, "__all__", vars(module)):
                return getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return list(__all__)
