"""Where a sentence ends in a text, and its marks, in all languages of Whisper.

A question mark, an exclamation mark and the full stops of most scripts end a sentence. The full
stop "." has other meanings, too. The text around it decides; where the text leaves both readings
open, a pause in the speech decides:

    "... the end. Then"        SENTENCE
    "Dr. Jones", "3.50"        NONE
    "5 p.m. He", "am 3. Mai"   IF_PAUSE
"""

from enum import Enum, auto
from types import MappingProxyType
from typing import Final

from whisperbatch.text.abbreviations import before_number, maybe_last, never_last
from whisperbatch.text.languages import UNSPACED, script

FULL_STOP: Final = "."
"""The only sentence mark that has other meanings: abbreviations, numbers, ordinals, names."""

SENTENCE_ENDS: Final = frozenset(
    ".?!…"
    "。．｡？！‼⁇⁈⁉"  # Chinese, Japanese
    "؟۔؞"  # Arabic, Urdu
    "।॥෴"  # India, Sri Lanka
    "။།༎។៕๛"  # Burmese, Tibetan, Khmer, Thai
    "።፧፨"  # Ethiopic
    "։"  # Armenian
    "׃"  # Hebrew
    "᠃"  # Mongolian
)
CLAUSE_ENDS: Final = frozenset(",;:、，；：،؛၊፣፤፥՝")
CLOSING: Final = "\"'”’)]}»›」』）】》〉］｣"
OPENING: Final = "\"'“‘„‚([{«‹「『（【《〈［｢¿¡"

OWN_ENDS: Final = MappingProxyType({"el": ";\u037e", "hy": ":"})
"""Marks that end a sentence in one language only: the Greek question mark, and the Armenian full
stop as it is typed."""


# fmt: off
ORDINALS: Final = frozenset((
    "az", "bs", "cs", "da", "de", "et", "eu", "fi", "fo", "hr", "hu", "is", "lb", "lv", "nn", "no",
    "pl", "sk", "sl", "sr", "tr",
))
# fmt: on
"""Languages that write ordinal numbers with a full stop: "am 3. Mai"."""

MAX_ORDINAL_DIGITS: Final = 2  # more digits are a year or an amount
MAX_DOTTED_LETTERS: Final = 3  # letters between the stops of "p.m.", "т.е.", "Ph.D."
ROMAN_NUMERAL: Final = frozenset("IVXLC")
DASHES: Final = "-–—"  # a dash opens the line of a speaker
# At the end of a word, each quotation mark closes a quotation, also “ (German) and « (Danish).
_QUOTES_AND_SPACE: Final = CLOSING + "“«‹„ \u00a0\u202f\u3000"
_OPENING_AND_SPACE: Final = OPENING + DASHES + "”»› \u00a0\u202f\u3000"
_NEVER_FIRST: Final = SENTENCE_ENDS | CLAUSE_ENDS | frozenset(")]}）】》〉］｣」』")


class Ending(Enum):
    """Whether a sentence ends at a place in a text."""

    NONE = auto()
    IF_PAUSE = auto()
    SENTENCE = auto()


def ending(before: str, after: str, language: str) -> Ending:
    """Return whether a sentence ends between two texts.

    Args:
        before: the text from the start of the sentence.
        after: the text that follows; "" if it is not known yet.
        language: Whisper's code of the language of the text.
    """
    body = before.rstrip(_QUOTES_AND_SPACE)
    mark = body[-1:]
    if mark not in SENTENCE_ENDS and mark not in tuple(OWN_ENDS.get(language, "")):
        return Ending.NONE
    if after and (begins_with_closing_mark(after) or _is_lower(after)):
        return Ending.NONE
    if mark == "…" or body.endswith(".."):
        return Ending.IF_PAUSE
    if mark != FULL_STOP:
        return Ending.SENTENCE
    if after and not after[:1].isspace() and not _is_unspaced(after, language):
        closed = len(body) < len(before.rstrip())  # a quotation mark is between the texts
        return Ending.SENTENCE if closed else Ending.NONE  # "3" | ".50", "example" | ".com"
    return _full_stop(body, after, language)


def begins_with_closing_mark(after: str) -> bool:
    """Return whether a text begins with a mark that belongs to the text before it."""
    first, following = after.lstrip()[:1], after.lstrip()[1:2]
    closes = first in CLOSING and (not after[:1].isspace() or not following.strip())
    return first in _NEVER_FIRST or closes  # also "« Oui ! | »", with spaces on both sides


def last_mark(text: str) -> str:
    """Return the last character before closing quotes and brackets; "" if there is none."""
    return text.strip().rstrip(CLOSING)[-1:]


def ends_sentence(text: str) -> bool:
    """Return whether a word or text ends with a mark that ends a sentence."""
    return last_mark(text) in SENTENCE_ENDS


def _is_lower(after: str) -> bool:
    """Return whether the first word begins with a lower-case letter; "iPhone" does not.

    Georgian has capitals in Unicode, but is written without them.
    """
    word = after.lstrip(_OPENING_AND_SPACE)
    return word[:1].islower() and not word[1:2].isupper() and script(word[0]) != "GEORGIAN"


def _is_unspaced(after: str, language: str) -> bool:
    """Return whether no space is needed before a text, because its letters have no case."""
    first = after.lstrip(_OPENING_AND_SPACE)[:1]
    return language in UNSPACED and first.isalpha() and first.lower() == first.upper()


def _full_stop(body: str, after: str, language: str) -> Ending:
    """Return whether a sentence ends with the full stop at the end of `body`."""
    sentence = body.split()
    word = sentence[-1].lstrip(OPENING)[:-1]
    folded = word.casefold()
    if folded in never_last(language):
        return Ending.NONE
    follower = after.lstrip(_OPENING_AND_SPACE)[:1]
    if folded in before_number(language):
        if follower.isdigit():
            return Ending.NONE
        return Ending.SENTENCE if len(word) > 1 else Ending.IF_PAUSE
    initial = len(word) == 1 and word.isalpha() and not (language == "en" and word == "I")
    if initial or _has_dotted_letters(word) or folded in maybe_last(language):
        return Ending.IF_PAUSE
    if _is_ordinal(word, language) or (len(sentence) == 1 and _is_number(word)):
        return Ending.IF_PAUSE  # also "1. Open the door."
    return Ending.SENTENCE


def _has_dotted_letters(word: str) -> bool:
    """Return whether a word is letters with stops between them: "p.m", "z.B", "Ph.D"."""
    parts = word.split(FULL_STOP)
    return len(parts) > 1 and all(
        part.isalpha() and len(part) <= MAX_DOTTED_LETTERS for part in parts
    )


def _is_number(word: str) -> bool:
    return word.isdigit() and len(word) <= MAX_ORDINAL_DIGITS


def _is_ordinal(word: str, language: str) -> bool:
    """Return whether a number may be an ordinal: "3" of "am 3. Mai", "IV" of "Heinrich IV."."""
    is_roman = bool(word) and set(word) <= ROMAN_NUMERAL
    return language in ORDINALS and (_is_number(word) or is_roman)
