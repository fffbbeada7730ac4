"""faster-whisper's interface, on whisperbatch: a program changes its import and runs.

    from whisperbatch.compat.faster_whisper import WhisperModel

Signatures, attributes and results are those of faster-whisper 1.2.1. What each of its parameters
becomes is in docs/how-to/move-from-faster-whisper.md, and in one place in the code: `_parameters`.

    __init__     what programs import from faster_whisper
    transcribe   the two classes                       audio, utils, vad   the functions beside them
    _parameters  their parameters to our options       _session            one recording
"""

from whisperbatch.compat.faster_whisper.audio import decode_audio
from whisperbatch.compat.faster_whisper.transcribe import (
    BatchedInferencePipeline,
    Segment,
    TranscriptionInfo,
    TranscriptionOptions,
    WhisperModel,
    Word,
)
from whisperbatch.compat.faster_whisper.utils import (
    available_models,
    download_model,
    format_timestamp,
)
from whisperbatch.compat.faster_whisper.vad import VadOptions

__version__ = "1.2.1"
"""Of faster-whisper, whose interface this is."""

__all__ = [
    "BatchedInferencePipeline",
    "Segment",
    "TranscriptionInfo",
    "TranscriptionOptions",
    "VadOptions",
    "WhisperModel",
    "Word",
    "__version__",
    "available_models",
    "decode_audio",
    "download_model",
    "format_timestamp",
]
