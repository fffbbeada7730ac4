"""Audio arguments of faster-whisper as sources of whisperbatch."""

import io
import os
from pathlib import Path
from typing import Any, Final, cast

import numpy as np

from whisperbatch.types import Audio, DeferredSource, Source, SpanSource

SILENCE: Final = np.zeros(1, np.float32)
"""The source for an array without samples: faster-whisper accepts it, and whisperbatch does not."""


def as_source(audio: object) -> Source:
    """Return the audio as a source; floating-point samples become float32.

    Any object with `__array__` holds samples, for example a tensor. No samples become `SILENCE`.
    """
    if isinstance(audio, np.ndarray) or hasattr(audio, "__array__"):
        samples = np.asarray(cast("Any", audio))
        if not samples.size:
            return SILENCE
        return samples.astype(np.float32, copy=False) if samples.dtype.kind == "f" else samples
    return cast("Source", audio)  # `open_audio` refuses unsupported types


def second_source(source: Source) -> Source | None:
    """Return the same recording for a second, independent reader; None if there can be only one."""
    if isinstance(source, np.ndarray | Audio | bytes | bytearray | memoryview):
        return source
    if isinstance(source, SpanSource | DeferredSource):
        return None
    if isinstance(source, str | Path):
        return source if Path(source).is_file() else None
    if isinstance(source, io.BytesIO):
        return io.BytesIO(source.getvalue()[source.tell() :])
    name = getattr(source, "name", None)
    try:
        if isinstance(name, str) and source.tell() == 0 and _is_file(source.fileno(), name):
            return name
    except (AttributeError, OSError, ValueError):
        pass
    return None


def _is_file(descriptor: int, name: str) -> bool:
    """Return whether an open file is the regular file of that name."""
    return Path(name).is_file() and os.path.samestat(os.fstat(descriptor), Path(name).stat())
