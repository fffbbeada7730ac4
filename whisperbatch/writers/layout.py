"""Divide a text into cues and lines: few, of even length, and at good places (`breaks`).

The same search divides a text into cues, and a cue into lines. Both are runs of consecutive text
units. The search takes the cheapest division:

    cost of a run = (its width / the available width) ** 2 + cost of the break after the run

The square makes runs of even width cheapest. Lines are as few as their limits allow. Each cue costs
`EXTRA_CUE`, so that only a break inside a word or number is worth another cue. The cost of a cue
contains the breaks of its lines. The method is the paragraph breaking of D. Knuth and M. Plass
(Software: Practice and Experience 11, 1981).
"""

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import accumulate
from typing import Final

from whisperbatch.text.languages import UNSPACED
from whisperbatch.writers.breaks import AFTER_SENTENCE, INSIDE_NUMBER, Break, visible_parts
from whisperbatch.writers.formatting import columns

USUAL_WIDTH: Final = 42  # columns: the width in the cost of a line if lines have no maximum width
PAUSE_DISCOUNT: Final = 0.3  # per second of silence, for a break between two cues; at most 1 s
EXTRA_CUE: Final = 1.6  # for each cue
CUE_BREAK: Final = 1.5  # weight of the break after a cue in its cost
LINE_BREAKS: Final = 0.6  # weight of the breaks between its lines
ORPHAN: Final = 0.2  # for a line of one word beside a longer line


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

    def may_end(self, end: int) -> bool:
        """Return whether a cue may end before the unit `end` if it can also end later."""
        return self.units[end - 1].break_cost < INSIDE_NUMBER


def measure(text: str, word_starts: Collection[int], language: str) -> MeasuredText:
    """Return the units of a text, with the cost of a line break after each unit.

    Args:
        text: on one line.
        word_starts: the index of each word's first character; empty if the words are not known.
        language: Whisper's code of the language of the text.
    """
    unspaced = language in UNSPACED
    units: list[TextUnit] = []
    word = -1
    sentence = 0
    for first, stop in visible_parts(text, unspaced=unspaced):
        new_word = not (unspaced and word_starts) or first in word_starts or not units
        word += new_word
        if units:
            before = units[-1]
            is_start = new_word and bool(word_starts)
            place = Break(text, sentence, before.first, before.stop, first, language, is_start)
            units[-1] = replace(before, break_cost=place.cost)
            if units[-1].break_cost == AFTER_SENTENCE:
                sentence = first
        units.append(TextUnit(first, stop, AFTER_SENTENCE, word))
    return MeasuredText(text, tuple(units), tuple(accumulate(map(columns, text), initial=0)))


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of lines and cues.

    Attributes:
        width: maximum columns of a line; None sets no limit.
        words: maximum words of a line; None sets no limit.
        lines: maximum lines of a cue; None sets no limit.
        duration: maximum seconds of a cue; infinite without a limit.
        first_indent: columns at the start of the first cue that the text cannot use.
        indent: the same for each other cue.
    """

    width: int | None
    words: int | None = None
    lines: int | None = None
    duration: float = math.inf
    first_indent: int = 0
    indent: int = 0


def lay_out(
    text: MeasuredText,
    limits: Limits,
    pause: Callable[[int, int], float],
    duration: Callable[[int, int], float],
) -> list[CueText]:
    """Divide a text into cues and their lines.

    Args:
        text: with at least one unit.
        limits: of lines and cues.
        pause: `pause(stop, first)` returns the seconds of silence between the end of the character
            before `stop` and the start of the character `first`.
        duration: `duration(first, stop)` returns the seconds from the start of the character
            `first` to the end of the character before `stop`.
    """
    layout = _Layout(text, limits)
    units = text.units

    def is_longer(first: int, stop: int) -> bool:
        return duration(units[first].first, units[stop - 1].stop) > limits.duration

    def end(first: int) -> int:
        last = layout.cue_end(first)
        while last > first + 1 and is_longer(first, last):
            last -= 1
        return last

    def cost(first: int, stop: int) -> float:
        silence = pause(units[stop - 1].stop, units[stop].first) if stop < len(units) else 0.0
        return layout.cue_cost(first, stop) - PAUSE_DISCOUNT * min(silence, 1.0)

    if layout.fits_line and not is_longer(0, len(units)):
        return [CueText(layout.lines(0, len(units)))]
    found = _divide(0, len(units), end, cost, extra=EXTRA_CUE, may_end=text.may_end)
    return [CueText(layout.lines(*cue)) for cue in found]


class _Layout:
    """The lines of all cues that a text may have."""

    def __init__(self, text: MeasuredText, limits: Limits) -> None:
        self._text = text
        self._limits = limits
        self._width = limits.width or USUAL_WIDTH
        indents = {limits.first_indent, limits.indent, 0}
        self._ends = {indent: _line_ends(text, limits, indent) for indent in indents}
        self.cue_end = cache(self._cue_end)
        self._divided = cache(self._divide)

    @property
    def fits_line(self) -> bool:
        """Whether the whole text fits into one line."""
        return self._ends[self._limits.first_indent][0] == len(self._text.units)

    def lines(self, first: int, stop: int) -> tuple[tuple[int, int], ...]:
        """Return the lines of a cue of the units `first` to `stop` - 1, as ranges of characters."""
        units = self._text.units
        return tuple(
            (units[begin].first, units[end - 1].stop) for begin, end in self._divided(first, stop)
        )

    def cue_cost(self, first: int, stop: int) -> float:
        """Return the cost of a cue: its width, the breaks of its lines, and the break after it."""
        units = self._text.units
        after = CUE_BREAK * units[stop - 1].break_cost
        if self._limits.lines is None:
            return after
        share = (self._indent(first) + self._text.width(first, stop)) / self._width
        inside = sum(units[end - 1].break_cost for _, end in self._divided(first, stop)[:-1])
        return (share / self._limits.lines) ** 2 + after + LINE_BREAKS * inside

    def _indent(self, first: int) -> int:
        return self._limits.indent if first else self._limits.first_indent

    def _cue_end(self, first: int) -> int:
        """Return the furthest end of a cue that begins with a unit."""
        end = self._ends[self._indent(first)][first]
        for _ in range(1, self._limits.lines or len(self._text.units)):
            if end == len(self._text.units):
                break
            end = self._ends[0][end]
        return end

    def _divide(self, cue_first: int, cue_stop: int) -> Sequence[tuple[int, int]]:
        """Return the lines of a cue, as ranges of units."""
        ends, indent = self._ends, self._indent(cue_first)
        first_end = ends[indent][cue_first]
        if first_end >= cue_stop:
            return [(cue_first, cue_stop)]
        inner = ends[0]

        def cost(first: int, stop: int) -> float:
            return self._line_cost(first, stop, indent if first == cue_first else 0, cue_stop)

        middles = [n for n in range(cue_first + 1, first_end + 1) if inner[n] >= cue_stop]
        if middles:  # two lines, as in most cues
            middle = min(middles, key=lambda n: cost(cue_first, n) + cost(n, cue_stop))
            return [(cue_first, middle), (middle, cue_stop)]

        def end(first: int) -> int:
            return first_end if first == cue_first else inner[first]

        return _divide(cue_first, cue_stop, end, cost)

    def _line_cost(self, first: int, stop: int, indent: int, cue_stop: int) -> float:
        """Return the cost of a line, which is part of a cue with several lines."""
        break_cost = self._text.units[stop - 1].break_cost
        orphan = 0.0
        if stop - first == 1 and (break_cost or stop == cue_stop):
            orphan = ORPHAN
        share = (indent + self._text.width(first, stop)) / self._width
        return share**2 + break_cost + orphan


def _line_ends(text: MeasuredText, limits: Limits, indent: int = 0) -> list[int]:
    """Return for each unit the furthest end of a line that begins with this unit.

    The end is the number of the unit after the line. `indent` columns of the line are taken.
    """
    width = (limits.width or math.inf) - indent
    words = limits.words or math.inf
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
    *,
    extra: float = math.inf,
    may_end: Callable[[int], bool] = lambda _: True,
) -> Sequence[tuple[int, int]]:
    """Divide the units `first` to `stop` - 1 into runs: the cheapest division.

    Dynamic programming over the ends of runs.

    Args:
        first: number of the first unit.
        stop: number after the last unit.
        furthest_end: returns the furthest end of a run, given its first unit. A run may end before.
        cost: returns the cost of a run, given its first unit and its end.
        extra: the cost of each run; infinite for the fewest runs, and the cheapest among these.
        may_end: returns whether a run may end at an end that is not the furthest.
    """
    # best[end]: number of runs if they must be few, their cost, and the first unit of the last run
    best: dict[int, tuple[int, float, int]] = {first: (0, 0.0, first)}
    few = extra == math.inf
    for begin in range(first, stop):
        if begin not in best:
            continue
        furthest = furthest_end(begin)
        if few and furthest >= stop and begin == first:
            return [(first, stop)]
        runs, total, _ = best[begin]
        last = min(furthest, stop)
        ends = [end for end in range(begin + 1, last) if may_end(end)] + [last]
        for end in ends:
            added = cost(begin, end) + (0.0 if few else extra)
            candidate = runs + few, total + added, begin
            best[end] = min(best.get(end, candidate), candidate)
    bounds = []
    while stop > first:
        bounds.append((best[stop][2], stop))
        stop = best[stop][2]
    return bounds[::-1]
