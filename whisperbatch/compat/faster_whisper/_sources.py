"""What a program gives as audio: as whisperbatch takes it, and once more to be read again."""

import io
import os
from pathlib import Path
from typing import Any, cast

import numpy as np

from whisperbatch.types import Audio, Source


def as_source(audio: object) -> Source:
    """The same, but samples of other kinds than float32 and int16 as float32.

    Whatever has `__array__` holds samples, tensors too.
    """
    if isinstance(audio, np.ndarray) or hasattr(audio, "__array__"):
        samples = np.asarray(cast("Any", audio))
        return samples.astype(np.float32, copy=False) if samples.dtype.kind == "f" else samples
    return cast("Source", audio)  # anything else is refused where it is opened


def again(source: Source) -> Source | None:
    """The same recording for a reader of its own; None where it cannot be read twice at a time."""
    if isinstance(source, np.ndarray | Audio | bytes | bytearray | memoryview):
        return source
    if isinstance(source, str | Path):
        return source if Path(source).is_file() else None
    if isinstance(source, io.BytesIO):
        return io.BytesIO(source.getvalue()[source.tell() :])
    name = getattr(source, "name", None)
    try:
        if isinstance(name, str) and source.tell() == 0 and _same(source.fileno(), name):
            return name
    except (AttributeError, OSError, ValueError):
        pass
    return None


def _same(descriptor: int, name: str) -> bool:
    """Whether an open file is the regular file of that name."""
    return Path(name).is_file() and os.path.samestat(os.fstat(descriptor), Path(name).stat())
