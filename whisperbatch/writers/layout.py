"""A text as cues of lines: as few as its limits leave, balanced, parted at good points.

The same search finds cues in a text and lines in a cue. Of all ways to part atoms into runs it
takes those of the fewest runs, and of these the cheapest: each run costs the square of its share of
the room, so that even runs are cheapest, and each break what `breaks` says. Breaking paragraphs by
least cost is D. Knuth's and M. Plass's (Software: Practice and Experience 11, 1981).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from whisperbatch.writers.breaks import Measured
from whisperbatch.writers.options import SubtitleOptions

USUAL_WIDTH: Final = 42  # columns: what even lines are measured by where they have no limit
PAUSE: Final = 0.3  # what a second of silence takes off the cost of parting cues there


@dataclass(frozen=True, slots=True)
class Block:
    """The text of a cue, as characters of the text that it is part of.

    Attributes:
        lines: the first character of each, and the one after its last.
    """

    lines: tuple[tuple[int, int], ...]

    @property
    def first(self) -> int:
        """Its first character."""
        return self.lines[0][0]

    @property
    def last(self) -> int:
        """The character after its last."""
        return self.lines[-1][1]


def lay_out(
    text: Measured,
    options: SubtitleOptions,
    line_count: int | None,
    pause: Callable[[int, int], float],
) -> list[Block]:
    """A text as the blocks of lines that cues show.

    Args:
        text: of one atom or more.
        options: widths and words of lines.
        line_count: lines of a block, at most; None for any.
        pause: seconds of silence between a character's end and a later one's start.
    """
    atoms = text.atoms
    ends = _line_ends(text, options)
    width = options.max_line_width or USUAL_WIDTH

    def line_cost(first: int, last: int) -> float:
        return (text.width(first, last) / width) ** 2 + atoms[last - 1].cost

    def block_end(first: int) -> int:
        for _ in range(line_count or len(atoms)):
            if first == len(atoms):
                break
            first = ends[first]
        return first

    def block_cost(first: int, last: int) -> float:
        share = text.width(first, last) / width / (line_count or 1)
        silence = pause(atoms[last - 1].last, atoms[last].first) if last < len(atoms) else 0.0
        return share**2 + atoms[last - 1].cost - PAUSE * min(silence, 1.0)

    blocks = []
    for first, last in _part(0, len(atoms), block_end, block_cost):
        lines = _part(first, last, ends.__getitem__, line_cost)
        blocks.append(Block(tuple((atoms[a].first, atoms[b - 1].last) for a, b in lines)))
    return blocks


def _line_ends(text: Measured, options: SubtitleOptions) -> list[int]:
    """For each atom, the one after the last that fits on a line with it."""
    width = options.max_line_width or math.inf
    words = options.max_words_per_line or math.inf
    atoms = text.atoms
    ends: list[int] = []
    last = 0
    for first, atom in enumerate(atoms):
        last = max(last, first + 1)
        while (
            last < len(atoms)
            and text.width(first, last + 1) <= width
            and atoms[last].word - atom.word < words
        ):
            last += 1
        ends.append(last)
    return ends


def _part(
    first: int,
    last: int,
    end: Callable[[int], int],
    cost: Callable[[int, int], float],
) -> Sequence[tuple[int, int]]:
    """Atoms `first` up to `last` in the fewest runs, and the cheapest.

    Args:
        first: the first atom.
        last: the one after the last.
        end: the furthest that a run may end from its first atom; it may end anywhere before.
        cost: of a run, given its first atom and its end.
    """
    best: dict[int, tuple[int, float, int]] = {first: (0, 0.0, first)}
    for start in range(first, last):
        furthest = end(start)
        if furthest >= last and start == first:
            return [(first, last)]
        runs, price, _ = best[start]
        for stop in range(start + 1, min(furthest, last) + 1):
            found = runs + 1, price + cost(start, stop), start
            best[stop] = min(best.get(stop, found), found)
    bounds = []
    while last > first:
        bounds.append((best[last][2], last))
        last = best[last][2]
    return bounds[::-1]
