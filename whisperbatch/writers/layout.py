"""Divide a text into cues and lines: as few as the limits allow, of even length, at good places.

The same search divides a text into cues, and a cue into lines. Both are runs of consecutive text
units. Of all divisions with the fewest runs, the search takes the cheapest division:

    cost of a run = (its width / the available width) ** 2 + cost of the break after the run

The square makes runs of even width cheapest. `breaks` defines the cost of a break. The method is
the paragraph breaking of D. Knuth and M. Plass (Software: Practice and Experience 11, 1981).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from whisperbatch.writers.breaks import MeasuredText
from whisperbatch.writers.options import SubtitleOptions

USUAL_WIDTH: Final = 42  # columns: the width in the cost of a line if lines have no maximum width
PAUSE_DISCOUNT: Final = 0.3  # per second of silence, for a break between two cues; at most 1 s


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

    cue_texts = []
    for first, stop in _divide(0, len(units), cue_end, cue_cost):
        first_line = first_line_ends[first], indent
        cue_texts.append(CueText(_lines(text, (first, stop), line_ends, first_line, width)))
    return cue_texts


def _lines(
    text: MeasuredText,
    cue: tuple[int, int],
    line_ends: Sequence[int],
    first_line: tuple[int, int],
    width: int,
) -> tuple[tuple[int, int], ...]:
    """Return the lines of a cue, as ranges of characters.

    Args:
        text: of the segment.
        cue: number of the first unit of the cue, and the number after the last.
        line_ends: for each unit the furthest end of a line that begins with this unit.
        first_line: the furthest end of the first line, and its columns that the text cannot use.
        width: of a full line, in columns.
    """
    units = text.units
    first_end, indent = first_line

    def end(first: int) -> int:
        return first_end if first == cue[0] else line_ends[first]

    def cost(first: int, stop: int) -> float:
        columns = text.width(first, stop) + (indent if first == cue[0] else 0)
        return (columns / width) ** 2 + units[stop - 1].break_cost

    lines = _divide(*cue, end, cost)
    return tuple((units[first].first, units[stop - 1].stop) for first, stop in lines)


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
