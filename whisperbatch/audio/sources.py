"""Sources of recordings: their names for messages, and the path or file object that is read."""

import io
import sys
from collections.abc import Iterable
from os import PathLike, fspath
from pathlib import Path
from typing import Final

import numpy as np

from whisperbatch.addresses import without_secrets
from whisperbatch.audio.file_objects import FileObject, given_name
from whisperbatch.boundary import describe
from whisperbatch.errors import AudioError, OptionError
from whisperbatch.text.messages import shown
from whisperbatch.types import Audio

ARRAY_NAME: Final = "<array>"
BYTES: Final = (bytes, bytearray, memoryview)
MAX_PATH: Final = 4096  # characters: Linux's limit; other systems have lower limits


def file_of(name: str, source: object) -> str | FileObject:
    """Return the path, URL or file object that FFmpeg reads."""
    if isinstance(source, str | PathLike):
        path = _path(source)
        if path == "-":
            return FileObject(name, _standard_input(name))
        if not isinstance(path, str):
            raise AudioError(f"the path {shown(path)} is bytes; give a str or a pathlib.Path")
        if "://" not in path:
            check_path(Path(path))
        return path
    if isinstance(source, BYTES):
        try:
            data = source.tobytes() if isinstance(source, memoryview) else source
        except ValueError as error:
            raise AudioError(f"cannot be read: {describe(error)}", source=name) from error
        if not data:
            raise AudioError("is empty; give the bytes of a media file", source=name)
        return FileObject(name, io.BytesIO(data))
    if callable(getattr(source, "read", None)):
        return FileObject(name, source)
    raise AudioError(
        f"{type(source).__name__} is not a recording; give a path, bytes, an open binary file, "
        "an Audio, or a float32 or int16 array"
    )


def _path(source: str | PathLike[str]) -> object:
    try:
        return fspath(source)
    except Exception as error:  # an object of the caller may raise anything
        raise AudioError(f"{shown(source)} is not a path") from error


def _standard_input(name: str) -> object:
    if sys.stdin is None or sys.stdin.closed:
        raise AudioError("standard input is closed; give a file, or connect a pipe", source=name)
    return getattr(sys.stdin, "buffer", sys.stdin)


def name_of(source: object) -> str:
    """Return the name of a source for messages and results, without the secrets of a URL."""
    if isinstance(source, str | PathLike):
        path = _path(source)
        return "<stdin>" if path == "-" else without_secrets(str(path), whole=True)
    if isinstance(source, np.ndarray | Audio):
        return ARRAY_NAME
    if isinstance(source, BYTES):
        return "<bytes>"
    name = given_name(source)
    if isinstance(name, str):
        return without_secrets(name, whole=True)
    return f"<{type(source).__name__}>"


def check_path(path: Path) -> None:
    """Refuse paths for which the error message of FFmpeg would be less clear.

    Raises:
        AudioError: there is no file, the file is empty, or the path is too long or a directory.
    """
    name = str(path)
    if len(name) > MAX_PATH:
        too_long = AudioError(f"{shown(name)}: cannot be opened: it has {len(name)} characters")
        too_long.source = name
        raise too_long
    try:
        if path.is_dir():
            raise AudioError("is a directory; give the files in it", source=name)
        if path.is_file() and not path.stat().st_size:
            raise AudioError("is empty; check whether it is still being written", source=name)
        if not path.exists():
            raise AudioError("there is no such file; check the path", source=name)
    except (OSError, ValueError) as error:
        raise AudioError(f"cannot be opened: {describe(error)}", source=name) from error


def check_several(sources: object) -> None:
    """Check that sources are several recordings, and not a single recording.

    Raises:
        OptionError: `sources` is a single recording, or no iterable.
    """
    single_source = (str, *BYTES, PathLike, np.ndarray, Audio)
    if isinstance(sources, single_source) or hasattr(sources, "read"):
        raise OptionError(
            "sources must be several recordings; for a single recording call transcribe()"
        )
    if not isinstance(sources, Iterable):
        raise OptionError(
            f"sources must be an iterable of recordings, not {type(sources).__name__}"
        )
