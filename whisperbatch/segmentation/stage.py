"""The segmentation stage: the text of rows becomes the segments of their recordings."""

import math
from bisect import bisect_left
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

from whisperbatch.options import Options
from whisperbatch.recording import RecordingState
from whisperbatch.rows import End
from whisperbatch.segmentation.doubts import add_doubts
from whisperbatch.segmentation.phrases import phrases
from whisperbatch.segmentation.sentences import Sentence, joined_texts, next_row
from whisperbatch.segmentation.timed_text import (
    AlignedWord,
    RowResult,
    ScoredText,
    Scores,
    TimedText,
)
from whisperbatch.types import (
    Segment,
    Word,
    first_section,
    to_samples,
    to_seconds,
    unnamed_speaker,
)


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
        is_mixed: whether the last row has all channels; otherwise it has a single channel.
        held: for each channel, the beginning of a sentence, for the next row of the channel; the
            key of all channels is None.
        waiting: segments of channels that may be yielded only in order with those of others.
        heard: channels with a row since the segments were last released.
    """

    is_mixed: bool
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

    def released(self) -> list[Segment]:
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
        self, results: Iterable[tuple[RecordingState, RowResult] | End]
    ) -> Generator[tuple[RecordingState, Segment] | End, None, None]:
        """Yield the segments of each row, and each `End` after the segments of its recording.

        When a segment is yielded, the state of the recording has the language, the counts and the
        omissions up to the last row with text of this segment. Segments of channels whose speech
        overlaps are in order of their starts.
        """
        open_texts: dict[RecordingState, OpenText] = {}
        try:
            for result in results:
                if isinstance(result, End):
                    yield from self._finish(result.recording, open_texts)
                    yield result
                else:
                    yield from self._add(*result, open_texts)
        except Exception:  # ends the recording, but loses no text that was held back
            for recording in list(open_texts):
                yield from self._finish(recording, open_texts)
            raise

    def _add(
        self,
        recording: RecordingState,
        row: RowResult,
        open_texts: dict[RecordingState, OpenText],
    ) -> Iterator[tuple[RecordingState, Segment]]:
        """Yield the segments that a row completes: segments of earlier rows, then its own."""
        text = open_texts.get(recording)
        is_mixed = row.channel is None
        if row.section != recording.section:
            recording.doubt_until = None
        # a sentence ends at the point between two sections, and where the channels are separated
        if row.section != recording.section or (text and text.is_mixed != is_mixed):
            yield from self._finish(recording, open_texts)
        text = open_texts.setdefault(recording, OpenText(is_mixed))
        first = not (recording.segments or text.waiting) and row.section == self._first_section
        done = self._row_segments(row.texts, text.held.get(row.channel), first=first)
        text.held.pop(row.channel, None)
        if done.held:
            text.held[row.channel] = done.held
        if is_mixed:
            yield from _numbered(recording, done.earlier)
            _publish(recording, row)
            yield from _numbered(recording, done.segments)
            return
        _publish(recording, row)
        text.add(row.channel, (*done.earlier, *done.segments))
        if row.completes:
            for channel in text.unheard():
                text.add(channel, self._segments([text.held.pop(channel)]))
            yield from _numbered(recording, text.released())

    def _finish(
        self, recording: RecordingState, open_texts: dict[RecordingState, OpenText]
    ) -> Iterator[tuple[RecordingState, Segment]]:
        """Yield the words of a recording that were held back, because no row continues them."""
        if text := open_texts.pop(recording, None):
            for channel, sentence in text.held.items():
                text.add(channel, self._segments([sentence]))
            text.held = {}
            yield from _numbered(recording, text.released())

    def _row_segments(
        self, texts: Sequence[ScoredText], held: Sentence | None, *, first: bool
    ) -> RowSegments:
        """Return the segments of the next row of a recording; `held` is of the row before.

        `first` says that the recording has no segments yet, and is in its first section.
        """
        if self._options.segments == "phrase":
            return RowSegments(segments=tuple(self._phrases(texts)))
        groups = groupby(texts, key=lambda text: text.language)
        rows = [row for _, group in groups if (row := joined_texts(list(group)))]
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
                parts = [timed_text] if by_tokens else phrases(timed_text.words, text.speech)
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


def _numbered(
    recording: RecordingState, segments: Iterable[Segment]
) -> Iterator[tuple[RecordingState, Segment]]:
    """Yield segments with their numbers in the recording."""
    for segment in segments:
        numbered = replace(segment, id=recording.segments)
        recording.segments += 1
        yield recording, numbered
