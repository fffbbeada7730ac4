"""Inputs that FFmpeg cannot read itself: they become file objects that it can read.

Big-endian WAV files (RIFX), read as little-endian ones.

FFmpeg reads the header of such a file, but takes its samples for little-endian, which gives noise.

    RIFX   header  | b1 b0 | b1 b0 | b1 b0 ...
    read   header  | b0 b1 | b0 b1 | b0 b1 ...     the same positions in the file

Answers of HTTP servers that state no length.

FFmpeg cannot tell the end of such an answer from a broken connection: it takes a broken chunked
answer for a complete one, and reports an error at the end of an answer that ends with the
connection. Python's client tells them apart, so these answers are read through it.

    Content-Length        read by FFmpeg, which notices a missing end
    chunked               complete only with its last, empty chunk
    neither               ends with the connection
"""

import http.client
import urllib.request
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import av
import numpy as np
from typing_extensions import Self

from whisperbatch.errors import AudioError

RIFX: Final = b"RIFX"
MAX_WIDTH: Final = 8  # bytes of a sample
MAX_HEADER: Final = 2**20  # bytes before the samples
FMT_FIELDS: Final = (
    2,
    2,
    4,
    4,
    2,
    2,
    2,
    2,
    4,
    4,
    2,
    2,
)  # bytes of each field; then the GUID's rest
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
    try:
        if "://" in path or not Path(path).is_file():
            return None
        file = Path(path).open("rb")  # noqa: SIM115 - the caller closes it
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
