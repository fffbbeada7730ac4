"""Forms with a file, received piece by piece: the fields, and the file on disk.

body ── feed() ──> python-multipart ──┬─> fields      in memory, within a limit
                                      └─> file        a `Spool`, while the body arrives
"""

import re
from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import unquote_to_bytes

from python_multipart.exceptions import MultipartParseError
from python_multipart.multipart import MultipartParser, parse_options_header

from whisperbatch.server.errors import ApiError, invalid
from whisperbatch.server.requests.known_speakers import REFERENCES
from whisperbatch.server.spool import Spool

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
VOICES: Final = (REFERENCES, f"{REFERENCES}[]")


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
        name = _decoded(parameters[b"name"])
        file_name = parameters.get(b"filename")
        if file_name is None and (encoded := ENCODED_NAME.search(header)):
            file_name = unquote_to_bytes(encoded[1])
        if file_name is None:
            self._name = name
            return
        if name != FILE:
            raise invalid(f"{name} must not be a file", name, "unknown_parameter")
        if self.file:
            raise invalid("the form has more than one file", FILE)
        self._name = None
        self.file = self._new_spool(base_name(_decoded(file_name)))

    def _add_data(self, data: bytes, start: int, end: int) -> None:
        if self._name is None and self.file:
            if self.file.size + end - start > self._max_bytes:
                raise too_large(self._max_bytes)
            self.file.write(memoryview(data)[start:end])
            return
        if self._name in VOICES:
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
            self.fields.setdefault(self._name, []).append(_decoded(bytes(self._value), self._name))
        elif self.file:
            self.file.finish()
        self._name = None

    def _end(self) -> None:
        self.complete = True


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


def _decoded(data: bytes, name: str | None = None) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise invalid("the text is not UTF-8", name, "invalid_form") from error
