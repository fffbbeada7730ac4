"""faster-whisper's interface, implemented on whisperbatch: a program only changes its import.

    from whisperbatch.compat.faster_whisper import WhisperModel

Signatures, attributes and results are those of faster-whisper 1.2.1. The user documentation of each
parameter is docs/how-to/move-from-faster-whisper.md; `_arguments` maps them.

    __init__           the names that programs import from faster_whisper
    transcribe         WhisperModel and BatchedInferencePipeline
    audio, utils, vad  faster-whisper's public functions
    tokenizer, feature_extractor, version
                       names that programs import from these modules
    _loading           weights, settings, and CTranslate2's model for methods on windows
    _arguments         maps faster-whisper's parameters to our options
    _values            values that a program passes, or defaults
    _session           transcribes one recording
    _session           its segments in faster-whisper's form
    _results           the classes of the results
    _detection         detects languages
    _originals         methods and classes of faster-whisper
"""

from whisperbatch.compat.faster_whisper import feature_extractor, tokenizer
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
from whisperbatch.compat.faster_whisper.version import __version__

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
    "feature_extractor",
    "format_timestamp",
    "tokenizer",
]
