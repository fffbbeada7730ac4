"""The cues of subtitles: each shows some lines of text from a start to an end.

    segments   [ Well, I don't know. It may be that he      ]          [ Yes. ]
    cues       [ Well, I don't know. ][ It may be that he   ]          [ Yes. ]

Cues do not overlap, and every cue lasts at least one step after rounding. A cue that would start at
or before the start of the previous cue is moved to one step after it. A cue that would end after
the start of the next cue is cut there.

Where two speakers talk at the same time, their cues may overlap: only the next cue of the same
speaker cuts a cue.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, zip_longest

from whisperbatch.text.languages import UNSPACED
from whisperbatch.types import Segment, Transcript
from whisperbatch.writers.breaks import measure
from whisperbatch.writers.character_times import CharacterTimes, character_times
from whisperbatch.writers.layout import CueText, lay_out
from whisperbatch.writers.options import SubtitleOptions
from whisperbatch.writers.speakers import speaker_name
from whisperbatch.writers.text_cleaning import columns, is_visible, one_line
from whisperbatch.writers.timestamps import milliseconds


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a cue.

    Attributes:
        text: without line breaks.
        underlined: index of the first underlined character, and the index after the last.
    """

    text: str
    underlined: tuple[int, int] = (0, 0)

    @property
    def parts(self) -> tuple[str, str, str]:
        """The text before the underlined characters, the underlined text, and the text after it.

        Without underlined characters, the whole line is the first part.
        """
        end = len(self.text)
        first, stop = self.underlined if any(self.underlined) else (end, end)
        return self.text[:first], self.text[first:stop], self.text[stop:]


@dataclass(frozen=True, slots=True)
class Cue:
    """Lines of text that are shown from a start to an end.

    Attributes:
        start: in milliseconds.
        end: in milliseconds; after `start`, and not after the start of the speaker's next cue.
        lines: at least one.
        language: Whisper's code.
        speaker: name of the segment's speaker on one line; empty without a speaker.
    """

    start: int
    end: int
    lines: tuple[Line, ...]
    language: str
    speaker: str = ""


@dataclass(frozen=True, slots=True)
class _UnroundedCue:
    """A cue with start and end in seconds.

    Attributes:
        start: in seconds.
        end: in seconds.
        lines: at least one.
        language: Whisper's code.
        speaker: as in `Cue`.
        text_number: equal for all cues that show the same text with different underlined words.
    """

    start: float
    end: float
    lines: tuple[Line, ...]
    language: str
    speaker: str
    text_number: int


def cues(
    transcript: Transcript,
    options: SubtitleOptions,
    *,
    line_count: int | None,
    step: int = 1,
    shown_name: Callable[[str], str] | None = None,
) -> list[Cue]:
    """Return the cues of a transcript, in order. A cue has the text of one segment.

    Args:
        transcript: any transcript; a segment without visible text has no cues.
        options: the limits of lines, and whether words are highlighted.
        line_count: maximum lines of a cue; None sets no limit.
        step: times are rounded to multiples of this many milliseconds.
        shown_name: returns the text that shows a speaker at the start of each cue, and takes room
            in its first line; None if names take no room.
    """
    unrounded: list[_UnroundedCue] = []
    number = 0
    for segment in transcript.segments:
        text = one_line(segment.text)
        if not is_visible(text):
            continue
        times = character_times(segment, text)
        name = speaker_name(segment)
        indent = sum(map(columns, shown_name(name))) if shown_name and name else 0
        for cue_text in _cue_texts(segment, text, times, options, line_count, indent=indent):
            highlight = times.by_word and options.highlight_words
            timed_lines = (
                _highlighted(cue_text, text, times)
                if highlight
                else [_not_highlighted(cue_text, text, times)]
            )
            unrounded += (
                _UnroundedCue(start, end, lines, segment.language, name, number)
                for start, end, lines in timed_lines
            )
            number += 1
    if speakers_overlap(transcript.segments):
        unrounded.sort(key=lambda cue: cue.start)
        return list(_with_gaps_filled(unrounded, _overlapping_times(unrounded, step)))
    return list(_with_gaps_filled(unrounded, _rounded_times(unrounded, step)))


def speakers_overlap(segments: Sequence[Segment]) -> bool:
    """Return whether a segment begins before the segment of another speaker ends."""
    return any(
        before.speaker
        and after.speaker
        and before.speaker != after.speaker
        and before.start <= after.start < before.end
        for before, after in pairwise(segments)
    )


def _cue_texts(
    segment: Segment,
    text: str,
    times: CharacterTimes,
    options: SubtitleOptions,
    line_count: int | None,
    *,
    indent: int,
) -> list[CueText]:
    """Return the text of each cue of a segment; `indent` columns of each cue are taken."""
    word_starts = {span.first for span in times.spans} if times.by_word else set()
    measured = measure(text, word_starts, unspaced=segment.language in UNSPACED)
    return lay_out(measured, options, line_count, times.pause, indent)


def _not_highlighted(
    cue_text: CueText, text: str, times: CharacterTimes
) -> tuple[float, float, tuple[Line, ...]]:
    """Return start, end and lines of a cue."""
    lines = tuple(Line(text[first:stop]) for first, stop in cue_text.lines)
    return times.start(cue_text.first), times.end(cue_text.stop), lines


def _highlighted(
    cue_text: CueText, text: str, times: CharacterTimes
) -> Iterator[tuple[float, float, tuple[Line, ...]]]:
    """Yield start, end and lines for each word of a cue; the word is underlined in the lines."""
    for word in times.spans:
        first, stop = max(word.first, cue_text.first), min(word.stop, cue_text.stop)
        if first < stop:
            lines = tuple(
                Line(text[line_first:line_stop], _overlap(first, stop, line_first, line_stop))
                for line_first, line_stop in cue_text.lines
            )
            yield word.at(first), word.at(stop), lines


def _overlap(first: int, stop: int, line_first: int, line_stop: int) -> tuple[int, int]:
    """Return the part of the characters `first` to `stop` that lies in a line.

    The result counts from the start of the line; (0, 0) if no character lies in the line.
    """
    begin = max(first, line_first)
    end = min(stop, line_stop)
    return (begin - line_first, end - line_first) if begin < end else (0, 0)


def _rounded_times(cues: Sequence[_UnroundedCue], step: int) -> list[tuple[int, int]]:
    """Return start and end of each cue in milliseconds: in order, without overlap, never equal."""
    starts: list[int] = []
    for cue in cues:
        earliest = starts[-1] + step if starts else 0
        starts.append(max(milliseconds(cue.start, step), earliest))
    times = []
    for cue, start, next_start in zip_longest(cues, starts, starts[1:]):
        end = max(milliseconds(cue.end, step), start + step)
        times.append((start, end if next_start is None else min(end, next_start)))
    return times


def _overlapping_times(cues: Sequence[_UnroundedCue], step: int) -> list[tuple[int, int]]:
    """Return the times as `_rounded_times` does, but cues of different speakers may overlap."""
    starts = [start for start, _ in _rounded_times(cues, step)]
    times: list[tuple[int, int]] = []
    following: dict[str, int] = {}  # the start of the next cue of each speaker
    for cue, start in zip(reversed(cues), reversed(starts), strict=True):
        end = max(milliseconds(cue.end, step), start + step)
        times.append((start, min(end, following.get(cue.speaker, end))))
        following[cue.speaker] = start
    return times[::-1]


def _with_gaps_filled(
    cues: Sequence[_UnroundedCue], times: Sequence[tuple[int, int]]
) -> Iterator[Cue]:
    """Yield the cues with rounded times.

    In a pause between two highlighted words of the same text, the text is shown without underline.
    """
    for number, (cue, (start, end)) in enumerate(zip(cues, times, strict=True)):
        yield Cue(start, end, cue.lines, cue.language, cue.speaker)
        following = cues[number + 1 : number + 2]
        if not following or following[0].text_number != cue.text_number:
            continue
        next_start = times[number + 1][0]
        if end < next_start:
            lines = tuple(Line(line.text) for line in cue.lines)
            yield Cue(end, next_start, lines, cue.language, cue.speaker)
