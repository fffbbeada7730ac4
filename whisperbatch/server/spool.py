"""Uploads on disk: files that can be read while they are still received.

network ── write() ──> temporary file ──> SpooledFile.read() ── FFmpeg
                           │                     waits until more has arrived
                           └─ finish()           then the end of the file
"""

import io
import threading
from tempfile import TemporaryFile
from typing import BinaryIO, Final, cast

MIN_HEAD: Final = 12  # bytes that show the kind of container
HEAD: Final = 65_536  # bytes that show whether a container can be read in order
PATIENCE: Final = 1.0  # seconds between two checks of a reader that waits

SIGNATURES: Final = (b"fLaC", b"OggS", b"\x1aE\xdf\xa3", b"ID3")  # FLAC, Ogg, WebM, MP3
MPEG_SYNC: Final = b"\xff\xe0"  # bits that are set at the start of MP3 and AAC frames
BOX_HEADER: Final = 8  # bytes: size and kind of a box of MP4
BEFORE_INDEX: Final = (b"ftyp", b"free", b"skip", b"wide", b"uuid", b"styp", b"sidx")


class Spool:
    """The contents of an upload, in a temporary file without a name. Thread-safe.

    Args:
        name: name of the uploaded file, for messages and FFmpeg; nothing with this name is opened.
        directory: directory of the temporary file; None for the system's.

    Attributes:
        name: as given.
        size: number of bytes received.
        complete: whether all bytes have been received.

    Raises:
        OSError: the temporary file cannot be created.
    """

    def __init__(self, name: str, directory: str | None = None) -> None:
        self.name = name
        self.size = 0
        self.complete = False
        self._file = cast("BinaryIO", TemporaryFile(buffering=0, dir=directory))  # noqa: SIM115 - `close` closes
        self._closed = False
        self._changed = threading.Condition()

    def write(self, data: bytes | memoryview) -> None:
        """Append bytes.

        Raises:
            OSError: the disk is full.
        """
        with self._changed:
            self._file.seek(self.size)
            view = memoryview(data)
            while view:
                written = self._file.write(view)
                self.size += written
                view = view[written:]
            self._changed.notify_all()

    def finish(self) -> None:
        """State that all bytes have been received."""
        with self._changed:
            self.complete = True
            self._changed.notify_all()

    def close(self) -> None:
        """Delete the contents; readers then fail. Safe to call twice."""
        with self._changed:
            self._closed = True
            self._file.close()
            self._changed.notify_all()

    def open(self, *, in_order: bool = False) -> "SpooledFile":
        """Return a new reader.

        Args:
            in_order: the reader is like a pipe. Otherwise it has random access if the upload is
                complete.

        Returns:
            An open file.
        """
        return SpooledFile(self, seekable=self.complete and not in_order)

    def read(self, position: int, size: int) -> bytes:
        """Return up to `size` bytes from a position on; wait until there are some.

        Returns:
            The bytes; none at the end of a complete upload.

        Raises:
            OSError: the upload has been closed.
        """
        with self._changed:
            while size and not self._closed and not self.complete and position >= self.size:
                self._changed.wait(PATIENCE)
            if self._closed:
                raise OSError("the upload has ended")
            self._file.seek(position)
            return self._file.read(size)

    def can_be_read_in_order(self) -> bool | None:
        """Return whether FFmpeg can decode the upload from its first byte on, without seeking.

        The containers that are known for this: WAV, FLAC, Ogg, WebM, MP3 and AAC, and MP4 with the
        index before the sound. Other containers are read when the upload is complete.

        Returns:
            The answer; None if more bytes are needed.
        """
        with self._changed:
            self._file.seek(0)
            head = self._file.read(HEAD)
        if len(head) < MIN_HEAD:
            return False if self.complete else None
        if head.startswith(SIGNATURES) or (head[:4] == b"RIFF" and head[8:12] == b"WAVE"):
            return True
        if head[0] == MPEG_SYNC[0] and head[1] & MPEG_SYNC[1] == MPEG_SYNC[1]:
            return True
        if head[4:8] != b"ftyp":
            return False
        return _index_comes_first(head, is_all=len(head) < HEAD and self.complete)


def _index_comes_first(head: bytes, *, is_all: bool) -> bool | None:
    """Return whether an MP4 file has its index ("moov") before the sound; None if unknown."""
    position = 0
    while position + BOX_HEADER <= len(head):
        size, kind = int.from_bytes(head[position : position + 4], "big"), head[position + 4 :][:4]
        if kind == b"moov":
            return True
        if kind not in BEFORE_INDEX or size < BOX_HEADER:
            return False
        position += size
    return False if is_all or position > HEAD or len(head) >= HEAD else None


class SpooledFile(io.RawIOBase):
    """A reader of an upload: an open binary file. Closing the reader keeps the upload.

    Args:
        spool: the upload.
        seekable: whether the file has random access; otherwise the file is like a pipe.

    Attributes:
        name: name of the uploaded file.
    """

    def __init__(self, spool: Spool, *, seekable: bool) -> None:
        super().__init__()
        self.name = spool.name
        self._spool = spool
        self._seekable = seekable
        self._position = 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return whether the file has random access."""
        return self._seekable

    def readinto(self, buffer: "memoryview | bytearray") -> int:  # type: ignore[override]  # any buffer
        """Fill a buffer, and return the number of bytes; 0 at the end."""
        data = self._spool.read(self._position, len(buffer))
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)

    def seek(self, offset: int, whence: int = 0) -> int:
        """Set the position in bytes, and return it.

        Raises:
            OSError: the file has no random access.
        """
        if not self._seekable:
            raise io.UnsupportedOperation("the upload is read in order")
        start = {0: 0, 1: self._position, 2: self._spool.size}[whence]
        self._position = max(start + offset, 0)
        return self._position

    def tell(self) -> int:
        """Return the position in bytes."""
        return self._position
