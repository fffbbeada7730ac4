"""Values in error messages: one short line, whatever the value is."""

import math
import reprlib
from typing import Final

from whisperbatch.addresses import without_secrets

MAX_SHOWN: Final = 80  # characters of a value in a message
MAX_DIGITS: Final = 40  # longer whole numbers are shown by their number of digits


class _ShortRepr(reprlib.Repr):
    """`repr` that reads only the beginning of a large value."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel = 3
        self.maxtuple = self.maxlist = self.maxdict = self.maxset = self.maxarray = 12
        self.maxstring = self.maxother = MAX_SHOWN

    def repr_int(self, number: int, level: int) -> str:  # noqa: ARG002 - reprlib's signature
        """Return the digits; Python refuses to write numbers of more than 4300 digits."""
        digits = int(number.bit_length() * math.log10(2)) + 1
        if digits <= MAX_DIGITS:
            return repr(number)
        return f"<whole number of {digits} digits>"

    def repr_str(self, text: str, level: int) -> str:
        """Return the beginning and the end, without the secrets of URLs."""
        return super().repr_str(without_secrets(text, whole=True), level)

    def repr_bytes(self, data: bytes, level: int) -> str:  # noqa: ARG002 - reprlib's signature
        """Return the first bytes."""
        return repr(data[:MAX_SHOWN])


_SHORT: Final = _ShortRepr()


def shown(value: object) -> str:
    """Return the repr of a value for a message: one line of at most `MAX_SHOWN` characters.

    The function never fails: a value may be huge or recursive, its repr may raise an exception,
    have several lines, or contain characters that cannot be encoded.
    """
    try:
        text = _SHORT.repr(value)
    except Exception:  # noqa: BLE001 - the repr of a foreign class may raise anything
        text = f"<{type(value).__name__} without a repr>"
    return one_line(text)


def one_line(text: str) -> str:
    """Return the printable characters of a text in one line of at most `MAX_SHOWN` characters."""
    text = without_secrets(text)[: 4 * MAX_SHOWN]
    if not text.isprintable():
        printable = "".join(letter if letter.isprintable() else " " for letter in text)
        text = " ".join(printable.split())
    return text if len(text) <= MAX_SHOWN else f"{text[: MAX_SHOWN - 3]}..."
