"""The cues of subtitles: each shows some lines of text from a start to an end.

    segments   [ Well, I don't know. It may be that he      ]          [ Yes. ]
    cues       [ Well, I don't know. ][ It may be that he   ]          [ Yes. ]

Cues do not overlap, and every cue lasts at least one step after rounding. A cue that would start at
or before the start of the previous cue is moved to one step after it. A cue that would end after
the start of the next cue is cut there. Then `timing` lengthens the cues, as their rules demand.

Where two speakers talk at the same time, their cues may overlap: only the next cue of the same
speaker cuts a cue.

A segment that is too short to be read becomes one cue with the next segment of the same speaker, if
both fit.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from typing import Final, Literal

from whisperbatch.text.languages import UNSPACED
from whisperbatch.types import Segment, Transcript
from whisperbatch.writers.character_times import CharacterTimes, TimedCharacters, character_times
from whisperbatch.writers.formatting import (
    is_visible,
    milliseconds,
    one_line,
    speaker_name,
    width_of,
)
from whisperbatch.writers.layout import CueText, Limits, lay_out, measure
from whisperbatch.writers.options import SubtitleOptions
from whisperbatch.writers.rules import Rules
from whisperbatch.writers.timing import Speech, shown_times

JOINED_PAUSE: Final = 1.0  # seconds between two segments that may become one cue
DASH: Final = "- "


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
class SpokenPart:
    """A word, or the part of a word that is on one line of a cue.

    Attributes:
        start: in milliseconds, from the start of the recording.
        end: in milliseconds.
        line: number of the line.
        first: index of the first character in the line.
        stop: index after the last character.
    """

    start: int
    end: int
    line: int
    first: int
    stop: int


@dataclass(frozen=True, slots=True)
class Cue:
    """Lines of text that are shown from a start to an end.

    Attributes:
        start: in milliseconds.
        end: in milliseconds; after `start`, and not after the start of the speaker's next cue.
        lines: at least one.
        language: Whisper's code.
        speaker: name of the segment's speaker on one line; empty without a speaker.
        label: shows the speaker at the start of the first line; empty if nothing does.
        words: in order; empty if the times of the words are not known.
    """

    start: int
    end: int
    lines: tuple[Line, ...]
    language: str
    speaker: str = ""
    label: str = ""
    words: tuple[SpokenPart, ...] = ()


@dataclass(frozen=True, slots=True)
class _Passage:
    """The text of a cue, and when it is spoken.

    Attributes:
        segment: that has the text.
        text: the text of the segment on one line.
        cue: where the lines of the cue are in the text.
        times: of the characters of the text.
        label: shows the speaker; empty without one.
        rules: for the language.
    """

    segment: Segment
    text: str
    cue: CueText
    times: CharacterTimes
    label: str
    rules: Rules

    @property
    def start(self) -> float:
        """The start of the speech in seconds."""
        return self.times.start(self.cue.first)

    @property
    def end(self) -> float:
        """The end of the speech in seconds."""
        return self.times.end(self.cue.stop)

    @property
    def words(self) -> list[TimedCharacters]:
        """The words of which the cue has a character; empty if they are not known."""
        spans = self.times.spans if self.times.by_word else ()
        return [span for span in spans if span.first < self.cue.stop and span.stop > self.cue.first]

    def speech(self, time: tuple[int, int], least: int, *, overlap: bool) -> Speech:
        """Return what the cue says, with its times and its least duration in milliseconds."""
        texts = [self.label, *(self.text[first:stop] for first, stop in self.cue.lines)]
        width = sum(map(width_of, texts))
        count = sum(len(text.split()) for text in texts)
        speaker = speaker_name(self.segment) if overlap else ""
        return Speech(*time, width, count, speaker, self.rules, least)


def cues(
    transcript: Transcript,
    options: SubtitleOptions,
    *,
    line_count: int | Literal["auto"] | None = "auto",
    step: int = 1,
    label: str = "",
    timed: bool = True,
) -> list[Cue]:
    """Return the cues of a transcript, in order. A cue has the text of one speaker.

    Args:
        transcript: any transcript; a segment without visible text has no cues.
        options: the rules for lines and times.
        line_count: maximum lines of a cue; None sets no limit, "auto" takes the rules' limit.
        step: times are rounded to multiples of this many milliseconds.
        label: shows a speaker at the start of a cue, with "{}" for the name, and takes room in the
            first line; empty if names take no room.
        timed: whether a cue may be shown longer than its speech.
    """
    timed = timed and options.rules("").timed
    segments = transcript.segments
    joined = _joined(segments, options) if timed else segments
    passages = list(_passages(joined, options, line_count, label))
    overlap = speakers_overlap(segments)
    if overlap:
        passages.sort(key=lambda passage: passage.start)
    counts = [len(p.words) or 1 if options.highlight_words else 1 for p in passages]
    times = _rounded_times(passages, counts, step, overlap=overlap)
    if timed:
        spoken = [
            passage.speech(time, count * step, overlap=overlap)
            for passage, time, count in zip(passages, times, counts, strict=True)
        ]
        times = shown_times(spoken, step, milliseconds(transcript.duration))
    return [_cue(passage, *time, step) for passage, time in zip(passages, times, strict=True)]


def _cue(passage: _Passage, start: int, end: int, step: int) -> Cue:
    """Return a passage as a cue; its words lie in the cue, in order, each of at least a step."""
    spans = passage.words
    parts: list[SpokenPart] = []
    begins: list[int] = []
    for number, span in enumerate(spans):
        earliest = begins[-1] + step if begins else start
        time = milliseconds(span.at(max(span.first, passage.cue.first)), step)
        begins.append(max(min(time, end - (len(spans) - number) * step), earliest))
    for number, span in enumerate(spans):
        latest = begins[number + 1] if number + 1 < len(spans) else end
        time = milliseconds(span.at(min(span.stop, passage.cue.stop)), step)
        stop = min(max(time, begins[number] + step), latest)
        for line, (first, last) in enumerate(passage.cue.lines):
            begin, finish = max(span.first, first), min(span.stop, last)
            if begin < finish:
                part = SpokenPart(begins[number], stop, line, begin - first, finish - first)
                parts.append(part)
    lines = tuple(Line(passage.text[first:stop]) for first, stop in passage.cue.lines)
    segment = passage.segment
    speaker = speaker_name(segment)
    return Cue(start, end, lines, segment.language, speaker, passage.label, tuple(parts))


def highlighted(cues: Iterable[Cue]) -> Iterator[Cue]:
    """Yield a cue for each word, in which this word is underlined.

    While no word is spoken, the text is shown without underline.
    """
    for cue in cues:
        position = cue.start
        for (start, end), parts in groupby(cue.words, lambda part: (part.start, part.end)):
            if position < start:
                yield replace(cue, start=position, end=start, words=())
            spans = {part.line: (part.first, part.stop) for part in parts}
            lines = tuple(
                replace(line, underlined=spans.get(number, (0, 0)))
                for number, line in enumerate(cue.lines)
            )
            yield replace(cue, start=start, end=end, lines=lines, words=())
            position = end
        if position < cue.end:
            yield replace(cue, start=position, words=())


def speakers_overlap(segments: Sequence[Segment]) -> bool:
    """Return whether a segment begins before the segment of another speaker ends."""
    return any(
        before.speaker
        and after.speaker
        and before.speaker != after.speaker
        and before.start <= after.start < before.end
        for before, after in pairwise(segments)
    )


def _passages(
    segments: Iterable[Segment],
    options: SubtitleOptions,
    line_count: int | Literal["auto"] | None,
    label: str,
) -> Iterator[_Passage]:
    """Yield the passages of segments."""
    previous = ""
    for segment in segments:
        text = one_line(segment.text)
        if not is_visible(text):
            continue
        name = speaker_name(segment)
        first = again = label.format(name) if name and label else ""
        if options.speaker_style in {"dash", "none"} and first:
            first = again = DASH if options.speaker_style == "dash" else ""
        if options.speaker_style in {"dash", "on-change"}:
            first, again = first if name != previous else "", ""
        previous = name
        yield from _laid_out(segment, text, options, line_count, (first, again))


def _laid_out(
    segment: Segment,
    text: str,
    options: SubtitleOptions,
    line_count: int | Literal["auto"] | None,
    labels: tuple[str, str],
) -> Iterator[_Passage]:
    """Yield the passages of a segment; the labels are those of the first and each other cue."""
    rules = options.rules(segment.language)
    times = character_times(segment, text)
    word_starts = {span.first for span in times.spans} if times.by_word else set()
    divided = rules.max_line_width is not None or options.max_words_per_line is not None
    limits = Limits(
        width=rules.max_line_width,
        words=options.max_words_per_line,
        lines=rules.max_line_count if line_count == "auto" else line_count,
        duration=rules.max_duration or math.inf if divided else math.inf,
        first_indent=width_of(labels[0]),
        indent=width_of(labels[1]),
    )
    measured = measure(text, word_starts, segment.language)
    for number, cue in enumerate(lay_out(measured, limits, times.pause, times.duration)):
        yield _Passage(segment, text, cue, times, labels[min(number, 1)], rules)


def _joined(segments: Sequence[Segment], options: SubtitleOptions) -> Iterator[Segment]:
    """Yield the segments; a segment that is too short to be read is joined to the next one.

    Both have the same speaker and language, follow each other closely, and fit into one cue.
    """
    waiting: Segment | None = None
    for number, segment in enumerate(segments):
        following = segments[number + 1].start if number + 1 < len(segments) else math.inf
        if waiting is None:
            waiting = segment
        elif _belong_together(waiting, segment, following, options):
            waiting = _pair(waiting, segment)
        else:
            yield waiting
            waiting = segment
    if waiting is not None:
        yield waiting


def _belong_together(
    first: Segment, second: Segment, following: float, options: SubtitleOptions
) -> bool:
    """Return whether two segments become one cue. `following` is the start of the next segment."""
    rules = options.rules(first.language)
    if (
        (first.language, first.speaker) != (second.language, second.speaker)
        or not 0 <= second.start - first.end <= JOINED_PAUSE
        or options.max_words_per_line is not None
        or rules.max_line_width is None
        or (first.words is None) != (second.words is None)
        or second.end - first.start > (rules.max_duration or math.inf)
    ):
        return False
    texts = [one_line(segment.text) for segment in (first, second)]
    widths = [width_of(text) for text in texts]
    if min(widths) == 0 or max(widths) > rules.max_line_width:
        return False
    lines = 1 if sum(widths) < rules.max_line_width else 2
    if lines > (rules.max_line_count or lines):
        return False
    times = (second.start - first.start, following - second.start)
    return any(
        min(time, rules.max_duration or math.inf) - rules.gap
        < rules.reading_time(width, len(text.split()))
        for text, width, time in zip(texts, widths, times, strict=True)
    )


def _pair(first: Segment, second: Segment) -> Segment:
    """Return two segments as one."""
    space = "" if first.language in UNSPACED else " "
    words = None
    if first.words is not None and second.words is not None:
        words = (*first.words, *second.words)
    text = f"{first.text.rstrip()}{space}{second.text.lstrip()}"
    return replace(first, text=text, end=second.end, words=words)


def _rounded_times(
    passages: Sequence[_Passage], counts: Sequence[int], step: int, *, overlap: bool
) -> list[tuple[int, int]]:
    """Return start and end of each speech in milliseconds: in order, never equal.

    With `overlap`, the next cue of the same speaker ends a cue; otherwise the next cue does. A cue
    lasts at least as many steps as `counts` says.
    """
    starts: list[int] = []
    earliest = 0
    for passage, count in zip(passages, counts, strict=True):
        starts.append(max(milliseconds(passage.start, step), earliest))
        earliest = starts[-1] + count * step
    times: list[tuple[int, int]] = []
    following: dict[str, int] = {}  # the start of the next cue of each speaker
    for passage, start, count in zip(
        reversed(passages), reversed(starts), reversed(counts), strict=True
    ):
        speaker = speaker_name(passage.segment) if overlap else ""
        end = max(milliseconds(passage.end, step), start + count * step)
        times.append((start, min(end, following.get(speaker, end))))
        following[speaker] = start
    return times[::-1]
