"""Loops: words that repeat, like "thank you thank you thank you"."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

MAX_PERIOD: Final = 40  # words: a loop may repeat a whole paragraph


@dataclass(frozen=True, slots=True)
class Repeat:
    """Words that repeat with a period of `period` words; the last repetition may be incomplete.

    Attributes:
        start: index of the first word.
        end: index after the last word.
        period: number of words that repeat.
    """

    start: int
    end: int
    period: int

    @property
    def times(self) -> float:
        """How often the words occur, counting the first time and the incomplete last time."""
        return (self.end - self.start) / self.period

    @property
    def repeated_words(self) -> int:
        """Number of words after the first time."""
        return self.end - self.start - self.period


def find_repeats(words: Sequence[str], min_times: int = 3) -> list[Repeat]:
    """Return the places where the same words occur at least `min_times` times in a row.

    The repeats are in order and do not overlap. Of two overlapping candidates, the
    longer is taken; of two with the same length, the candidate with the shorter period.
    """
    candidates: list[Repeat] = []
    for period in range(1, min(MAX_PERIOD, len(words) // min_times) + 1):
        start = 0
        for position in range(period, len(words) + 1):
            if position < len(words) and words[position] == words[position - period]:
                continue
            if position - start >= min_times * period:
                candidates.append(Repeat(start, position, period))
            start = position - period + 1
    candidates.sort(key=lambda repeat: (repeat.start - repeat.end, repeat.period))
    chosen: list[Repeat] = []
    for repeat in candidates:
        if all(repeat.end <= longer.start or repeat.start >= longer.end for longer in chosen):
            chosen.append(repeat)
    return sorted(chosen, key=lambda repeat: repeat.start)
