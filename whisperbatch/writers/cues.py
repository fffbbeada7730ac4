"""The cues of subtitles: each shows some lines of text from a start to an end.

    segments   [ Well, I don't know. It may be that he      ]          [ Yes. ]
    cues       [ Well, I don't know. ][ It may be that he   ]          [ Yes. ]

Cues do not overlap, and every cue lasts at least one step after rounding. A cue that would start at
or before the start of the previous cue is moved to one step after it. A cue that would end after
the start of the next cue is cut there.

Where two speakers talk at the same time, their cues may overlap: only the next cue of the same
speaker cuts a cue.

The times of a cue come from the times of its characters. Without words, the characters share the
time of the segment, with pauses after clauses:

    text   ask not, ask what you can. Thank you.
    times  [=====]  [===============]  [=======]
"""

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from whisperbatch.text.languages import UNSPACED
from whisperbatch.text.sentences import CLAUSE_ENDS, CLOSING, SENTENCE_ENDS
from whisperbatch.types import Segment, Transcript, Word
from whisperbatch.writers.formatting import (
    columns,
    is_visible,
    milliseconds,
    one_line,
    speaker_name,
)
from whisperbatch.writers.layout import CueText, lay_out, measure
from whisperbatch.writers.options import SubtitleOptions

# Pauses, in the time of a letter (70 ms). In three English recordings (tiny.en), the starts of cues
# without words were 0.46 s wrong on average without pauses, 0.30 s with pauses of 8 and 12 letters,
# 0.28 s with 10 and 15, and 0.25 s with 15 and 25.
CLAUSE_PAUSE: Final = 10
SENTENCE_PAUSE: Final = 15
LETTERS_PER_CHARACTER: Final = 2  # in languages without spaces: characters are syllables

_MARKS: Final = "".join(SENTENCE_ENDS | CLAUSE_ENDS)
_WIDE_MARKS: Final = "".join(mark for mark in _MARKS if columns(mark) > 1)  # no space follows
_CLAUSE_END: Final = re.compile(  # its group is the space before the next clause
    "(?:[{marks}][{closing}]*(?=\\s)|[{wide}]+[{closing}]*)(?=(\\s*)\\S)".format(
        marks=re.escape(_MARKS),
        closing=re.escape(CLOSING),
        wide=re.escape(_WIDE_MARKS),
    )
)


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
        lines: as in `Cue`.
        segment: that has the text.
        text: the text of the cue; the same object in all cues that underline a word of this text.
    """

    start: float
    end: float
    lines: tuple[Line, ...]
    segment: Segment
    text: CueText


def cues(
    transcript: Transcript,
    options: SubtitleOptions,
    *,
    line_count: int | None,
    step: int = 1,
    label: str = "",
) -> list[Cue]:
    """Return the cues of a transcript, in order. A cue has the text of one segment.

    Args:
        transcript: any transcript; a segment without visible text has no cues.
        options: the limits of lines, and whether words are highlighted.
        line_count: maximum lines of a cue; None sets no limit.
        step: times are rounded to multiples of this many milliseconds.
        label: shows a speaker at the start of each cue, with "{}" for the name, and takes room in
            the first line; empty if names take no room.
    """
    unrounded = [
        cue
        for segment in transcript.segments
        for cue in _unrounded_cues(segment, options, line_count, label)
    ]
    overlap = speakers_overlap(transcript.segments)
    if overlap:
        unrounded.sort(key=lambda cue: cue.start)
    return list(_with_gaps_filled(unrounded, _rounded_times(unrounded, step, overlap=overlap)))


def speakers_overlap(segments: Sequence[Segment]) -> bool:
    """Return whether a segment begins before the segment of another speaker ends."""
    return any(
        before.speaker
        and after.speaker
        and before.speaker != after.speaker
        and before.start <= after.start < before.end
        for before, after in pairwise(segments)
    )


def _unrounded_cues(
    segment: Segment,
    options: SubtitleOptions,
    line_count: int | None,
    label: str,
) -> Iterator[_UnroundedCue]:
    """Yield the cues of a segment; with `highlight_words`, a cue for each word."""
    text = one_line(segment.text)
    if not is_visible(text):
        return
    times = character_times(segment, text)
    word_starts = {span.first for span in times.spans} if times.by_word else set()
    measured = measure(text, word_starts, unspaced=segment.language in UNSPACED)
    name = speaker_name(segment)
    indent = sum(map(columns, label.format(name))) if name else 0
    highlight = times.by_word and options.highlight_words
    for cue in lay_out(measured, options, line_count, times.pause, indent):
        words = times.spans if highlight else (cue,)
        for word in words:
            first, stop = max(word.first, cue.first), min(word.stop, cue.stop)
            if first < stop:
                lines = tuple(
                    Line(
                        text[begin:end], _overlap(first, stop, begin, end) if highlight else (0, 0)
                    )
                    for begin, end in cue.lines
                )
                yield _UnroundedCue(times.start(first), times.end(stop), lines, segment, cue)


def _overlap(first: int, stop: int, line_first: int, line_stop: int) -> tuple[int, int]:
    """Return the part of the characters `first` to `stop` that lies in a line.

    The result counts from the start of the line; (0, 0) if no character lies in the line.
    """
    begin = max(first, line_first)
    end = min(stop, line_stop)
    return (begin - line_first, end - line_first) if begin < end else (0, 0)


def _rounded_times(
    cues: Sequence[_UnroundedCue], step: int, *, overlap: bool
) -> list[tuple[int, int]]:
    """Return start and end of each cue in milliseconds: in order, never equal.

    With `overlap`, the next cue of the same speaker ends a cue; otherwise the next cue does.
    """
    starts: list[int] = []
    for cue in cues:
        earliest = starts[-1] + step if starts else 0
        starts.append(max(milliseconds(cue.start, step), earliest))
    times: list[tuple[int, int]] = []
    following: dict[str, int] = {}  # the start of the next cue of each speaker
    for cue, start in zip(reversed(cues), reversed(starts), strict=True):
        speaker = speaker_name(cue.segment) if overlap else ""
        end = max(milliseconds(cue.end, step), start + step)
        times.append((start, min(end, following.get(speaker, end))))
        following[speaker] = start
    return times[::-1]


def _with_gaps_filled(
    cues: Sequence[_UnroundedCue], times: Sequence[tuple[int, int]]
) -> Iterator[Cue]:
    """Yield the cues with rounded times.

    In a pause between two highlighted words of the same text, the text is shown without underline.
    """
    for number, (cue, (start, end)) in enumerate(zip(cues, times, strict=True), start=1):
        language, speaker = cue.segment.language, speaker_name(cue.segment)
        yield Cue(start, end, cue.lines, language, speaker)
        if number == len(cues) or cues[number].text is not cue.text:
            continue
        next_start = times[number][0]
        if end < next_start:
            lines = tuple(Line(line.text) for line in cue.lines)
            yield Cue(end, next_start, lines, language, speaker)


@dataclass(frozen=True, slots=True)
class TimedCharacters:
    """Consecutive characters with a start and an end: a word or a clause.

    Attributes:
        first: index of the first character in the text.
        stop: index after the last character.
        start: in seconds.
        end: in seconds, not before `start`.
    """

    first: int
    stop: int
    start: float
    end: float

    def at(self, character: int) -> float:
        """Return the time of the boundary before a character; all characters last equally long."""
        share = (character - self.first) / (self.stop - self.first)
        return self.start + share * (self.end - self.start)


@dataclass(frozen=True, slots=True)
class CharacterTimes:
    """The times of all characters of a text.

    Attributes:
        spans: in order, without overlap; all characters between two spans are whitespace.
        by_word: whether each span is a word.
    """

    spans: tuple[TimedCharacters, ...]
    by_word: bool

    def start(self, character: int) -> float:
        """Return the time in seconds at which a character starts."""
        return self._span(character).at(character)

    def end(self, stop: int) -> float:
        """Return the time in seconds at which the character before `stop` ends."""
        return self._span(stop - 1).at(stop)

    def pause(self, stop: int, first: int) -> float:
        """Return the seconds from the end of the character before `stop` to the start of `first`.

        0 without the times of words.
        """
        return self.start(first) - self.end(stop) if self.by_word else 0.0

    def _span(self, character: int) -> TimedCharacters:
        return self.spans[bisect_right(self.spans, character, key=lambda span: span.first) - 1]


def character_times(segment: Segment, text: str) -> CharacterTimes:
    """Return the times of the characters of a segment's text.

    The times come from the segment's words if these spell the text. Otherwise the characters share
    the duration of the segment, all with the same time, except pauses after clauses and sentences.

    Args:
        segment: any segment.
        text: the segment's text on one line, with at least one visible character.
    """
    words = _locate_words(segment.words or (), text)
    if words:
        return CharacterTimes(words, by_word=True)
    return CharacterTimes(_spread(segment, text), by_word=False)


def _spread(segment: Segment, text: str) -> tuple[TimedCharacters, ...]:
    """Return the clauses of a text; the characters and pauses share the time of the segment."""
    letters = LETTERS_PER_CHARACTER if segment.language in UNSPACED else 1
    clauses = []  # first character, end, and letters before the clause
    first, before = 0, 0.0
    for match in _CLAUSE_END.finditer(text):
        stop = match.end()
        clauses.append((first, stop, before))
        pause = SENTENCE_PAUSE if match[0][0] in SENTENCE_ENDS else CLAUSE_PAUSE
        before += (stop - first) + pause / letters
        first = match.end(1)
    clauses.append((first, len(text), before))
    total = before + len(text) - first
    duration = max(segment.end - segment.start, 0.0)
    return tuple(
        TimedCharacters(
            first,
            stop,
            segment.start + duration * before / total,
            segment.start + duration * (before + stop - first) / total,
        )
        for first, stop, before in clauses
    )


def _locate_words(words: Sequence[Word], text: str) -> tuple[TimedCharacters, ...]:
    """Return the characters and times of each word; empty if the words do not spell the text.

    Whitespace is ignored in the comparison.
    """
    indexes = [index for index, character in enumerate(text) if not character.isspace()]
    spelled = [("".join(one_line(word.word).split()), word) for word in words]
    if "".join(letters for letters, _ in spelled) != "".join(text[index] for index in indexes):
        return ()
    spans = []
    position = 0
    for letters, word in spelled:
        if letters:
            first, stop = indexes[position], indexes[position + len(letters) - 1] + 1
            spans.append(TimedCharacters(first, stop, word.start, max(word.start, word.end)))
            position += len(letters)
    return tuple(spans)
