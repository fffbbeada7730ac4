"""Segments as cues: what subtitles show from one time to another.

    segments   [ Well, I don't know. It may be that he      ]          [ Yes. ]
    cues       [ Well, I don't know. ][ It may be that he   ]          [ Yes. ]

Cues do not overlap, and none is of no length after rounding: one that begins where the one before
it does begins a step later, and one that ends after the next begins ends there.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from whisperbatch.text.languages import UNSPACED
from whisperbatch.types import Segment, Transcript
from whisperbatch.writers.breaks import measure
from whisperbatch.writers.layout import Block, lay_out
from whisperbatch.writers.options import SubtitleOptions
from whisperbatch.writers.texts import is_visible, one_line
from whisperbatch.writers.times import milliseconds
from whisperbatch.writers.timing import Timing, time_text


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a cue.

    Attributes:
        text: of which no character is a line break.
        marked: the characters that are underlined: the first, and the one after the last.
    """

    text: str
    marked: tuple[int, int] = (0, 0)

    @property
    def parts(self) -> tuple[str, str, str]:
        """What is before the underlined characters, these, and what is after."""
        first, last = self.marked if any(self.marked) else (len(self.text), len(self.text))
        return self.text[:first], self.text[first:last], self.text[last:]


@dataclass(frozen=True, slots=True)
class Cue:
    """What is shown from one time to another.

    Attributes:
        start: in milliseconds.
        end: likewise, after `start` and not after the next cue's.
        lines: one or more.
        language: Whisper's code.
    """

    start: int
    end: int
    lines: tuple[Line, ...]
    language: str


@dataclass(frozen=True, slots=True)
class _Draft:
    """A cue before times are rounded: seconds, and the number of the block it shows."""

    start: float
    end: float
    lines: tuple[Line, ...]
    language: str
    block: int


def cues(
    transcript: Transcript,
    options: SubtitleOptions,
    *,
    line_count: int | None,
    step: int = 1,
) -> list[Cue]:
    """The cues of a transcript, in order.

    Args:
        transcript: whose segments they show; those without anything to see have none.
        options: of lines and words.
        line_count: lines of a cue, at most; None for any.
        step: what the format rounds times to, in milliseconds.
    """
    drafts: list[_Draft] = []
    number = 0
    for segment in transcript.segments:
        text = one_line(segment.text)
        if is_visible(text):
            timing = time_text(segment, text)
            for block in _blocks(segment, text, timing, options, line_count):
                marks = timing.by_word and options.highlight_words
                shown = _words(block, text, timing) if marks else [_whole(block, text, timing)]
                drafts += (_Draft(*one, segment.language, number) for one in shown)
                number += 1
    return list(_filled(drafts, _settle(drafts, step)))


def _blocks(
    segment: Segment,
    text: str,
    timing: Timing,
    options: SubtitleOptions,
    line_count: int | None,
) -> list[Block]:
    words = {piece.first for piece in timing.pieces} if timing.by_word else set()
    measured = measure(text, words, unspaced=segment.language in UNSPACED)
    return lay_out(measured, options, line_count, timing.silence)


def _whole(block: Block, text: str, timing: Timing) -> tuple[float, float, tuple[Line, ...]]:
    """When a block is shown, and its lines."""
    lines = tuple(Line(text[first:last]) for first, last in block.lines)
    return timing.start(block.first), timing.end(block.last), lines


def _words(
    block: Block, text: str, timing: Timing
) -> Iterator[tuple[float, float, tuple[Line, ...]]]:
    """When each word of a block is said, and the lines in which it is underlined."""
    for piece in timing.pieces:
        first, last = max(piece.first, block.first), min(piece.last, block.last)
        if first < last:
            lines = tuple(Line(text[a:b], _within(first, last, a, b)) for a, b in block.lines)
            yield piece.at(first), piece.at(last), lines


def _within(first: int, last: int, start: int, end: int) -> tuple[int, int]:
    """What of the characters `first` to `last` lies in the line `start` to `end`, in the line."""
    begin = max(first, start)
    stop = min(last, end)
    return (begin - start, stop - start) if begin < stop else (0, 0)


def _settle(drafts: Sequence[_Draft], step: int) -> list[tuple[int, int]]:
    """Their times in milliseconds, rounded, in order, without overlap, none of no length."""
    starts: list[int] = []
    for draft in drafts:
        earliest = starts[-1] + step if starts else 0
        starts.append(max(milliseconds(draft.start, step), earliest))
    times = []
    for draft, start, following in zip_longest(drafts, starts, starts[1:]):
        end = max(milliseconds(draft.end, step), start + step)
        times.append((start, end if following is None else min(end, following)))
    return times


def _filled(drafts: Sequence[_Draft], times: Sequence[tuple[int, int]]) -> Iterator[Cue]:
    """The cues; between two words of one block it is shown without a mark."""
    for number, (draft, (start, end)) in enumerate(zip(drafts, times, strict=True)):
        yield Cue(start, end, draft.lines, draft.language)
        following = drafts[number + 1 : number + 2]
        if following and following[0].block == draft.block and end < times[number + 1][0]:
            plain = tuple(Line(line.text) for line in draft.lines)
            yield Cue(end, times[number + 1][0], plain, draft.language)
