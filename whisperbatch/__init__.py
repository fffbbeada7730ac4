"""Batched transcription of long recordings with Whisper: streamed, in bounded memory."""

import sys
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from whisperbatch import jobs, writers
    from whisperbatch.api import (
        chunk_audio,
        detect_language,
        diarize,
        load,
        stream,
        transcribe,
        transcribe_many,
    )
    from whisperbatch.audio import AudioReader, open_audio
    from whisperbatch.engines.settings import (
        CTranslate2Settings,
        OnnxRuntimeSettings,
        OpenVinoSettings,
        TorchSettings,
    )
    from whisperbatch.errors import (
        AudioError,
        BacklogError,
        ClosedError,
        EngineError,
        InternalError,
        MissingExtraError,
        ModelError,
        OptionError,
        WhisperBatchError,
        WriteError,
    )
    from whisperbatch.live import LiveSession
    from whisperbatch.models.registry import available_models
    from whisperbatch.options import Options
    from whisperbatch.progress import Progress
    from whisperbatch.streams import SegmentStream
    from whisperbatch.submissions import Submission
    from whisperbatch.transcriber import Transcriber
    from whisperbatch.types import (
        Audio,
        Chunk,
        Diarization,
        LanguageDetection,
        LanguageWindow,
        Notice,
        Omission,
        Segment,
        Transcript,
        Turn,
        Word,
    )
    from whisperbatch.writers import SubtitleOptions, TableOptions, write

__version__: str

__all__ = [
    "Audio",
    "AudioError",
    "AudioReader",
    "BacklogError",
    "CTranslate2Settings",
    "Chunk",
    "ClosedError",
    "Diarization",
    "EngineError",
    "InternalError",
    "LanguageDetection",
    "LanguageWindow",
    "LiveSession",
    "MissingExtraError",
    "ModelError",
    "Notice",
    "Omission",
    "OnnxRuntimeSettings",
    "OpenVinoSettings",
    "OptionError",
    "Options",
    "Progress",
    "Segment",
    "SegmentStream",
    "Submission",
    "SubtitleOptions",
    "TableOptions",
    "TorchSettings",
    "Transcriber",
    "Transcript",
    "Turn",
    "WhisperBatchError",
    "Word",
    "WriteError",
    "available_models",
    "chunk_audio",
    "detect_language",
    "diarize",
    "jobs",
    "load",
    "open_audio",
    "stream",
    "transcribe",
    "transcribe_many",
    "write",
    "writers",
]

# before onnxruntime and others are imported
import_module("whisperbatch.runtimes.telemetry").switch_off()

_MODULES = {
    "api": "chunk_audio detect_language diarize load stream transcribe transcribe_many",
    "audio": "AudioReader open_audio",
    "engines.settings": "CTranslate2Settings OnnxRuntimeSettings OpenVinoSettings TorchSettings",
    "errors": (
        "AudioError BacklogError ClosedError EngineError InternalError MissingExtraError "
        "ModelError OptionError WhisperBatchError WriteError"
    ),
    "live": "LiveSession",
    "models.registry": "available_models",
    "options": "Options",
    "progress": "Progress",
    "streams": "SegmentStream",
    "submissions": "Submission",
    "transcriber": "Transcriber",
    "types": (
        "Audio Chunk Diarization LanguageDetection LanguageWindow Notice Omission Segment "
        "Transcript Turn Word"
    ),
    "writers": "SubtitleOptions TableOptions write",
}
"""The module of the public names."""


def __getattr__(name: str) -> object:
    """Import a public name at its first use, so that `import whisperbatch` is fast.

    The name is then an attribute of the package, so Python calls this function once for each name.
    """
    if name in ("jobs", "writers"):
        return import_module(f"whisperbatch.{name}")
    if name == "__version__":
        return import_module("importlib.metadata").version("whisperbatch")
    for module, names in _MODULES.items():
        if name in names.split():
            value: object = getattr(import_module(f"whisperbatch.{module}"), name)
            globals()[name] = value
            return value
    advice = _advice_on(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}{advice and f'; {advice}'}")


def _advice_on(name: str) -> str:
    if name.startswith("_"):
        return ""
    hints = import_module("whisperbatch.options.hints")
    return str({**hints.PACKAGE_NAMES, **hints.COMPAT_NAMES}.get(name, ""))


class _OtherNames:
    """The last finder of modules: explains `from whisperbatch import WhisperModel`.

    Python discards the message of `__getattr__` there, and looks for a module of this name.
    """

    @staticmethod
    def find_spec(module: str, _path: object = None, _target: object = None) -> None:
        """Raise an ImportError for a name of another program."""
        name = module.removeprefix(f"{__name__}.")
        if name != module and (advice := _advice_on(name)):
            raise ImportError(f"whisperbatch has no {name}; {advice}", name=module)


sys.meta_path.append(_OtherNames)


def __dir__() -> list[str]:
    return list(__all__)
