"""Where a text that is too long for one segment is divided."""

from collections.abc import Callable, Sequence
from typing import Final

from whisperbatch.segmentation.timed_text import AlignedWord
from whisperbatch.text.punctuation import CLAUSE_ENDS, last_mark
from whisperbatch.types import to_samples

MIN_SEGMENT: Final = to_samples(1.0)  # dividing leaves no shorter segment, if possible

Silence = Callable[[AlignedWord, AlignedWord], int]
"""`silence(before, after)` returns the samples of silence between two words."""


def divide(
    words: Sequence[AlignedWord], limit: int, comma_pause: int, silence: Silence
) -> list[list[AlignedWord]]:
    """Divide words into groups of at most `limit` samples, at the most natural boundaries.

    A single word may be longer than the limit.

    Args:
        words: at least one word.
        limit: longest group in samples.
        comma_pause: see `best_boundary`.
        silence: samples of silence between two words.
    """
    if words[-1].end - words[0].start <= limit or len(words) == 1:
        return [list(words)]
    best = best_boundary(words, 1, comma_pause, silence)
    return [
        *divide(words[:best], limit, comma_pause, silence),
        *divide(words[best:], limit, comma_pause, silence),
    ]


def best_boundary(
    words: Sequence[AlignedWord], first: int, comma_pause: int, silence: Silence
) -> int:
    """Return the most natural boundary: it has a long pause or a comma, and is near the middle.

    Args:
        words: more than `first` words.
        first: index of the first possible boundary, from 1. Boundary n is before word n.
        comma_pause: a mark at the end of a clause counts as this many samples of silence.
        silence: samples of silence between two words.
    """

    def score(boundary: int) -> float:
        before, after = words[boundary - 1], words[boundary]
        comma = comma_pause if last_mark(before.text) in CLAUSE_ENDS else 0
        shorter = min(before.end - words[0].start, words[-1].end - after.start)
        middle = abs((before.end + after.start) - (words[0].start + words[-1].end)) / 20
        too_short = words[-1].end - words[0].start if shorter < MIN_SEGMENT else 0
        return silence(before, after) + comma - middle - too_short

    return max(range(first, len(words)), key=score)
