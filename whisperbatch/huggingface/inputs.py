r"""The recording of a request as text: in base64, or as a data: URL with base64.

    {"inputs": "UklGRi...", "parameters": {"language": "en"}}
               └── decoded piece by piece ──> sink(bytes)
     └── the rest, within a limit, ──> json ──> values

A body is received piece by piece, and its `inputs` are never held in memory.
"""

import binascii
import json
import re
import string
from collections.abc import Callable
from typing import Any, Final, NoReturn

import whisperbatch as wb
from whisperbatch.text import shown

SCHEME: Final = b"data:"  # ":" is not a character of base64
WEB: Final = (b"http://", b"https://")
MAX_URL: Final = 4096  # bytes
MAX_HEADER: Final = 200  # bytes of a data: URL before its data
HEADER: Final = re.compile(rb"data:[\w.+/=; \"-]*;base64", re.IGNORECASE)
ALPHABET: Final = string.ascii_letters.encode() + b"0123456789+/"
PADDINGS: Final = (b"", b"=", b"==")
GROUP: Final = 4  # characters of base64 for three bytes
MAX_VALUES: Final = 100_000  # bytes of a body, beside `inputs`
MAX_DEPTH: Final = 20  # levels of objects and arrays in a value
INPUTS: Final = "inputs"
NESTED: Final = re.compile(rb'[^"\[\]{}]*')  # all between texts and brackets
ESCAPED: Final = re.compile(rb'(?:[^"\\]+|\\["\\/bfnrt]|\\u[0-9A-Fa-f]{4})*')
CUT_OFF: Final = re.compile(rb"\\(?:u[0-9A-Fa-f]{0,3})?")  # the start of an escape sequence
FORMS: Final = "base64 without line breaks, or a data: URL with base64; other URLs are not opened"


class InputsDecoder:
    """Decodes the text of `inputs`.

    Args:
        sink: called with the decoded bytes, in order.
        takes_urls: whether the text may be a URL of the web in place of a recording.

    Attributes:
        url: this URL, after `finish`; None for a recording.
    """

    def __init__(self, sink: Callable[[bytes], object], *, takes_urls: bool = False) -> None:
        self.url: str | None = None
        self._takes_urls = takes_urls
        self._sink = sink
        self._rest = b""  # characters that are not decoded yet
        self._in_data = False  # whether the header of a data: URL is read, or there is none
        self._padded = False  # whether the padding has been read, which ends the data

    def feed(self, text: bytes) -> None:
        """Decode the next piece of the text.

        Raises:
            OptionError: the text is not base64.
        """
        self._rest += text
        if not self._in_data and self._may_be_url():
            if len(self._rest) > MAX_URL:
                raise wb.OptionError(f"inputs is a URL with more than {MAX_URL} characters")
            return
        if not self._in_data:
            self._skip_header()
        if self._in_data:
            self._decode(len(self._rest) // GROUP * GROUP)

    def finish(self) -> None:
        """Decode the last characters.

        Raises:
            OptionError: the text is not base64, or is cut off.
        """
        if not self._in_data and self._may_be_url() and self._rest.lower().startswith(WEB):
            self.url = self._rest.decode("ascii", "replace")
            return
        if not self._in_data and self._rest[: len(SCHEME)].lower() == SCHEME:
            raise _wrong()
        self._in_data = True
        self._decode(len(self._rest))

    def _may_be_url(self) -> bool:
        """Return whether the text so far begins as a URL of the web does."""
        start = self._rest[: len(WEB[1])].lower()
        begun = any(web.startswith(start) or start.startswith(web) for web in WEB)
        return self._takes_urls and begun

    def _skip_header(self) -> None:
        start = self._rest[: len(SCHEME)].lower()
        if start != SCHEME:
            self._in_data = not SCHEME.startswith(start)
            return
        header, comma, data = self._rest.partition(b",")
        if len(header) > MAX_HEADER or (comma and not HEADER.fullmatch(header)):
            raise _wrong()
        if comma:
            self._rest, self._in_data = data, True

    def _decode(self, length: int) -> None:
        """Decode the first characters of the rest."""
        data, self._rest = self._rest[:length], self._rest[length:]
        if not data:
            return
        padding = data.translate(None, ALPHABET)  # faster than a regular expression
        is_base64 = padding in PADDINGS and data.endswith(padding)
        if self._padded or len(data) % GROUP or not is_base64:
            raise _wrong()
        self._padded = bool(padding)
        try:
            self._sink(binascii.a2b_base64(data))
        except binascii.Error as error:
            raise _wrong() from error


def _wrong() -> wb.OptionError:
    return wb.OptionError(f"inputs is not {FORMS}")


def decode_inputs(text: str) -> bytes:
    """Return the bytes of `inputs`.

    Raises:
        OptionError: the text is not base64.
    """
    decoded = bytearray()
    decoder = InputsDecoder(decoded.extend)
    decoder.feed(text.encode("ascii", "replace"))
    decoder.finish()
    return bytes(decoded)


class JsonBody:
    """The object in a JSON text, received piece by piece.

    Args:
        sink: called with the decoded bytes of `inputs`, in order.
        takes_urls: whether `inputs` may be a URL of the web in place of a recording.

    Attributes:
        values: the value of each key except `inputs`, after `finish`.
        has_inputs: whether `inputs` has been received.
    """

    def __init__(self, sink: Callable[[bytes], object], *, takes_urls: bool = False) -> None:
        self.values: dict[str, Any] = {}
        self.has_inputs = False
        self._inputs = InputsDecoder(sink, takes_urls=takes_urls)
        self._escape = b""  # of `inputs`: the start of an escape sequence
        self._rest = bytearray()  # the body, with an empty text in place of `inputs`
        self._depth = 0  # brackets that are open
        self._text = (0, 0)  # start and end of the last text in the rest
        self._read: Callable[[bytes, int], int] = self._read_nested

    @property
    def url(self) -> str | None:
        """The URL that `inputs` is, after `finish`; None for a recording."""
        return self._inputs.url

    def feed(self, data: bytes) -> None:
        """Read the next piece of the body.

        Raises:
            OptionError: the body is too large or not JSON, or `inputs` is not base64.
        """
        position = 0
        while position < len(data):
            position = self._read(data, position)

    def finish(self) -> None:
        """Read the values, at the end of the body.

        Raises:
            OptionError: the body is not a JSON object, or ended early.
        """
        if self._read != self._read_nested or self._depth > 0 or not self._rest.strip():
            raise wb.OptionError("the body is not a complete JSON object")
        name = "the body, without the text of inputs," if self.has_inputs else "the body"
        values = parse_json(bytes(self._rest), name)
        if not isinstance(values, dict):
            raise wb.OptionError("the body is not a JSON object")
        if INPUTS in values and not self.has_inputs:
            raise wb.OptionError(f"inputs must be a text: {FORMS}")
        values.pop(INPUTS, None)
        self.values = values

    def _read_nested(self, data: bytes, position: int) -> int:
        """Read up to the next bracket, or the start of a text."""
        end = _end_of(NESTED, data, position)
        self._keep(data[position:end])
        character = data[end : end + 1]
        if character == b'"' and self._begins_inputs():
            self._keep(b'""')
            self._read = self._read_inputs
            return end + 1
        if character == b'"':
            self._text = (len(self._rest), 0)
            self._read = self._read_text
        elif character:
            self._depth += 1 if character in b"[{" else -1
            if self._depth > MAX_DEPTH + 1:
                raise wb.OptionError(f"the body has more than {MAX_DEPTH} levels")
        self._keep(character)
        return end + 1

    def _begins_inputs(self) -> bool:
        """Return whether the text that begins here is the value of `inputs`."""
        start, end = self._text
        if self._depth != 1 or not end or self._rest[end:].strip() != b":":
            return False
        if parse_json(bytes(self._rest[start:end]), "the body") != INPUTS:
            return False
        if self.has_inputs:
            raise wb.OptionError(f"the body has {shown(INPUTS)} more than once")
        return True

    def _read_text(self, data: bytes, position: int) -> int:
        """Read up to the next quotation mark, which ends a text if no backslash is before it."""
        end = data.find(b'"', position) + 1 or len(data)
        self._keep(data[position:end])
        before = len(self._rest) - 2
        while self._rest[before] == ord("\\"):
            before -= 1
        if data[end - 1] == ord('"') and (len(self._rest) - before) % 2 == 0:
            self._text = (self._text[0], len(self._rest))
            self._read = self._read_nested
        return end

    def _read_inputs(self, data: bytes, position: int) -> int:
        """Decode the text of `inputs` up to its end, or up to the end of the piece."""
        more = self._escape + data[position:]
        if b"\\" in more:
            end = _end_of(ESCAPED, more, 0)
            text = json.loads(f'"{more[:end].decode("latin-1")}"', strict=False)
            self._inputs.feed(text.encode("ascii", "replace"))
        else:  # the usual case
            end = more.find(b'"') % (len(more) + 1)  # -1 becomes the end
            self._inputs.feed(more[:end])
        position = len(data) - len(more) + end
        self._escape = b""
        if more[end : end + 1] == b'"':
            self._inputs.finish()
            self.has_inputs = True
            self._read = self._read_nested
            return position + 1
        if CUT_OFF.fullmatch(more, end):
            self._escape = more[end:]
        elif end < len(more):
            raise _wrong()
        return len(data)

    def _keep(self, data: bytes) -> None:
        self._rest += data
        if len(self._rest) > MAX_VALUES:
            raise wb.OptionError(f"the body has more than {MAX_VALUES} bytes beside inputs")


def parse_json(raw: bytes | str, name: str) -> Any:  # noqa: ANN401 - any JSON value
    """Return the value of a JSON text.

    Raises:
        OptionError: the text is not JSON, or an object has a key twice.
    """
    try:
        text = raw.decode() if isinstance(raw, bytes) else raw
        return json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_without_repeats)
    except wb.OptionError:
        raise
    except json.JSONDecodeError as error:
        raise wb.OptionError(f"{name} is not JSON: {error}") from error
    except UnicodeDecodeError as error:
        raise wb.OptionError(f"{name} is not JSON: it is not UTF-8") from error
    except RecursionError as error:
        raise wb.OptionError(f"{name} is not JSON: it has too many levels") from error
    except ValueError as error:  # Python's limit of digits
        raise wb.OptionError(f"{name} is not JSON: a number has too many digits") from error


def _refuse_constant(name: str) -> NoReturn:
    raise wb.OptionError(f"{name} is not a JSON value")


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for key, value in pairs:
        if key in values:
            raise wb.OptionError(f"{shown(key)} is given more than once")
        values[key] = value
    return values


def _end_of(pattern: re.Pattern[bytes], data: bytes, position: int) -> int:
    match = pattern.match(data, position)
    return match.end() if match else position
