"""Text as it may stand in any file: on one line, of characters that every format can hold."""

import re
import unicodedata
from functools import lru_cache
from typing import Final

# All that parts lines, to Python or to Unicode, and the space; other spaces stay as they are.
_GAPS: Final = re.compile("[\t-\r\x1c-\x1f \x85\u2028\u2029]+")
# XML has no place for these; U+FEFF is a byte order mark, and means nothing within a text.
_UNFIT: Final = re.compile("[\0-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\ufeff\ufffe\uffff]+")
_HALVES: Final = re.compile("[\ud800-\udfff]")  # of a pair: nothing that UTF-8 can write


def one_line(text: str) -> str:
    """The text on one line: control characters left out, spaces together, none around it."""
    fit = _HALVES.sub("\ufffd", _UNFIT.sub("", text))
    return _GAPS.sub(" ", fit).strip()


def is_visible(text: str) -> bool:
    """Whether there is anything to see: neither space nor marks of format alone."""
    return any(unicodedata.category(c) != "Cf" and not c.isspace() for c in text)


@lru_cache(maxsize=4096)
def columns(character: str) -> int:
    """How wide a character is: 2 for East Asian wide ones, 0 for those within another, else 1.

    After Unicode Standard Annex 11.
    """
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1
