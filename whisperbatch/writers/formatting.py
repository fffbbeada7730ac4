"""Text, times and names of speakers as every format writes them."""

import re
import unicodedata
from functools import lru_cache
from typing import Final

from whisperbatch.text.messages import BIDIRECTIONAL_CONTROLS
from whisperbatch.types import Segment, Transcript

SECOND: Final = 1000  # ms
MINUTE: Final = 60 * SECOND
HOUR: Final = 60 * MINUTE

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


def begins_right_to_left(text: str) -> bool:
    """Return whether the first letter or directional mark of a text is of a right-to-left script.

    Players take the direction of a line from this character.
    """
    directions = (unicodedata.bidirectional(character) for character in text)
    return next((kind for kind in directions if kind in {"L", "R", "AL"}), "L") != "L"


def width_of(text: str) -> int:
    """Return the width of a text in columns."""
    return sum(map(columns, text))


def milliseconds(seconds: float, step: int = 1) -> int:
    """Round seconds to the nearest multiple of `step` milliseconds; negative times become 0."""
    return max(round(seconds * SECOND / step), 0) * step


def clock(time: int, mark: str = ".") -> str:
    """Format milliseconds as hours, minutes and seconds: "01:02:03.045".

    Hours have at least two digits. `mark` separates seconds from milliseconds.
    """
    hours, minutes = time // HOUR, time // MINUTE % 60
    seconds, fraction = divmod(time % MINUTE, SECOND)
    return f"{hours:02d}:{minutes:02d}:{seconds:02d}{mark}{fraction:03d}"


def short_clock(time: int) -> str:
    """Format milliseconds as minutes and seconds: "62:03.04".

    Minutes may exceed 59. Thousandths of a second are cut off.
    """
    seconds, fraction = divmod(time % MINUTE, SECOND)
    return f"{time // MINUTE:02d}:{seconds:02d}.{fraction // 10:02d}"


def decimal(time: int) -> str:
    """Format milliseconds as seconds: "3723.045"."""
    return f"{time // SECOND}.{time % SECOND:03d}"


def has_speakers(transcript: Transcript) -> bool:
    """Return whether files show the speakers of a transcript.

    True with `diarize=True`, even without speech, so that all tables of a job have the same
    columns; and if a program has given a segment its speaker.
    """
    named = any(segment.speaker is not None for segment in transcript.segments)
    return transcript.diarization is not None or named


def speaker_name(segment: Segment) -> str:
    """Return the name of the speaker on one line; empty without a speaker."""
    name = one_line(segment.speaker or "")
    return name if is_visible(name) else ""


def speaker_prefix(segment: Segment) -> str:
    """Return what stands before the text of a speaker: "SPEAKER_00: "; empty without a speaker."""
    name = speaker_name(segment)
    return f"{name}: " if name else ""
