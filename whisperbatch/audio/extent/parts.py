"""Bytes of a media file at any position, as far as they can be read without disturbing FFmpeg."""

from pathlib import Path
from typing import Final

from whisperbatch.audio.file_objects import FileObject

TAIL: Final = 131_072  # bytes of the end: more than the longest page of Ogg, 65,307 bytes


class Parts:
    """Read access to the bytes of a recording that FFmpeg has open or has read.

    Of a pipe only the start is known, and the number of its bytes after its end. Of a URL nothing
    is known.

    Args:
        file: a path, a URL or a file object.
    """

    def __init__(self, file: str | FileObject) -> None:
        self._file = file

    def can_seek(self) -> bool:
        """Return whether FFmpeg can read the file out of order."""
        if isinstance(self._file, FileObject):
            return self._file.seekable()
        return _regular(self._file) is not None

    def size(self) -> int | None:
        """Return the size of the file in bytes; None if it is unknown.

        Call this at the end of the file only.
        """
        if isinstance(self._file, FileObject):
            return self._file.size()
        path = _regular(self._file)
        return path.stat().st_size if path else None

    def at(self, position: int, length: int) -> bytes:
        """Return bytes of the file; fewer, or none, if they are unknown or beyond its end."""
        if position < 0:
            return b""
        if isinstance(self._file, FileObject):
            return self._file.at(position, length)
        path = _regular(self._file)
        if path is None:
            return b""
        with path.open("rb") as opened:
            opened.seek(position)
            return opened.read(length)

    def tail(self) -> bytes:
        """Return up to `TAIL` bytes of the end; none if they are unknown."""
        size = self.size() or 0
        return self.at(max(size - TAIL, 0), min(size, TAIL))


def _regular(file: str) -> Path | None:
    if "://" in file:
        return None
    try:
        path = Path(file)
        return path if path.is_file() else None
    except (OSError, ValueError):
        return None
