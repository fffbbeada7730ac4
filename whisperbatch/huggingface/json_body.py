r"""A JSON object that is received piece by piece, without holding its `inputs` in memory.

    {"inputs": "UklGRi...", "parameters": {"language": "en"}}
               └── decoded ──> sink        └── values

Each state is a method that reads a part of a piece and returns the position where it stops:

    start ──> first key ──> key ──> colon ──> value ──> after value ──> end
                             ^                 │  text, if the key is `inputs`
                             └────── , ────────┘

Only the top level is parsed here. The bytes of a value are collected up to their end, within a
limit, and parsed by the json module. A text ends at the first quotation mark without a backslash.
"""

import json
import re
from collections.abc import Callable
from typing import Any, Final, NoReturn

import whisperbatch as wb
from whisperbatch.huggingface.inputs import FORMS, InputsDecoder
from whisperbatch.text import shown

MAX_VALUES: Final = 100_000  # bytes of all keys and values, beside `inputs`
MAX_DEPTH: Final = 20  # levels of objects and arrays
INPUTS: Final = "inputs"

SPACE: Final = re.compile(rb"[ \t\n\r]*")
TEXT: Final = re.compile(rb'[^"\\\x00-\x1f]*')  # the part of a text without escapes
ESCAPED: Final = re.compile(rb'(?:[^"\\\x00-\x1f]+|\\["\\/bfnrt]|\\u[0-9A-Fa-f]{4})*')
SCALAR: Final = re.compile(rb'[^"\[\]{}, \t\n\r]*')  # number, true, false, null
NESTED: Final = re.compile(rb'[^"\[\]{}]*')  # the same inside of brackets, with what separates them
ESCAPE_STARTS: Final = re.compile(rb'\\(?:["\\/bfnrt]|u[0-9A-Fa-f]{0,4})')
UNICODE: Final = b"\\u"
UNICODE_LENGTH: Final = 6  # of \u0041

State = Callable[[bytes, int], int]


class JsonBody:
    r"""The top-level object of a JSON text, received piece by piece.

    Args:
        sink: called with the decoded bytes of `inputs`, in order.

    Attributes:
        values: the value of each key except `inputs`.
        has_inputs: whether `inputs` has been received.
    """

    def __init__(self, sink: Callable[[bytes], object]) -> None:
        self.values: dict[str, Any] = {}
        self.has_inputs = False
        self._state: State = self._start
        self._inputs = InputsDecoder(sink)
        self._key = ""
        self._raw = bytearray()  # of a key or value that is not complete
        self._size = 0  # of all keys and values
        self._closers: list[int] = []  # brackets that the value needs until its end
        self._in_text = False  # whether the position in a value is inside of a text
        self._after_backslash = False
        self._escape = b""  # of `inputs`: an escape sequence that is not complete

    def feed(self, data: bytes) -> None:
        """Read the next piece of the body.

        Args:
            data: bytes of a text in UTF-8.

        Raises:
            OptionError: the body is not a JSON object, or `inputs` is not base64.
        """
        position = 0
        while position < len(data):
            position = self._state(data, position)

    def finish(self) -> None:
        """Check that the object is complete.

        Raises:
            OptionError: the body ended early.
        """
        if self._state != self._end:
            raise wb.OptionError("the body is not a complete JSON object")

    def _start(self, data: bytes, position: int) -> int:
        return self._expect(data, position, {ord("{"): self._first_key})

    def _first_key(self, data: bytes, position: int) -> int:
        return self._expect(data, position, {ord('"'): self._key_text, ord("}"): self._end})

    def _next_key(self, data: bytes, position: int) -> int:
        return self._expect(data, position, {ord('"'): self._key_text})

    def _key_text(self, data: bytes, position: int) -> int:
        position = self._collect_text(data, position)
        if not self._in_text:
            self._key = str(parsed_json(b'"' + bytes(self._raw), "the body"))
            self._raw.clear()
            if self._key in self.values or (self._key == INPUTS and self.has_inputs):
                raise wb.OptionError(f"the body has {shown(self._key)} more than once")
            self._state = self._colon
        return position

    def _colon(self, data: bytes, position: int) -> int:
        return self._expect(data, position, {ord(":"): self._value_start})

    def _value_start(self, data: bytes, position: int) -> int:
        position = _end_of(SPACE, data, position)
        if position == len(data):
            return position
        if self._key != INPUTS:
            self._state = self._value
            return position
        if data[position] != ord('"'):
            raise wb.OptionError(f"inputs must be a text: {FORMS}")
        self.has_inputs = True
        self._state = self._inputs_text
        return position + 1

    def _value(self, data: bytes, position: int) -> int:
        """Collect the bytes of a value up to its end."""
        if self._in_text:
            position = self._collect_text(data, position)
            return position if self._in_text or self._closers else self._end_value(position)
        end = _end_of(NESTED if self._closers else SCALAR, data, position)
        self._collect(data[position:end])
        if end == len(data):
            return end
        character = data[end]
        if not self._closers and self._raw:  # after a number or word
            return self._end_value(end)
        if not self._closers and character not in b'"[{':
            self._fail(data, end)
        self._collect(data[end : end + 1])
        if character == ord('"'):
            self._in_text = True
        elif character in b"[{":
            self._closers.append(ord("]") if character == ord("[") else ord("}"))
            if len(self._closers) > MAX_DEPTH:
                raise wb.OptionError(f"{shown(self._key)} has more than {MAX_DEPTH} levels")
        elif character in b"]}":
            if self._closers.pop() != character:
                self._fail(data, end)
            return end + 1 if self._closers else self._end_value(end + 1)
        return end + 1

    def _end_value(self, position: int) -> int:
        self.values[self._key] = parsed_json(bytes(self._raw), "the body")
        self._raw.clear()
        self._state = self._after_value
        return position

    def _after_value(self, data: bytes, position: int) -> int:
        return self._expect(data, position, {ord(","): self._next_key, ord("}"): self._end})

    def _end(self, data: bytes, position: int) -> int:
        return self._expect(data, position, {})

    def _inputs_text(self, data: bytes, position: int) -> int:
        """Decode the text of `inputs` up to its end."""
        if self._escape:
            return self._continue_escape(data, position)
        if b"\\" in data:
            end = _end_of(ESCAPED, data, position)
        else:  # the usual case; the decoder refuses control characters
            end = data.find(b'"', position) % (len(data) + 1)  # -1 becomes the end
        text = data[position:end]
        if b"\\" in text:
            text = json.loads(f'"{text.decode("latin-1")}"').encode("ascii", "replace")
        if text:
            self._inputs.feed(text)
        if end == len(data):
            return end
        if data[end] == ord("\\"):
            self._escape = b"\\"
        elif data[end] == ord('"'):
            self._inputs.finish()
            self._state = self._after_value
        else:
            self._fail(data, end)
        return end + 1

    def _continue_escape(self, data: bytes, position: int) -> int:
        r"""Read a character of an escape sequence that began in an earlier piece, or is wrong."""
        self._escape += data[position : position + 1]
        if not ESCAPE_STARTS.fullmatch(self._escape):
            self._fail(data, position)
        if not self._escape.startswith(UNICODE) or len(self._escape) == UNICODE_LENGTH:
            self._inputs.feed(json.loads(b'"%s"' % self._escape).encode("ascii", "replace"))
            self._escape = b""
        return position + 1

    def _collect_text(self, data: bytes, position: int) -> int:
        """Collect the bytes of a text up to its end, or up to the end of the piece."""
        self._in_text = True
        if self._after_backslash:
            self._after_backslash = False
            self._collect(data[position : position + 1])
            return position + 1
        end = _end_of(TEXT, data, position)
        if end < len(data):
            self._in_text = data[end] != ord('"')
            self._after_backslash = data[end] == ord("\\")
            end += 1
        self._collect(data[position:end])
        return end

    def _collect(self, data: bytes) -> None:
        self._size += len(data)
        if self._size > MAX_VALUES:
            raise wb.OptionError(f"the body has more than {MAX_VALUES} bytes beside inputs")
        self._raw += data

    def _expect(self, data: bytes, position: int, following: dict[int, State]) -> int:
        """Skip white space and one of the characters; continue with the state after it."""
        position = _end_of(SPACE, data, position)
        if position == len(data):
            return position
        if data[position] not in following:
            self._fail(data, position)
        self._state = following[data[position]]
        return position + 1

    def _fail(self, data: bytes, position: int) -> NoReturn:
        found = shown(data[position : position + 1].decode(errors="replace"))
        raise wb.OptionError(f"the body is not a JSON object: {found} is not expected")


def parsed_json(raw: bytes | str, name: str) -> Any:  # noqa: ANN401 - any JSON value
    """Return the value of a JSON text.

    Args:
        raw: the text, in UTF-8.
        name: of the text, for the message.

    Returns:
        The value.

    Raises:
        OptionError: the text is not JSON, or an object has a key twice.
    """
    try:
        text = raw.decode() if isinstance(raw, bytes) else raw
        return json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_without_repeats)
    except wb.OptionError:
        raise
    except (ValueError, RecursionError) as error:
        raise wb.OptionError(f"{name} is not JSON: {error}") from error


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
