"""File objects of callers, made safe for FFmpeg.

PyAV copies all bytes that `read` returns into a buffer of the requested size, even if they are
more, and continues to read after a KeyboardInterrupt in `read`. A `FileObject` stands between:

    FFmpeg <── PyAV <── FileObject.read <── the caller's file
                            │
                            └─> check(): raises the first exception of the file
"""

from collections.abc import Callable
from typing import Any, Final, TypeVar

from whisperbatch.audio.inputs import RIFX, RifxFile
from whisperbatch.boundary import describe
from whisperbatch.errors import AudioError

T = TypeVar("T")

FAILED: Final = -1  # returned by `seek` and `tell`: an error to FFmpeg
MAX_POSITION: Final = 2**63 - 1  # FFmpeg's positions have 64 bits
KEPT: Final = 65_536  # bytes of the start of a pipe; the headers of a recording are in them
KEPT_END: Final = 131_072  # bytes of the end of a pipe: twice the longest page of Ogg


class FileObject:
    """An open binary file, which stays open.

    `read`, `seek` and `tell` never raise, because PyAV would drop, print or ignore the exception.
    After the first exception the file seems to be at its end, and `check` raises the exception.

    Args:
        source: name of the recording, for messages.
        file: an object with the method `read`.

    Attributes:
        name: name of the file; FFmpeg guesses the format from it if the contents are ambiguous.
        start: position of the file when it was opened, in bytes; 0 if it cannot seek.

    Raises:
        AudioError: the file cannot be read or is open as text.
    """

    def __init__(self, source: str, file: object) -> None:
        self._source = source
        self._file: Any = file
        self._error: BaseException | None = None
        self.name = str(given_name(file))
        self._begun = False
        self._kept = b""  # the start of a pipe
        self._kept_end: list[bytes] = []  # the latest blocks of a pipe
        self._size_read = 0  # bytes that were read from a pipe
        self.read(0)
        self.check()
        start = _start(file)
        self._can_seek = start is not None
        self.start = start or 0

    def read(self, size: int) -> bytes:
        """Return up to `size` bytes; no bytes at the end of the file and after an exception."""
        return self._guard(lambda: self._read(size), b"")

    def seek(self, offset: int, whence: int = 0) -> int:
        """Set the position and return it; `FAILED` after an exception."""
        return self._guard(lambda: self._seek(offset, whence), FAILED)

    def tell(self) -> int:
        """Return the position; `FAILED` after an exception."""
        return self._guard(lambda: self._position("tell", self._file.tell()), FAILED)

    def seekable(self) -> bool:
        """Whether the file can be read out of order."""
        return self._can_seek

    def size(self) -> int | None:
        """Return the size of the file; of a pipe, the bytes read so far. None if unknown."""
        if not self._can_seek:
            return self._size_read
        if self.start or self._error:
            return None
        return self._keep_position(lambda: int(self._file.seek(0, 2) or self._file.tell()), None)

    def at(self, position: int, length: int) -> bytes:
        """Return bytes of the file from a position on; fewer, or none, if they are unknown.

        Of a pipe the first and the latest bytes are known. The position of the file stays.
        """
        if not self._can_seek:
            end = b"".join(self._kept_end)
            first = position - (self._size_read - len(end))
            kept = self._kept[position : position + length]
            return end[first : first + length] if first >= 0 else kept
        if self.start or self._error:
            return b""

        def read() -> bytes:
            self._file.seek(position)
            return bytes(self._file.read(length))

        return self._keep_position(read, b"")

    def check(self) -> None:
        """Raise the first exception of the file; an `Exception` becomes an AudioError.

        Raises:
            AudioError: the file failed.
        """
        error = self._error
        if error is None:
            return
        if isinstance(error, Exception) and not isinstance(error, AudioError):
            raise self._failure(f"cannot be read: {describe(error)}") from error
        raise error  # an AudioError, a KeyboardInterrupt or another request to stop

    def _keep_position(self, call: Callable[[], T], failed: T) -> T:
        """Return the result of a call, and restore the position; `failed` after an exception."""
        try:
            position = self._file.tell()
            try:
                return call()
            finally:
                self._file.seek(position)
        except Exception:  # noqa: BLE001 - the answer is useful, but not needed
            return failed

    def _guard(self, call: Callable[[], T], failed: T) -> T:
        """Return the result of a call; after an exception of this or an earlier call, `failed`."""
        if self._error:
            return failed
        try:
            return call()
        except BaseException as error:  # noqa: BLE001 - `check` raises it
            self._error = error
            return failed

    def _read(self, size: int) -> bytes:
        data = self._file.read(size)
        if isinstance(data, str):
            raise self._failure("is open as text; open it with mode 'rb'")
        if not isinstance(data, bytes | bytearray | memoryview):
            kind = type(data).__name__
            raise self._failure(f"its read() returns {kind}; open it as a blocking binary file")
        copy = data if type(data) is bytes else memoryview(data).tobytes()
        if len(copy) > size:
            raise self._failure(
                f"its read({size}) returned {len(copy)} bytes; return at most the requested number"
            )
        if size and not self._begun and not self.start:
            self._begun = True
            if copy.startswith(RIFX):
                self._file = RifxFile(self._file, copy)
                return self._read(size)
        return copy if getattr(self, "_can_seek", True) else self._keep(copy)

    def _keep(self, data: bytes) -> bytes:
        """Keep the first and the latest bytes of a pipe."""
        self._size_read += len(data)
        if len(self._kept) < KEPT:
            self._kept += data[: KEPT - len(self._kept)]
        if data:
            self._kept_end.append(data)
            length = sum(map(len, self._kept_end))
            while length - len(self._kept_end[0]) >= KEPT_END:
                length -= len(self._kept_end.pop(0))
        return data

    def _seek(self, offset: int, whence: int) -> int:
        position = self._file.seek(offset, whence)
        if position is None:
            position = self._file.tell() if whence else offset
        return self._position("seek", position)

    def _position(self, method: str, position: object) -> int:
        if isinstance(position, int) and 0 <= position <= MAX_POSITION:
            return int(position)
        raise self._failure(f"its {method}() returned {position!r:.80}, which is not a position")

    def _failure(self, message: str) -> AudioError:
        return AudioError(message, source=self._source)


def given_name(file: object) -> object:
    """Return the attribute `name` of an object; None if there is none."""
    try:
        return getattr(file, "name", None)
    except Exception:  # noqa: BLE001 - any object of the caller
        return None


def _start(file: Any) -> int | None:  # noqa: ANN401 - any object of the caller
    """Return the position of a file in bytes; None if the file cannot seek."""
    try:
        if not callable(file.seek) or not getattr(file, "seekable", lambda: True)():
            return None
        position = file.tell()
    except Exception:  # noqa: BLE001 - the file is then read in order, like a pipe
        return None
    return position if isinstance(position, int) and position >= 0 else None
