"""Text that every format can hold: on one line, without control characters."""

import re
import unicodedata
from functools import lru_cache
from typing import Final

from whisperbatch.text.control_characters import BIDIRECTIONAL_CONTROLS

# Tabs, all line separators of Python and Unicode, and the space. Other spaces stay as they are.
_WHITESPACE: Final = re.compile("[\t-\r\x1c-\x1f \x85\u2028\u2029]+")
# XML 1.0 does not allow the characters before the bidirectional controls, nor U+FFFE and U+FFFF.
# U+FEFF is a byte order mark, without meaning inside text. A bidirectional control that is open at
# the end of a line would reorder the text of other lines or columns.
_NOT_ALLOWED: Final = re.compile(
    f"[\0-\x08\x0e-\x1b\x7f-\x84\x86-\x9f{BIDIRECTIONAL_CONTROLS}\ufeff\ufffe\uffff]+"
)
_SURROGATES: Final = re.compile("[\ud800-\udfff]")  # UTF-8 cannot encode them


def one_line(text: str) -> str:
    """Return the text on one line.

    Control characters, also bidirectional controls, are removed, each run of whitespace becomes one
    space, and whitespace at both ends is removed. Surrogates become U+FFFD.
    """
    allowed = _SURROGATES.sub("\ufffd", _NOT_ALLOWED.sub("", text))
    return _WHITESPACE.sub(" ", allowed).strip()


def is_visible(text: str) -> bool:
    """Return whether the text has characters other than whitespace and format characters (Cf)."""
    return any(unicodedata.category(c) != "Cf" and not c.isspace() for c in text)


@lru_cache(maxsize=4096)
def columns(character: str) -> int:
    """Return the width of a character in columns, after Unicode Standard Annex 11.

    East Asian wide characters have 2 columns, combining marks and format characters have none,
    and all other characters have 1.
    """
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1
