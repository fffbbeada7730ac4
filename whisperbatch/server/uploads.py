"""Forms with a file, received piece by piece: the fields, and the file on disk.

body ── feed() ──> python-multipart ──┬─> fields      in memory, within a limit
                                      └─> file        a `Spool`, while the body arrives

network ── write() ──> temporary file ──> SpooledFile.read() ── FFmpeg
                           │                     waits until more has arrived
                           └─ finish()           then the end of the file
"""

import asyncio
import io
import json
import math
import re
import threading
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, BinaryIO, Final, cast
from urllib.parse import unquote_to_bytes

from python_multipart.exceptions import MultipartParseError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.requests import ClientDisconnect, Request

from whisperbatch.server.errors import ApiError, client_gone, invalid
from whisperbatch.server.speakers import REFERENCES

MAX_FIELDS: Final = 200  # parts of a form
MAX_FIELD_BYTES: Final = 1_000_000  # of all fields together, but the voices of known speakers
MAX_VOICE_BYTES: Final = 6_000_000  # of these voices: four of 10 s, with 48,000 samples a second
FORM_BYTES: Final = (
    2_000_000 + MAX_VOICE_BYTES
)  # of a body, beside the file: fields, and the text between them
MAX_NAME: Final = 255  # characters of a file name
MAX_BOUNDARY: Final = 200  # bytes; RFC 2046 allows 70
ENCODED_NAME: Final = re.compile(rb";\s*filename\*\s*=\s*[\w-]*'[\w-]*'([^;\s]*)", re.IGNORECASE)
"""File name in the form of RFC 5987, which some clients send for names that are not ASCII."""

FILE: Final = "file"
MIN_HEAD: Final = 12  # bytes that show the kind of container
HEAD_OF_TEXT: Final = 64  # bytes: no recording begins with so many letters
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

    def __init__(self, name: str, directory: Path | None = None) -> None:
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


@dataclass(frozen=True, slots=True)
class UploadLimits:
    """How slow an upload may be.

    Attributes:
        idle: longest time without data, in seconds.
        total: longest time of the upload, in seconds.
        rate: lowest rate, in bytes a second, on average over `idle`; 0 for no limit.
    """

    idle: float
    total: float
    rate: float = 0.0


async def pieces(request: Request, limits: UploadLimits) -> AsyncIterator[bytes]:
    """Yield the body of a request.

    Args:
        request: of a client.
        limits: of the upload.

    Yields:
        The bytes, as they arrive.

    Raises:
        ApiError: the body is compressed, or the client is too slow or gone.
    """
    encoding = request.headers.get("content-encoding", "identity")
    if encoding.strip().lower() not in ("", "identity"):
        raise ApiError(
            415,
            f"Content-Encoding: {encoding[:50]} is not supported; send the body as it is",
            code="invalid_content_encoding",
            may_retry=False,
        )
    stream = request.stream()
    try:
        async with aclosing(in_time(lambda: anext(stream, b""), limits)) as body:
            async for data in body:
                yield data
    except ClientDisconnect as error:
        raise client_gone() from error


async def in_time(
    read: Callable[[], Awaitable[bytes]], limits: UploadLimits
) -> AsyncGenerator[bytes, None]:
    """Yield what a function returns, until it returns no bytes.

    Args:
        read: waits for the next bytes.
        limits: of the time.

    Yields:
        The bytes, as they arrive.

    Raises:
        ApiError: the sender is too slow.
    """
    began = time.monotonic()
    deadline = began + limits.total
    due = began + limits.idle if limits.rate else math.inf
    while True:
        limit = min(limits.idle, max(min(deadline, due) - time.monotonic(), 0.0))
        try:
            data = await asyncio.wait_for(read(), limit)
        except asyncio.TimeoutError as error:
            raise ApiError(
                408, "the upload is too slow", code="upload_timeout", may_retry=False
            ) from error
        if not data:
            return
        if limits.rate:  # each byte gives the sender time for the next bytes
            due = min(due + len(data) / limits.rate, time.monotonic() + limits.idle)
        paused = time.monotonic()
        yield data
        paused = time.monotonic() - paused  # the server was busy, for example with a model
        deadline, due = deadline + paused, due + paused


def new_spool(name: str, directory: Path | None) -> Spool:
    """Return a file for an upload.

    Raises:
        ApiError: there is no room on the disk (507).
    """
    try:
        return Spool(name, directory)
    except OSError as error:
        raise disk_full(error) from error


def disk_full(error: OSError) -> ApiError:
    """Return the error of an upload that cannot be written (status 507)."""
    return ApiError(
        507, f"the upload cannot be stored: {error.strerror}", kind="server_error", code="storage"
    )


class Form:
    """The parts of a form that have been received so far.

    Args:
        boundary: text between the parts, from the header of the request.
        new_spool: makes the file for an upload with this name.
        max_bytes: limit of the file's size.

    Attributes:
        fields: the values of each field, in the order of the form.
        file: the uploaded file; None before its part begins.
        complete: whether the end of the form has been received.
    """

    def __init__(self, boundary: bytes, new_spool: Callable[[str], Spool], max_bytes: int) -> None:
        self.fields: dict[str, list[str]] = {}
        self.file: Spool | None = None
        self.complete = False
        self._new_spool, self._max_bytes = new_spool, max_bytes
        self._received = 0
        self._field_bytes = self._voice_bytes = 0
        self._parts = 0
        self._header_name = self._header_value = b""
        self._headers: dict[bytes, bytes] = {}
        self._name: str | None = None
        self._is_unnamed = False  # whether the file has no file name
        self._value = bytearray()
        self._parser = MultipartParser(
            boundary,
            {
                "on_part_begin": self._begin_part,
                "on_header_field": self._add_header_name,
                "on_header_value": self._add_header_value,
                "on_header_end": self._end_header,
                "on_headers_finished": self._begin_data,
                "on_part_data": self._add_data,
                "on_part_end": self._end_part,
                "on_end": self._end,
            },
        )

    @classmethod
    def of(cls, headers: Mapping[str, str], directory: Path | None, max_bytes: int) -> "Form":
        """Return the form of a request, whose file is stored in a directory.

        Args:
            headers: of the request.
            directory: of the temporary file; None for the system's.
            max_bytes: limit of the file's size.

        Raises:
            ApiError: the body is not a form.
        """
        return cls(boundary_of(headers), partial(new_spool, directory=directory), max_bytes)

    def feed(self, data: bytes) -> None:
        """Read the next piece of the body.

        Raises:
            ApiError: the body is not a form, or a part is too large.
            OSError: the disk is full.
        """
        self._received += len(data)
        if self._received > self._max_bytes + FORM_BYTES:
            raise too_large(self._max_bytes)
        try:
            self._parser.write(data)
        except MultipartParseError as error:
            raise ApiError(
                400, f"the form cannot be read: {error}", code="invalid_form", may_retry=False
            ) from error

    def finish(self) -> None:
        """Check that the form is complete.

        Raises:
            ApiError: the body ended early.
        """
        if not self.complete:
            raise ApiError(400, "the form is cut off: its end is missing", code="invalid_form")

    def close(self) -> None:
        """Delete the uploaded file. Safe to call twice."""
        if self.file:
            self.file.close()

    def _begin_part(self) -> None:
        self._headers = {}
        self._header_name = self._header_value = b""
        self._value = bytearray()
        self._parts += 1
        if self._parts > MAX_FIELDS:
            raise ApiError(400, f"the form has more than {MAX_FIELDS} parts", code="invalid_form")

    def _add_header_name(self, data: bytes, start: int, end: int) -> None:
        self._header_name += data[start:end]

    def _add_header_value(self, data: bytes, start: int, end: int) -> None:
        self._header_value += data[start:end]

    def _end_header(self) -> None:
        self._headers[self._header_name.lower()] = self._header_value
        self._header_name = self._header_value = b""

    def _begin_data(self) -> None:
        header = self._headers.get(b"content-disposition", b"")
        kind, parameters = parse_options_header(header)
        if kind != b"form-data" or b"name" not in parameters:
            raise ApiError(400, "a part of the form has no name", code="invalid_form")
        name = _decode(parameters[b"name"])
        file_name = parameters.get(b"filename")
        if file_name is None and (encoded := ENCODED_NAME.search(header)):
            file_name = unquote_to_bytes(encoded[1])
        self._is_unnamed = file_name is None
        if file_name is None and name != FILE:
            self._name = name
            return
        if name != FILE:
            raise invalid(f"{name} must not be a file", name, "unknown_parameter")
        if self.file:
            raise invalid("the form has more than one file", FILE)
        self._name = None
        self.file = self._new_spool(base_name(_decode(file_name or b"")))

    def _add_data(self, data: bytes, start: int, end: int) -> None:
        if self._name is None and self.file:
            if self.file.size + end - start > self._max_bytes:
                raise too_large(self._max_bytes)
            self.file.write(memoryview(data)[start:end])
            return
        if (self._name or "").partition("[")[0] == REFERENCES:  # "name", "name[]", "name[0]"
            self._voice_bytes += end - start
        else:
            self._field_bytes += end - start
        if self._field_bytes > MAX_FIELD_BYTES:
            message = f"the fields of the form have more than {MAX_FIELD_BYTES} bytes"
            raise _too_large_field(message, self._name)
        if self._voice_bytes > MAX_VOICE_BYTES:
            message = (
                f"{REFERENCES} have more than {MAX_VOICE_BYTES} bytes; send shorter recordings, "
                "with one channel, or compressed"
            )
            raise _too_large_field(message, REFERENCES)
        self._value += data[start:end]

    def _end_part(self) -> None:
        if self._name is not None:
            self.fields.setdefault(self._name, []).append(_decode(bytes(self._value), self._name))
        elif self.file:
            self.file.finish()
            if self._is_unnamed:
                _check_recording(self.file)
        self._name = None

    def _end(self) -> None:
        self.complete = True


def _check_recording(file: Spool) -> None:
    """Check that a file without a name is no text: a path, a URL, or base64.

    Raises:
        ApiError: the file begins with printable text.
    """
    try:
        text = file.read(0, HEAD_OF_TEXT).decode("ascii")
    except UnicodeDecodeError:
        return
    if text and text.isprintable():
        raise invalid(
            f"file is the text {text[:50]!r} and no recording; send the contents of the recording, "
            'with a file name: Content-Disposition: form-data; name="file"; filename="talk.mp3"',
            FILE,
            "invalid_audio",
        )


async def received(
    form: Form, request: Request, limits: UploadLimits
) -> AsyncGenerator[None, None]:
    """Receive a form to its end; yield after each piece of its body.

    Raises:
        ApiError: the form is wrong or cut off, the disk is full, or the client is too slow or gone.
    """
    async for data in pieces(request, limits):
        try:
            form.feed(data)
        except OSError as error:
            raise disk_full(error) from error
        yield
    form.finish()


async def receive_object(
    request: Request, limits: UploadLimits, most: int, example: str
) -> dict[str, Any]:
    """Return the JSON object that is the body of a request.

    Args:
        request: of a client.
        limits: of the upload.
        most: limit of the body, in bytes.
        example: of a body, for messages.

    Raises:
        ApiError: the body is too long or no JSON object, or as `pieces`.
    """
    body = b""
    async for data in pieces(request, limits):
        body += data
        if len(body) > most:
            raise ApiError(413, f"the body has more than {most} bytes", code="too_large")
    try:
        values = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise invalid(f"send a JSON object, such as {example}", None) from error
    if not isinstance(values, dict):
        raise invalid(f"send a JSON object, such as {example}", None)
    return values


def too_large(max_bytes: int) -> ApiError:
    """Return the error of a file or body that exceeds the limit (status 413)."""
    return ApiError(
        413,
        f"the file is larger than {max_bytes} bytes, the limit of this server",
        param=FILE,
        code="file_too_large",
        may_retry=False,
    )


def _too_large_field(message: str, name: str | None) -> ApiError:
    return ApiError(413, message, param=name, code="field_too_large", may_retry=False)


def base_name(name: str) -> str:
    """Return the last part of a file name, without control characters."""
    last = name.replace("\\", "/").rsplit("/", 1)[-1]
    return "".join(character for character in last if character.isprintable())[:MAX_NAME] or "audio"


def boundary_of(headers: Mapping[str, str]) -> bytes:
    """Return the boundary of a form.

    Args:
        headers: of the request.

    Returns:
        The text between the parts.

    Raises:
        ApiError: the body is not a form, or its boundary is too long.
    """
    kind, parameters = parse_options_header(headers.get("content-type", ""))
    if kind != b"multipart/form-data" or not parameters.get(b"boundary"):
        raise ApiError(
            415,
            "send the file and the fields as multipart/form-data",
            code="invalid_content_type",
            may_retry=False,
        )
    boundary = parameters[b"boundary"]
    if len(boundary) > MAX_BOUNDARY:
        raise ApiError(
            400,
            f"the boundary of the form has more than {MAX_BOUNDARY} bytes",
            code="invalid_form",
            may_retry=False,
        )
    return boundary


def _decode(data: bytes, name: str | None = None) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise invalid("the text is not UTF-8", name, "invalid_form") from error
