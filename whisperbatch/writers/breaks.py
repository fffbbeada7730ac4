"""Where a line may end, and how well.

Where languages part words by spaces, at a space. Where they do not, between characters, but for
those that belong together. What no break parts is an atom:

    text   Well, I  don't know.           今日は、いい天気です。
    atoms  Well,|I|don't|know.            今|日|は、|い|い|天|気|で|す。
"""

import re
import unicodedata
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from whisperbatch.text.punctuation import CLAUSE_ENDS, CLOSING, SENTENCE_ENDS, last_mark
from whisperbatch.writers.texts import columns, is_visible

# What a break costs by what it comes after, in units of `layout`: a line that is full costs 1.
SENTENCE: Final = 0.0
CLAUSE: Final = 0.1
WORD: Final = 0.3
SHORT_WORD: Final = 0.35  # an article, a preposition: it belongs to what follows
AFTER_HIRAGANA: Final = 0.35  # and before some: a word ends, and maybe a phrase
BEFORE_HIRAGANA: Final = 0.4  # a particle, maybe: it belongs to what it follows
WITHIN: Final = 0.5  # within a word, for all that is known

SHORT: Final = 3  # characters of a short word, at most
DASHES: Final = frozenset("–—")

_BETWEEN_SPACES: Final = re.compile("(?:\\S|[\u00a0\u2007\u202f])+")  # these do not break
_UNSPACED: Final = re.compile("[\u0e00-\u109f\u1780-\u17ff]")  # Thai, Lao, Tibetan, Myanmar, Khmer
_HIRAGANA: Final = re.compile("[\u3040-\u309f]")
_TIBETAN: Final = re.compile("[\u0f00-\u0fff]{2}")
_AFTER_SYLLABLE: Final = frozenset("\u0f0b\u0f0d\u0f0e\u0f0f\u0f11\u0f14")  # tsheg, shad

# Signs that no line begins with, and none ends with. The rules of Japanese, JIS X 4051 (kinsoku),
# and the vowels and marks of Thai and Lao that are written before and after their consonant.
_NEVER_FIRST: Final = (
    SENTENCE_ENDS
    | CLAUSE_ENDS
    | DASHES
    | frozenset(CLOSING)
    | frozenset("ぁぃぅぇぉっゃゅょゎァィゥェォッャュョヮヵヶー々ゝゞヽヾ・〜～％%")
    | frozenset("\u0e2f\u0e30\u0e32\u0e33\u0e45\u0e46\u0eaf\u0eb0\u0eb2\u0eb3\u0ec6")
)
_NEVER_LAST: Final = frozenset(
    "\u0e40\u0e41\u0e42\u0e43\u0e44\u0ec0\u0ec1\u0ec2\u0ec3\u0ec4$¥￥#＃"
)
_JOINING: Final = frozenset("\u200d\u2060\u1039\u17d2")  # what is before goes with what is after
_ZERO_WIDTH_SPACE: Final = "\u200b"
_WITH_BASE: Final = ("Mn", "Mc", "Me", "Cf")  # marks, which go with the character before


@dataclass(frozen=True, slots=True)
class Atom:
    """What no break parts.

    Attributes:
        first: its first character in the text.
        last: the character after its last.
        cost: of a break after it.
        word: number of the word that it begins or continues, from 0.
    """

    first: int
    last: int
    cost: float
    word: int


@dataclass(frozen=True, slots=True)
class Measured:
    """A text that can be laid out.

    Attributes:
        text: on one line.
        atoms: in order; all of the text but the spaces between them.
        columns: of the text up to each of its characters, and of all of it.
    """

    text: str
    atoms: tuple[Atom, ...]
    columns: tuple[int, ...]

    def width(self, first: int, last: int) -> int:
        """Columns of a line of atom `first` up to, not including, `last`."""
        return self.columns[self.atoms[last - 1].last] - self.columns[self.atoms[first].first]


def measure(text: str, words: Collection[int], *, unspaced: bool) -> Measured:
    """A text's atoms, with what a break after each would cost.

    Args:
        text: on one line.
        words: where words begin, by character; empty where that is not known.
        unspaced: whether its language is written without spaces.
    """
    atoms: list[Atom] = []
    word = -1
    for first, last in _visible_parts(text, unspaced=unspaced):
        new = not (unspaced and words) or first in words or not atoms
        word += new
        if atoms:
            atoms[-1] = _ended(atoms[-1], text, first, new=new and bool(words), unspaced=unspaced)
        atoms.append(Atom(first, last, SENTENCE, word))
    return Measured(text, tuple(atoms), tuple(accumulate(map(columns, text), initial=0)))


def _ended(atom: Atom, text: str, following: int, *, new: bool, unspaced: bool) -> Atom:
    """An atom, with what it costs to break before the character `following`."""
    own = text[atom.first : atom.last]
    mark = last_mark(own)
    if mark in SENTENCE_ENDS:
        cost = SENTENCE
    elif mark in CLAUSE_ENDS or mark in DASHES:
        cost = CLAUSE
    elif unspaced:
        apart = atom.last < following or own.endswith(_ZERO_WIDTH_SPACE)
        cost = WORD if apart else _unspaced_cost(own[-1], text[following], new=new)
    else:
        cost = SHORT_WORD if len(own) <= SHORT else WORD
    return Atom(atom.first, atom.last, cost, atom.word)


def _unspaced_cost(before: str, after: str, *, new: bool) -> float:
    """Of a break between two characters; Japanese phrases mostly end with hiragana."""
    ended = _HIRAGANA.match(before) is not None
    if _HIRAGANA.match(after):
        return WITHIN if not new else AFTER_HIRAGANA if ended else BEFORE_HIRAGANA
    return WORD if new or ended else WITHIN


def _visible_parts(text: str, *, unspaced: bool) -> Iterator[tuple[int, int]]:
    """The parts of a text; one with nothing to see belongs to the one before, or to the first."""
    held: tuple[int, int] | None = None
    for first, last in _parts(text, unspaced=unspaced):
        if held and not (is_visible(text[first:last]) and is_visible(text[slice(*held)])):
            held = held[0], last
            continue
        if held:
            yield held
        held = first, last
    if held:
        yield held


def _parts(text: str, *, unspaced: bool) -> Iterator[tuple[int, int]]:
    for found in _BETWEEN_SPACES.finditer(text):
        first, last = found.span()
        if unspaced:
            for place in range(first + 1, last):
                if _may_part(text[place - 1], text[place]):
                    yield first, place
                    first = place
        yield first, last


def _may_part(before: str, after: str) -> bool:
    """Whether a line may end between two characters of a language without spaces."""
    if before == _ZERO_WIDTH_SPACE:
        return True
    if (
        after in _NEVER_FIRST
        or before in _NEVER_LAST
        or before in _JOINING
        or unicodedata.category(after) in (*_WITH_BASE, "Pe", "Pf", "Sk")
        or unicodedata.category(before) in ("Ps", "Pi")
    ):
        return False
    if _TIBETAN.match(before + after):
        return before in _AFTER_SYLLABLE
    return _is_unspaced(before) or _is_unspaced(after)


def _is_unspaced(character: str) -> bool:
    """Whether it is of a script without spaces, as Latin letters and digits are not."""
    wide = 2
    return columns(character) == wide or _UNSPACED.match(character) is not None
