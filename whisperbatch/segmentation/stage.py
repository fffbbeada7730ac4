"""The segmentation stage: the text of rows becomes the segments of their recordings."""

import math
from bisect import bisect_left
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

from whisperbatch.options import Options
from whisperbatch.recording import End, RecordingState
from whisperbatch.segmentation.sentences import Sentence, divide_phrases, join_texts, next_row
from whisperbatch.segmentation.timed_text import (
    AlignedWord,
    LanguageDoubt,
    RowResult,
    ScoredText,
    Scores,
    TimedText,
)
from whisperbatch.text.languages import LANGUAGES
from whisperbatch.types import (
    SILENT,
    Notice,
    SectionSound,
    Segment,
    Word,
    concerns_empty_only,
    first_section,
    to_samples,
    to_seconds,
    unnamed_speaker,
)

VAD_FOUND_NONE = "no text: the voice activity detector found no speech in the sound"
# Samples of frames that count as speech: single frames in noise give no chunk, and no text.
MIN_SPEECH = to_samples(1.0)
HELP = "another channel, track or language may have the speech"


@dataclass(frozen=True, slots=True)
class RowSegments:
    """The segments that are complete after a row, all with id 0.

    Attributes:
        earlier: segments with text of earlier rows only.
        segments: segments with text of this row.
        held: the beginning of a sentence, for the next row.
    """

    earlier: tuple[Segment, ...] = ()
    segments: tuple[Segment, ...] = ()
    held: Sentence | None = None


@dataclass(slots=True)
class OpenText:
    """The text of a recording that is not yielded yet.

    Attributes:
        is_mixed: whether the last row has all channels; otherwise it has a single channel. None
            before the first row.
        held: for each channel, the beginning of a sentence, for the next row of the channel; the
            key of all channels is None.
        waiting: segments of channels that may be yielded only in order with those of others.
        heard: channels with a row since the segments were last released.
    """

    is_mixed: bool | None = None
    held: dict[int | None, Sentence] = field(default_factory=dict)
    waiting: list[Segment] = field(default_factory=list)
    heard: set[int | None] = field(default_factory=set)

    def add(self, channel: int | None, segments: Iterable[Segment]) -> None:
        """Add segments of a channel, whose speaker is known."""
        speaker = None if channel is None else unnamed_speaker(channel)
        self.waiting += (replace(segment, speaker=speaker) for segment in segments)
        self.heard.add(channel)

    def unheard(self) -> list[int | None]:
        """Return the channels with held text and without a row since the last release."""
        return [channel for channel in self.held if channel not in self.heard]

    def release(self) -> list[Segment]:
        """Return the segments that no later segment precedes, in order of their starts."""
        self.heard = set()
        starts = [to_seconds(sentence.words[0].start) for sentence in self.held.values()]
        earliest = min(starts, default=math.inf)
        self.waiting.sort(key=lambda segment: (segment.start, segment.end))
        count = bisect_left(self.waiting, earliest, key=lambda segment: segment.start)
        released, self.waiting = self.waiting[:count], self.waiting[count:]
        return released


class Segmentation:
    """Divides the text of rows into segments, and adds each row to the state of its recording.

    Args:
        options: of the run.
    """

    def __init__(self, options: Options) -> None:
        self._options = options
        self._with_words = options.word_timestamps or options.diarize  # each word has a speaker
        self._margin = to_samples(options.speech_pad)  # after speech that a pause follows
        self._first_section = first_section(options.clip_timestamps)
        self._clip_starts = [to_samples(start) for start, _ in options.clip_timestamps]

    def __call__(
        self, recording: RecordingState, results: Iterable[RowResult | End]
    ) -> Generator[Segment | End, None, None]:
        """Yield the segments of each row of a recording, and its `End` after them.

        When a segment is yielded, the state of the recording has the language, the counts and the
        omissions up to the last row with text of this segment. Segments of channels whose speech
        overlaps are in order of their starts.
        """
        text = OpenText()
        try:
            for result in results:
                if isinstance(result, End):
                    yield from self._finish(recording, text)
                    explain_missing_text(recording, self._options)
                    yield result
                else:
                    yield from self._add(recording, result, text)
        except Exception:  # ends the recording, but loses no text that was held back
            yield from self._finish(recording, text)
            raise

    def _add(self, recording: RecordingState, row: RowResult, text: OpenText) -> Iterator[Segment]:
        """Yield the segments that a row completes: segments of earlier rows, then its own."""
        is_mixed = row.channel is None
        if row.section != recording.section:
            recording.doubt_until = None
        # a sentence ends at the point between two sections, and where the channels are separated
        if row.section != recording.section or text.is_mixed != is_mixed:
            yield from self._finish(recording, text)
        text.is_mixed = is_mixed
        first = not (recording.segments or text.waiting) and row.section == self._first_section
        done = self._row_segments(row.texts, text.held.get(row.channel), first=first)
        text.held.pop(row.channel, None)
        if done.held:
            text.held[row.channel] = done.held
        if is_mixed:
            yield from _number(recording, done.earlier)
            _publish(recording, row)
            yield from _number(recording, done.segments)
            return
        _publish(recording, row)
        text.add(row.channel, (*done.earlier, *done.segments))
        if row.completes:
            for channel in text.unheard():
                text.add(channel, self._segments([text.held.pop(channel)]))
            yield from _number(recording, text.release())

    def _finish(self, recording: RecordingState, text: OpenText) -> Iterator[Segment]:
        """Yield the words of a recording that were held back, because no row continues them."""
        for channel, sentence in text.held.items():
            text.add(channel, self._segments([sentence]))
        text.held = {}
        yield from _number(recording, text.release())

    def _row_segments(
        self, texts: Sequence[ScoredText], held: Sentence | None, *, first: bool
    ) -> RowSegments:
        """Return the segments of the next row of a recording; `held` is of the row before.

        `first` says that the recording has no segments yet, and is in its first section.
        """
        if self._options.segments == "phrase":
            return RowSegments(segments=tuple(self._phrases(texts)))
        groups = groupby(texts, key=lambda text: text.language)
        rows = [row for _, group in groups if (row := join_texts(list(group)))]
        if self._options.segments == "chunk":
            return RowSegments(segments=self._segments(rows))
        if not rows:
            return RowSegments(earlier=self._segments([held] if held else []))
        cut = bool(texts[-1].speech) and texts[-1].speech[-1].after < self._margin
        earlier: tuple[Sentence, ...] = ()
        sentences: list[Sentence] = []
        for row in rows:
            step = next_row(held, row, clip_starts=self._clip_starts, cut=cut, first=first)
            if row is rows[0]:
                earlier = step.earlier
            else:
                sentences += step.earlier
            sentences += step.sentences
            held = step.held
        return RowSegments(self._segments(earlier), self._segments(sentences), held)

    def _segments(self, sentences: Sequence[Sentence]) -> tuple[Segment, ...]:
        return tuple(
            self._segment(sentence.timed_text, sentence.language, sentence.mean_scores)
            for sentence in sentences
            if sentence.text.strip()
        )

    def _phrases(self, texts: Iterable[ScoredText]) -> Iterator[Segment]:
        """Yield the phrases of a row; timestamp tokens delimit them already."""
        for text in texts:
            for timed_text in text.timed_texts:
                by_tokens = self._options.timestamps == "tokens"
                parts = (
                    [timed_text]
                    if by_tokens
                    else divide_phrases(timed_text.words, text.speech, text.language)
                )
                for part in parts:
                    yield self._segment(part, text.language, text.scores)

    def _segment(self, text: TimedText, language: str, scores: Scores) -> Segment:
        return Segment(
            id=0,
            start=to_seconds(text.start),
            end=to_seconds(text.end),
            text=text.text,
            language=language,
            avg_logprob=scores.avg_logprob,
            no_speech_prob=scores.no_speech_prob,
            compression_ratio=scores.compression_ratio,
            temperature=scores.temperature,
            words=_to_words(text.words) if self._with_words else None,
        )


def _to_words(words: Sequence[AlignedWord]) -> tuple[Word, ...]:
    return tuple(Word(to_seconds(w.start), to_seconds(w.end), w.text, w.probability) for w in words)


def _publish(recording: RecordingState, row: RowResult) -> None:
    """Add the result of a row to the state that users see."""
    recording.section = row.section
    recording.published = row.decision
    recording.omissions += row.omissions
    recording.chunks += 1
    recording.redecoded += row.redecoded
    add_doubts(recording, row.doubts)


def _number(recording: RecordingState, segments: Iterable[Segment]) -> Iterator[Segment]:
    for segment in segments:
        numbered = replace(segment, id=recording.segments)
        recording.sections_with_text.add(recording.section)
        recording.segments += 1
        yield numbered


def add_doubts(recording: RecordingState, doubts: Sequence[LanguageDoubt]) -> None:
    """Add the doubts of the next row of a recording to its notices.

    A doubt that continues the doubt of the row before begins at the end of that row, so that the
    two notices become one, however long the pause is. In another section, nothing is continued.
    """
    before, recording.doubt_until = recording.doubt_until, None
    for doubt in doubts:
        continues = doubt.from_start and before is not None and before[1] == doubt.language
        start = before[0] if continues and before else doubt.start
        recording.notices.add(
            "language", to_seconds(start), to_seconds(doubt.end), _description(doubt)
        )
        if doubt.to_end:
            recording.doubt_until = (doubt.end, doubt.language)


def _description(doubt: LanguageDoubt) -> str:
    name, decided = (LANGUAGES.get(code, code).title() for code in (doubt.language, doubt.decided))
    return (
        f"the speech sounds like {name}, not {decided}, so the text is doubtful; multilingual=True "
        f"detects the language of each part, language={doubt.language!r} sets it for all parts"
    )


def explain_missing_text(recording: RecordingState, options: Options) -> None:
    """Add a notice for each section without text, when the recording has been read.

    Silence and short ranges need no explanation if the recording has text elsewhere. So the notices
    of a span are those of the whole recording there, except in a span without any text
    (`sections.joining`).
    """
    for sound, checked in recording.sounds:
        if sound.number in recording.sections_with_text or sound.end == sound.start:
            continue
        start, end = to_seconds(sound.start), to_seconds(sound.end)
        text = _reason(recording, options, sound, checked)
        if not (recording.segments and concerns_empty_only(Notice("no speech", start, end, text))):
            recording.notices.add("no speech", start, end, text)


def _reason(recording: RecordingState, options: Options, sound: SectionSound, checked: int) -> str:
    """Return the text of the notice: the reason, and what can help."""
    start, end = to_seconds(sound.start), to_seconds(sound.end)
    if not sound.sound:
        return SILENT
    if any(item.text and start <= item.start < end for item in recording.omissions):
        return f"no text: all text was removed, because it does not seem spoken (omissions); {HELP}"
    if not options.vad:
        return f"no text: the model found none in the sound; {HELP}"
    if sound.speech >= MIN_SPEECH:
        return f"no text: the model found none in the sound that may be speech; {HELP}"
    if checked:
        return (
            f"{VAD_FOUND_NONE}, nor did the model in the parts that it checked; "
            f"vad=False decodes all sound; {HELP}"
        )
    return f"{VAD_FOUND_NONE}; vad=False decodes all sound; {HELP}"
