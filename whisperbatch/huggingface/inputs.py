"""The recording of a request as text: base64, or a data: URL with base64. Decoded piece by piece.

text ── feed() ──> "data:audio/wav;base64,"    skipped, if it is there
                   base64                      ──> sink(bytes)
"""

import binascii
import re
import string
from collections.abc import Callable
from typing import Final

import whisperbatch as wb

SCHEME: Final = b"data:"  # ":" is not a character of base64
MAX_HEADER: Final = 200  # bytes of a data: URL before its data
HEADER: Final = re.compile(rb"data:[\w.+/=; \"-]*;base64", re.IGNORECASE)
ALPHABET: Final = string.ascii_letters.encode() + b"0123456789+/"
PADDINGS: Final = (b"", b"=", b"==")
GROUP: Final = 4  # characters of base64 for three bytes
FORMS: Final = "base64 without line breaks, or a data: URL with base64; other URLs are not opened"


class InputsDecoder:
    """Decodes the text of `inputs`.

    Args:
        sink: called with the decoded bytes, in order.
    """

    def __init__(self, sink: Callable[[bytes], object]) -> None:
        self._sink = sink
        self._rest = b""  # characters that are not decoded yet
        self._in_data = False  # whether the header of a data: URL is read, or there is none
        self._padded = False  # whether the padding has been read, which ends the data

    def feed(self, text: bytes) -> None:
        """Decode the next piece of the text.

        Args:
            text: characters of the text, in any encoding that contains ASCII.

        Raises:
            OptionError: the text is not base64.
        """
        self._rest += text
        if not self._in_data:
            self._skip_header()
        if self._in_data:
            self._decode(len(self._rest) // GROUP * GROUP)

    def finish(self) -> None:
        """Decode the last characters.

        Raises:
            OptionError: the text is not base64, or is cut off.
        """
        if not self._in_data and self._rest[: len(SCHEME)].lower() == SCHEME:
            raise _wrong()
        self._in_data = True
        self._decode(len(self._rest))

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
