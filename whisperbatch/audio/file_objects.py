"""Files for FFmpeg: file objects of callers, made safe, and inputs that FFmpeg cannot read itself.

PyAV copies all bytes that `read` returns into a buffer of the requested size, even if they are
more, and continues to read after a KeyboardInterrupt in `read`. A `FileObject` stands between:

    FFmpeg <── PyAV <── FileObject.read <── the caller's file
                            │
                            └─> check(): raises the first exception of the file

FFmpeg reads the header of a big-endian WAV file (RIFX), but takes its samples for little-endian,
which gives noise. A `RifxFile` is the little-endian file with the same sound:

    RIFX   header  | b1 b0 | b1 b0 | b1 b0 ...
    read   header  | b0 b1 | b0 b1 | b0 b1 ...     the same positions in the file

FFmpeg cannot tell the end of an HTTP answer without a length from a broken connection: it takes a
broken chunked answer for a complete one, and reports an error at the end of an answer that ends
with the connection. Python's client tells them apart, so an `HttpAnswer` reads through it.

    Content-Length        read by FFmpeg, which notices a missing end
    chunked               complete only with its last, empty chunk
    neither               ends with the connection
"""

import http.client
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

import av
import numpy as np
from typing_extensions import Self

from whisperbatch.boundary import describe
from whisperbatch.errors import AudioError

RIFX: Final = b"RIFX"
WAVE: Final = (b"RIFF", b"RF64", b"BW64")
MAX_WIDTH: Final = 8  # bytes of a sample
MAX_HEADER: Final = 2**20  # bytes before the samples
# bytes of each field of the format; then the GUID's rest
FMT_FIELDS: Final = (2, 2, 4, 4, 2, 2, 2, 2, 4, 4, 2, 2)
LINEAR: Final = (1, 3, 0xFFFE)  # format tags of integers, of floats, and of either


class RifxFile:
    """A big-endian WAV file as the little-endian WAV file with the same sound.

    It ends after the samples. It can seek if the file can.

    Args:
        file: an open binary file or pipe, at its start or after `begun`.
        begun: bytes that were read from the start of the file.

    Raises:
        AudioError: the header has no format or no samples.
    """

    def __init__(self, file: Any, begun: bytes = b"") -> None:  # noqa: ANN401 - any binary file
        self._file = file
        self._raw = begun  # bytes of the file that were read and not yet returned
        self._raw_start = 0  # position of the first of these
        self._width = 1  # bytes of a sample
        self._header, self._end = self._read_header()
        self._position = 0

    def read(self, size: int) -> bytes:
        """Return up to `size` bytes; no bytes at the end."""
        start = self._position
        if start < len(self._header):
            data = self._header[start : start + size]
        else:
            size = min(size, self._end - start)
            offset = (start - len(self._header)) % self._width
            data = self._swap(start - offset, offset + max(size, 0))[offset : offset + size]
        self._position += len(data)
        return data

    def seek(self, offset: int, whence: int = 0) -> int:
        """Set the position and return it."""
        base = {0: 0, 1: self._position, 2: 0}[whence]
        if whence == 2:  # noqa: PLR2004 - os.SEEK_END
            base = min(self._file.seek(0, 2), self._end)
            self._raw, self._raw_start = b"", -1
        self._position = max(base + offset, 0)
        return self._position

    def tell(self) -> int:
        """Return the position."""
        return self._position

    def seekable(self) -> bool:
        """Whether the file can be read out of order."""
        seekable = getattr(self._file, "seekable", lambda: hasattr(self._file, "seek"))
        return bool(seekable())

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _swap(self, start: int, size: int) -> bytes:
        """Return bytes from the first byte of a sample on, each sample with its bytes swapped."""
        data = self._bytes(start, -(-size // self._width) * self._width)
        whole = len(data) // self._width * self._width
        samples = np.frombuffer(data[:whole], np.uint8).reshape(-1, self._width)
        return samples[:, ::-1].tobytes() + data[whole:]

    def _bytes(self, start: int, size: int) -> bytes:
        """Return bytes of the file; fewer at its end."""
        if not self._raw_start <= start <= self._raw_start + len(self._raw) or self._raw_start < 0:
            self._file.seek(start)
            self._raw, self._raw_start = b"", start
        self._raw = self._raw[start - self._raw_start :]
        self._raw_start = start
        while len(self._raw) < size and (more := self._file.read(size - len(self._raw))):
            self._raw += bytes(more)
        data = self._raw[:size]
        kept = max(len(data) - MAX_WIDTH, 0)  # the next read may begin within the last sample
        self._raw, self._raw_start = self._raw[kept:], start + kept
        return data

    def _read_header(self) -> tuple[bytes, int]:
        """Return the bytes before the samples, converted, and the position after the samples."""
        header = bytearray(b"RIFF" + self._bytes(0, 12)[7:3:-1] + b"WAVE")
        while len(header) < MAX_HEADER:
            chunk = self._bytes(len(header), 8)
            name, size = chunk[:4], int.from_bytes(chunk[4:], "big")
            header += name + chunk[:3:-1]
            if name == b"data" and self._width:
                unknown = size in (0, 2**32 - 1)
                return bytes(header), 2**63 if unknown else len(header) + size
            if len(chunk) < 8 or size > MAX_HEADER:  # noqa: PLR2004 - name and size
                break
            content = self._bytes(len(header), size + size % 2)
            header += self._convert(name, content)
        raise AudioError("is a big-endian WAV file (RIFX) without samples; convert it with sox")

    def _convert(self, name: bytes, content: bytes) -> bytes:
        if name == b"fact":
            return content[3::-1] + content[4:]
        if name != b"fmt ":
            return content
        fields, position = b"", 0
        for length in FMT_FIELDS:
            fields += content[position : position + length][::-1]
            position += length
        tag, channels, align = (int.from_bytes(fields[i : i + 2], "little") for i in (0, 2, 12))
        self._width = max(align // max(channels, 1), 1) if tag in LINEAR else 1
        little_guid = content[24:26] not in (b"", b"\0\0")  # a program that swapped only numbers
        return fields[:24] + content[24:] if little_guid else fields + content[position:]


def open_rifx(path: str) -> RifxFile | None:
    """Open a regular file if it is a big-endian WAV file.

    Raises:
        AudioError: its header has no format or no samples.
    """
    regular = regular_file(path)
    if regular is None:
        return None
    try:
        file = regular.open("rb")  # the caller closes it
        begun = file.read(len(RIFX))
    except (OSError, ValueError):  # FFmpeg's message is better
        return None
    if begun != RIFX:
        file.close()
        return None
    try:
        return RifxFile(file, begun)
    except BaseException:
        file.close()
        raise


def is_wave(path: str) -> bool:
    """Return whether a path is a regular file in the format WAV, with 32 or 64 bits."""
    regular = regular_file(path)
    try:
        if regular:
            with regular.open("rb") as file:
                return file.read(len(RIFX)) in WAVE
    except (OSError, ValueError):  # FFmpeg's message is better
        pass
    return False


PLAYLISTS: Final = frozenset({"hls", "hls,applehttp", "dash", "concat", "sdp", "imf"})
"""FFmpeg's names of formats that name further addresses, which FFmpeg itself must open."""


class HttpAnswer:
    """The body of an answer, as a file that cannot seek.

    Attributes:
        name: the address without its query; FFmpeg guesses the format from it.
        broken: whether the connection ended before the answer did.
    """

    def __init__(self, address: str, response: http.client.HTTPResponse) -> None:
        self.name = urlsplit(address).path
        self.broken = False
        self._response = response

    @classmethod
    def get(cls, address: str) -> Self | None:
        """Request an address; None if the answer states its length, or there is no answer."""
        version = ".".join(map(str, av.library_versions["libavformat"]))
        headers = {"User-Agent": f"Lavf/{version}", "Accept": "*/*"}
        try:
            request = urllib.request.Request(address, headers=headers)  # noqa: S310 - is_http
            response = urllib.request.urlopen(request)  # noqa: S310
        except (OSError, ValueError, http.client.HTTPException):
            return None
        if not isinstance(response, http.client.HTTPResponse) or response.length is not None:
            response.close()
            return None
        return cls(address, response)

    def read(self, size: int) -> bytes:
        """Return up to `size` bytes; no bytes at the end, or where the connection broke."""
        if self.broken or not size:
            return b""
        try:
            return self._response.read1(size)
        except (http.client.HTTPException, ConnectionError):
            self.broken = True
            return b""

    def close(self) -> None:
        """Close the connection. Safe to call twice."""
        self._response.close()


def is_http(address: str) -> bool:
    """Return whether Python's client can request an address: HTTP without a password."""
    parts = urlsplit(address)
    return parts.scheme in ("http", "https") and "@" not in parts.netloc


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
        start = start_of(file)
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

    def rewind(self) -> None:
        """Set the position at which the file was given, also after an exception of the file."""
        with suppress(Exception):
            self._file.seek(self.start)

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


def start_of(file: Any) -> int | None:  # noqa: ANN401 - any object of the caller
    """Return the position of a file in bytes; None if the file cannot seek."""
    try:
        if not callable(file.seek) or not getattr(file, "seekable", lambda: True)():
            return None
        position = file.tell()
    except Exception:  # noqa: BLE001 - the file is then read in order, like a pipe
        return None
    return position if isinstance(position, int) and position >= 0 else None


def regular_file(file: str) -> Path | None:
    """Return the path of a regular file; None for URLs, pipes and files that do not exist."""
    try:
        return Path(file) if "://" not in file and Path(file).is_file() else None
    except (OSError, ValueError):
        return None


def reads_out_of_order(file: str | FileObject) -> bool:
    """Return whether FFmpeg can read a file out of order, and its times are those of the file."""
    if isinstance(file, FileObject):
        # FFmpeg reads an open file from its position on
        return file.seekable() and not file.start
    return regular_file(file) is not None
