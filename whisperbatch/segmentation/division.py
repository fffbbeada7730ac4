"""Where a text that is too long for one segment is divided."""

from collections.abc import Callable, Sequence
from typing import Final

from whisperbatch.segmentation.timed_text import AlignedWord
from whisperbatch.types import to_samples

MIN_SEGMENT: Final = to_samples(1.0)  # dividing leaves no shorter segment, if possible

Pause = Callable[[AlignedWord, AlignedWord], int]
"""`pause(before, after)` returns the samples of silence between two words. A mark at the end of a
clause counts as silence, too."""


def divide(words: Sequence[AlignedWord], limit: int, pause: Pause) -> list[list[AlignedWord]]:
    """Divide words into groups of at most `limit` samples, at the most natural boundaries.

    A single word may be longer than the limit.

    Args:
        words: at least one word.
        limit: longest group in samples.
        pause: the pause between two words.
    """
    if words[-1].end - words[0].start <= limit or len(words) == 1:
        return [list(words)]
    best = best_boundary(words, pause)
    return [*divide(words[:best], limit, pause), *divide(words[best:], limit, pause)]


def best_boundary(words: Sequence[AlignedWord], pause: Pause, first: int = 1) -> int:
    """Return the most natural boundary: it has a long pause, and is near the middle.

    Args:
        words: more than `first` words.
        pause: the pause between two words.
        first: index of the first possible boundary. Boundary n is before word n.
    """

    def score(boundary: int) -> float:
        before, after = words[boundary - 1], words[boundary]
        shorter = min(before.end - words[0].start, words[-1].end - after.start)
        middle = abs((before.end + after.start) - (words[0].start + words[-1].end)) / 20
        too_short = words[-1].end - words[0].start if shorter < MIN_SEGMENT else 0
        return pause(before, after) - middle - too_short

    return max(range(first, len(words)), key=score)
