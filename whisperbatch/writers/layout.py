"""Divide a text into cues and lines: as few as the limits allow, of even length, at good places.

In languages with spaces, a line may end at a space. In languages without spaces, a line may end
between two characters, except between characters that belong together. A part of the text that no
line break may split is a text unit:

    text    Well, I  don't know.           今日は、いい天気です。
    units   Well,|I|don't|know.            今|日|は、|い|い|天|気|で|す。

The same search divides a text into cues, and a cue into lines. Both are runs of consecutive text
units. Of all divisions with the fewest runs, the search takes the cheapest division:

    cost of a run = (its width / the available width) ** 2 + cost of the break after the run

The square makes runs of even width cheapest. The method is the paragraph breaking of D. Knuth and
M. Plass (Software: Practice and Experience 11, 1981).
"""

import math
import re
import unicodedata
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Final

from whisperbatch.text.sentences import CLAUSE_ENDS, CLOSING, SENTENCE_ENDS, last_mark
from whisperbatch.writers.formatting import columns, is_visible
from whisperbatch.writers.options import SubtitleOptions

USUAL_WIDTH: Final = 42  # columns: the width in the cost of a line if lines have no maximum width
PAUSE_DISCOUNT: Final = 0.3  # per second of silence, for a break between two cues; at most 1 s

# The cost of a break, by the text around it. A full line costs 1.
AFTER_SENTENCE: Final = 0.0
AFTER_CLAUSE: Final = 0.1
AFTER_WORD: Final = 0.3
AFTER_SHORT_WORD: Final = 0.35  # an article or a preposition belongs to the next word
AFTER_HIRAGANA: Final = 0.35  # between two words in hiragana: maybe the end of a phrase
BEFORE_HIRAGANA: Final = 0.4  # maybe before a particle, which belongs to the previous word
INSIDE_WORD: Final = 0.5  # or at an unknown place

MAX_SHORT_WORD: Final = 3  # characters
DASHES: Final = frozenset("–—")

_BETWEEN_SPACES: Final = re.compile("(?:\\S|[\u00a0\u2007\u202f])+")  # no-break spaces
_UNSPACED: Final = re.compile("[\u0e00-\u109f\u1780-\u17ff]")  # Thai, Lao, Tibetan, Myanmar, Khmer
_HIRAGANA: Final = re.compile("[\u3040-\u309f]")
_TIBETAN: Final = re.compile("[\u0f00-\u0fff]{2}")
_AFTER_SYLLABLE: Final = frozenset("\u0f0b\u0f0d\u0f0e\u0f0f\u0f11\u0f14")  # tsheg, shad

# Characters that never begin a line, and characters that never end a line: the Japanese rules of
# JIS X 4051 (kinsoku); vowels and signs of Thai and Lao that are written before or after their
# consonant.
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
_JOINING: Final = frozenset("\u200d\u2060\u1039\u17d2")  # join the characters on both sides
_ZERO_WIDTH_SPACE: Final = "\u200b"
_MARKS: Final = ("Mn", "Mc", "Me", "Cf")  # categories of marks, which belong to their base


@dataclass(frozen=True, slots=True)
class TextUnit:
    """A part of a text that no line break may split.

    Attributes:
        first: index of the first character in the text.
        stop: index after the last character.
        break_cost: the cost of a line break after this unit.
        word: number of the word that contains this unit, from 0.
    """

    first: int
    stop: int
    break_cost: float
    word: int


@dataclass(frozen=True, slots=True)
class MeasuredText:
    """A text with its units and their widths.

    Attributes:
        text: on one line.
        units: in order; all characters between two units are spaces.
        columns: columns of the text before each character; the last value is the full width.
    """

    text: str
    units: tuple[TextUnit, ...]
    columns: tuple[int, ...]

    def width(self, first: int, stop: int) -> int:
        """Return the columns of a line that consists of the units `first` to `stop` - 1."""
        return self.columns[self.units[stop - 1].stop] - self.columns[self.units[first].first]


def measure(text: str, word_starts: Collection[int], *, unspaced: bool) -> MeasuredText:
    """Return the units of a text, with the cost of a line break after each unit.

    Args:
        text: on one line.
        word_starts: the index of each word's first character; empty if the words are not known.
        unspaced: whether the language is written without spaces.
    """
    units: list[TextUnit] = []
    word = -1
    for first, stop in _visible_parts(text, unspaced=unspaced):
        new_word = not (unspaced and word_starts) or first in word_starts or not units
        word += new_word
        if units:
            cost = _break_cost(
                units[-1], text, first, new_word=new_word and bool(word_starts), unspaced=unspaced
            )
            units[-1] = replace(units[-1], break_cost=cost)
        units.append(TextUnit(first, stop, AFTER_SENTENCE, word))
    return MeasuredText(text, tuple(units), tuple(accumulate(map(columns, text), initial=0)))


def _break_cost(
    unit: TextUnit, text: str, following: int, *, new_word: bool, unspaced: bool
) -> float:
    """Return the cost of a line break after a unit; `following` is the next unit's first index."""
    characters = text[unit.first : unit.stop]
    mark = last_mark(characters)
    if mark in SENTENCE_ENDS:
        return AFTER_SENTENCE
    if mark in CLAUSE_ENDS or mark in DASHES:
        return AFTER_CLAUSE
    if not unspaced:
        return AFTER_SHORT_WORD if len(characters) <= MAX_SHORT_WORD else AFTER_WORD
    if unit.stop < following or characters.endswith(_ZERO_WIDTH_SPACE):
        return AFTER_WORD
    return _unspaced_break_cost(characters[-1], text[following], new_word=new_word)


def _unspaced_break_cost(before: str, after: str, *, new_word: bool) -> float:
    """Return the cost of a break between two characters; most Japanese phrases end in hiragana."""
    after_hiragana = _HIRAGANA.match(before) is not None
    if _HIRAGANA.match(after):
        if not new_word:
            return INSIDE_WORD
        return AFTER_HIRAGANA if after_hiragana else BEFORE_HIRAGANA
    return AFTER_WORD if new_word or after_hiragana else INSIDE_WORD


def _visible_parts(text: str, *, unspaced: bool) -> list[tuple[int, int]]:
    """Return the parts of a text that no line break may split.

    An invisible part is joined to the part before it; at the start of the text, to the next part.
    """
    parts: list[tuple[int, int]] = []
    for first, stop in _parts(text, unspaced=unspaced):
        if parts and not (is_visible(text[first:stop]) and is_visible(text[slice(*parts[-1])])):
            parts[-1] = parts[-1][0], stop
        else:
            parts.append((first, stop))
    return parts


def _parts(text: str, *, unspaced: bool) -> Iterator[tuple[int, int]]:
    """Yield the parts of a text, visible or not, as (first, stop)."""
    for match in _BETWEEN_SPACES.finditer(text):
        first, stop = match.span()
        if unspaced:
            for index in range(first + 1, stop):
                if _may_break(text[index - 1], text[index]):
                    yield first, index
                    first = index
        yield first, stop


def _may_break(before: str, after: str) -> bool:
    """Return whether a line may end between two characters of a language without spaces."""
    if before == _ZERO_WIDTH_SPACE:
        return True
    if (
        after in _NEVER_FIRST
        or before in _NEVER_LAST
        or before in _JOINING
        or unicodedata.category(after) in (*_MARKS, "Pe", "Pf", "Sk")
        or unicodedata.category(before) in ("Ps", "Pi")
    ):
        return False
    if _TIBETAN.match(before + after):
        return before in _AFTER_SYLLABLE
    return _is_unspaced(before) or _is_unspaced(after)


def _is_unspaced(character: str) -> bool:
    """Return whether a character's script is written without spaces.

    False for Latin letters and digits, which also occur in text without spaces.
    """
    wide = 2
    return columns(character) == wide or _UNSPACED.match(character) is not None


@dataclass(frozen=True, slots=True)
class CueText:
    """The lines of a cue, as ranges of characters in the text of the segment.

    Attributes:
        lines: for each line the index of the first character, and the index after the last.
    """

    lines: tuple[tuple[int, int], ...]

    @property
    def first(self) -> int:
        """Index of the first character."""
        return self.lines[0][0]

    @property
    def stop(self) -> int:
        """Index after the last character."""
        return self.lines[-1][1]


def lay_out(
    text: MeasuredText,
    options: SubtitleOptions,
    line_count: int | None,
    pause: Callable[[int, int], float],
    indent: int = 0,
) -> list[CueText]:
    """Divide a text into cues and their lines.

    Args:
        text: with at least one unit.
        options: the maximum width and words of a line.
        line_count: maximum lines of a cue; None sets no limit.
        pause: `pause(stop, first)` returns the seconds of silence between the end of the character
            before `stop` and the start of the character `first`.
        indent: columns at the start of each cue that the text cannot use.
    """
    units = text.units
    line_ends = _line_ends(text, options)
    first_line_ends = _line_ends(text, options, indent) if indent else line_ends
    width = options.max_line_width or USUAL_WIDTH

    def cue_end(first: int) -> int:
        end = first_line_ends[first]
        for _ in range(1, line_count or len(units)):
            if end == len(units):
                break
            end = line_ends[end]
        return end

    def cue_cost(first: int, stop: int) -> float:
        share = (indent + text.width(first, stop)) / width / (line_count or 1)
        silence = pause(units[stop - 1].stop, units[stop].first) if stop < len(units) else 0.0
        return share**2 + units[stop - 1].break_cost - PAUSE_DISCOUNT * min(silence, 1.0)

    def lines(cue_first: int, cue_stop: int) -> tuple[tuple[int, int], ...]:
        def end(first: int) -> int:
            return first_line_ends[first] if first == cue_first else line_ends[first]

        def cost(first: int, stop: int) -> float:
            columns = text.width(first, stop) + (indent if first == cue_first else 0)
            return (columns / width) ** 2 + units[stop - 1].break_cost

        found = _divide(cue_first, cue_stop, end, cost)
        return tuple((units[first].first, units[stop - 1].stop) for first, stop in found)

    return [CueText(lines(*cue)) for cue in _divide(0, len(units), cue_end, cue_cost)]


def _line_ends(text: MeasuredText, options: SubtitleOptions, indent: int = 0) -> list[int]:
    """Return for each unit the furthest end of a line that begins with this unit.

    The end is the number of the unit after the line. `indent` columns of the line are taken.
    """
    width = (options.max_line_width or math.inf) - indent
    words = options.max_words_per_line or math.inf
    units = text.units
    ends: list[int] = []
    stop = 0
    for first, unit in enumerate(units):
        stop = max(stop, first + 1)
        while (
            stop < len(units)
            and text.width(first, stop + 1) <= width
            and units[stop].word - unit.word < words
        ):
            stop += 1
        ends.append(stop)
    return ends


def _divide(
    first: int,
    stop: int,
    furthest_end: Callable[[int], int],
    cost: Callable[[int, int], float],
) -> Sequence[tuple[int, int]]:
    """Divide the units `first` to `stop` - 1 into the fewest runs, and among these the cheapest.

    Dynamic programming over the ends of runs.

    Args:
        first: number of the first unit.
        stop: number after the last unit.
        furthest_end: returns the furthest end of a run, given its first unit. A run may end before.
        cost: returns the cost of a run, given its first unit and its end.
    """
    # best[end]: number of runs, their cost, and the first unit of the last run
    best: dict[int, tuple[int, float, int]] = {first: (0, 0.0, first)}
    for begin in range(first, stop):
        furthest = furthest_end(begin)
        if furthest >= stop and begin == first:
            return [(first, stop)]
        runs, total, _ = best[begin]
        for end in range(begin + 1, min(furthest, stop) + 1):
            candidate = runs + 1, total + cost(begin, end), begin
            best[end] = min(best.get(end, candidate), candidate)
    bounds = []
    while stop > first:
        bounds.append((best[stop][2], stop))
        stop = best[stop][2]
    return bounds[::-1]
