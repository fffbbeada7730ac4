"""Words that repeat: "thank you thank you thank you ..."."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

LONGEST_PERIOD: Final = 40  # words: a loop of a whole paragraph


@dataclass(frozen=True, slots=True)
class Repeat:
    """The same `period` words over and over: words `start` up to, not including, `end`.

    The last time may be broken off.
    """

    start: int
    end: int
    period: int

    @property
    def times(self) -> float:
        """How often they are said."""
        return (self.end - self.start) / self.period

    @property
    def again(self) -> int:
        """How many words come after the first time."""
        return self.end - self.start - self.period


def repeats(words: Sequence[str], least: int = 3) -> list[Repeat]:
    """Where the same words come at least `least` times in a row: in order, without overlap.

    Of two that overlap the longer one counts; of the same length, that of the shorter period.
    """
    found: list[Repeat] = []
    for period in range(1, min(LONGEST_PERIOD, len(words) // least) + 1):
        start = 0
        for position in range(period, len(words) + 1):
            if position < len(words) and words[position] == words[position - period]:
                continue
            if position - start >= least * period:
                found.append(Repeat(start, position, period))
            start = position - period + 1
    found.sort(key=lambda repeat: (repeat.start - repeat.end, repeat.period))
    chosen: list[Repeat] = []
    for repeat in found:
        if all(repeat.end <= other.start or repeat.start >= other.end for other in chosen):
            chosen.append(repeat)
    return sorted(chosen, key=lambda repeat: repeat.start)
