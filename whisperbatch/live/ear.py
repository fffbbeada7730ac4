r"""Turns and their parts, found while the audio is fed.

    probability   __/^^^^^^\_/^^^^^\__________________/^^^^^
    spans           [=======] [====]                  [=====    as in a recording
    turn           |................^^^^|                       ends after `turn_silence`
    part           [===============]                            at most 30 s: decoded as one chunk

A turn is a stretch of speech that ends at a pause, or when the caller says so. Its speech spans are
those that `chunking.spans` finds. A turn that grows longer than a chunk has several parts; the
boundary is the pause, or the cut, between two spans.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from whisperbatch.chunking.merge import AudioBuffer, pieces
from whisperbatch.chunking.spans import SpanFinder
from whisperbatch.live.detector import CausalDetector
from whisperbatch.options import Options
from whisperbatch.types import Chunk, Samples, SpeechSpan, to_samples, to_seconds
from whisperbatch.vad.levels import FRAME

CONTEXT: Final = to_samples(20.0)  # samples of a part with the earlier speech before it
PAUSE: Final = to_samples(1.0)  # samples; longer pauses between them are shortened
MAX_AGE: Final = to_samples(10.0)  # samples; speech before a longer silence is no context
UNHEARD: Final = to_samples(30.0)  # samples of a manual turn without speech that are kept


@dataclass(frozen=True, slots=True)
class TurnRule:
    """What ends a turn.

    Attributes:
        silence: samples of silence that end a turn; None if only the caller ends a turn.
        after_sentence: the same, if the text of the turn ends a sentence; None for `silence`.
    """

    silence: int | None
    after_sentence: int | None = None


@dataclass(frozen=True, slots=True)
class Began:
    """A turn has begun. `start` is the first sample, with the margin of the speech."""

    turn: int
    start: int


@dataclass(frozen=True, slots=True)
class Ended:
    """A turn has ended; its last part comes after this item."""

    turn: int
    start: int
    end: int


@dataclass(frozen=True, slots=True, eq=False)
class Spoken:
    """The audio of a part.

    Attributes:
        chunk: the part alone.
        wide: the part after the latest speech of earlier turns, at most `CONTEXT` in all. The model
            knows the voice and the room better then: of 484 words in ten recordings of 30 s, 7.9 %
            were wrong instead of 8.7 % (7.0 % if each recording is transcribed as a whole).
    """

    chunk: Chunk
    wide: Chunk


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """A turn, or a part of it, to be decoded for its final text.

    Attributes:
        turn: number of the turn.
        spoken: the audio and its speech spans; None if nothing was said.
        complete: whether the turn has no further parts.
        end: sample after the last.
        options: of the turn.
    """

    turn: int
    spoken: Spoken | None
    complete: bool
    end: int
    options: Options

    @property
    def start(self) -> int:
        """First sample; `end` if nothing was said."""
        return self.spoken.chunk.start if self.spoken else self.end


Heard = Began | Ended | Part


class Ear:
    """Finds turns in the audio of a session. Not thread-safe.

    Args:
        options: of the speech spans and chunks.
        rule: what ends a turn.

    Attributes:
        end: number of samples that were pushed.
        examined: number of samples that the detector has examined.
    """

    def __init__(self, options: Options, rule: TurnRule) -> None:
        self._detector = CausalDetector()
        self._buffer = AudioBuffer()
        self._turns = 0
        self._turn: Began | None = None
        self._floor = 0  # spans start here at the earliest
        self._spans: list[SpeechSpan] = []  # of the part that is not complete
        self._before: list[SpeechSpan] = []  # of earlier turns
        self.examined = 0
        self._chunks = 0
        self._sentence: int | None = None  # end of the speech whose text ends a sentence
        self.end = 0
        self.configure(options, rule)

    def configure(self, options: Options, rule: TurnRule) -> None:
        """Change the options. Call this between two turns."""
        self._options, self._rule = options, rule
        silence = options.min_silence_duration
        for samples in (rule.silence, rule.after_sentence):
            if samples is not None:
                silence = min(silence, to_seconds(samples))
        self._limit = to_samples(options.chunk_length)
        self._pad = to_samples(options.speech_pad)
        self._min_speech = to_samples(options.min_speech_duration)
        finder_options = replace(
            options,
            min_silence_duration=silence,
            max_speech_duration=min(options.max_speech_duration, options.chunk_length),
        )
        self._finder = SpanFinder(finder_options, FRAME)
        self._origin = self.examined  # sample at which the finder began

    @property
    def turn(self) -> int | None:
        """Number of the open turn; None between two turns."""
        return self._turn.turn if self._turn else None

    @property
    def spans(self) -> tuple[SpeechSpan, ...]:
        """The speech spans of the part so far."""
        return tuple(self._spans)

    @property
    def is_paused(self) -> bool:
        """Whether speech spans wait for their turn to end, and no speech is open."""
        return bool(self._spans) and self._finder.open_speech is None

    def push(self, samples: Samples) -> Iterator[Heard]:
        """Add audio, and yield what it shows. Exhaust the iterator before the next call."""
        self._buffer.append(samples)
        self.end += len(samples)
        if self._rule.silence is None and self._turn is None:
            yield self._begin(self._floor)
        for frames in self._detector.push(samples):
            self.examined += len(frames.samples)
            for span in [*self._finder.push(frames), *self._finder.release()]:
                yield from self._add(span.moved(self._origin))
            yield from self._look()
        if self.is_paused and self.examined - self._spans[0].start > self._limit:
            yield self._part(complete=False)
        self._forget()

    def flush(self) -> Iterator[Heard]:
        """End the open turn. Yields nothing if no turn is open."""
        for frames in self._detector.flush():
            self.examined += len(frames.samples)
            for span in self._finder.push(frames):
                yield from self._add(span.moved(self._origin))
        for span in self._finder.finish(self.examined - self._origin):
            yield from self._add(span.moved(self._origin))
        if self._turn is None and self._spans:
            yield self._begin(self._spans[0].start)
        if self._turn is not None:
            is_manual = self._rule.silence is None or not self._spans
            yield from self._end(self.examined if is_manual else self._spans[-1].end)

    def clear(self) -> Iterator[Heard]:
        """Forget the open turn: it ends without text."""
        list(self._finder.finish(self.examined - self._origin))
        self._spans = []
        self._floor = self.examined
        if turn := self._turn:
            self._turn = None
            yield Ended(turn.turn, turn.start, max(self.examined, turn.start))
            yield Part(turn.turn, None, complete=True, end=self.examined, options=self._options)
        self._forget()

    def window(self, start: int) -> tuple[SpeechSpan, ...]:
        """Return the speech from a sample to the last examined sample, for a partial text."""
        spans = [span for span in self._spans if span.end > start]
        if speech := self._finder.open_speech:
            first = max(speech[0] + self._origin - self._pad, self._floor)
            last = spans[-1].end if spans else 0
            spans.append(SpeechSpan(max(first, last), self.examined, before=0))
        inside = [span.within(start, self.examined) for span in spans]
        return tuple(span for span in inside if span.length)

    def copy(self, start: int, end: int) -> Samples:
        """Return the samples of a stretch that is still needed."""
        return self._buffer.copy(SpeechSpan(start, end))

    def note_sentence(self, end: int) -> None:
        """Note that the text of the speech up to a sample ends a sentence."""
        self._sentence = end

    def paused(self) -> Spoken | None:
        """Return the audio of the part if its turn ended now; None while speech is open."""
        return self._spoken(self._spans) if self.is_paused else None

    def _look(self) -> Iterator[Heard]:
        """Yield the start or the end of a turn, if the last frames show one."""
        speech = self._finder.open_speech
        if speech and self._turn is None:
            start, silence = speech
            length = (self.examined - self._origin if silence is None else silence) - start
            if length >= self._min_speech:
                yield self._begin(max(start + self._origin - self._pad, self._floor))
        turn, silence_rule = self._turn, self._rule.silence
        if self._spans and self._spans[-1].end == self._sentence:
            silence_rule = self._rule.after_sentence or silence_rule
        if speech is None and turn and silence_rule is not None and self._spans:
            spoken = self._spans[-1]
            if self.examined - (spoken.end - spoken.after) >= silence_rule:
                yield from self._end(spoken.end)

    def _begin(self, start: int) -> Began:
        self._turn = Began(self._turns, start)
        self._turns += 1
        return self._turn

    def _add(self, span: SpeechSpan) -> Iterator[Heard]:
        span = span.within(self._floor, span.end)
        if not span.length:
            return
        if self._turn is None:
            yield self._begin(span.start)
        if self._spans and span.end - self._spans[0].start > self._limit:
            yield self._part(complete=False)
        self._spans.append(span)

    def _end(self, end: int) -> Iterator[Heard]:
        turn = self._turn
        if turn is None:
            return
        end = max(end, turn.start)
        yield Ended(turn.turn, turn.start, end)
        yield self._part(complete=True)
        self._turn = None
        self._floor = end

    def _part(self, *, complete: bool) -> Part:
        turn = self._turn
        number = turn.turn if turn else 0
        spans = self._spans
        if not spans and self._rule.silence is None and turn:  # the caller says that it is speech
            start = max(turn.start, self._floor, self.examined - UNHEARD)
            spans = [SpeechSpan(start, self.examined)] if self.examined > start else []
        spoken = self._spoken(spans) if spans else None
        self._before = [*self._before, *spans] if complete else []
        self._spans = []
        self._chunks += 1
        return Part(number, spoken, complete, self.examined, self._options)

    def _spoken(self, spans: list[SpeechSpan]) -> Spoken:
        chunk = self._chunk(spans, (SpeechSpan(spans[0].start, spans[-1].end),))
        given, kept = spans, chunk.pieces
        for span in reversed(self._before):
            with_pauses = pieces([span, *given], PAUSE)
            if sum(piece.length for piece in with_pauses) > min(CONTEXT, self._limit):
                break
            given, kept = [span, *given], with_pauses
        return Spoken(chunk, chunk if given is spans else self._chunk(given, kept))

    def _chunk(self, spans: list[SpeechSpan], kept: tuple[SpeechSpan, ...]) -> Chunk:
        samples = np.concatenate([self._buffer.copy(piece) for piece in kept])
        return Chunk(0, self._chunks, kept, tuple(spans), samples)

    def _forget(self) -> None:
        """Free the audio that no chunk and no window needs."""
        needed = self.examined - self._pad - FRAME
        if self._before and self.examined - self._before[-1].end > MAX_AGE:
            self._before = []
        while self._before and self._before[-1].end - self._before[0].start > CONTEXT + MAX_AGE:
            del self._before[0]
        if self._turn is not None and self._rule.silence is None and not self._spans:
            needed = max(self._turn.start, self.examined - UNHEARD)
        if self._spans:
            needed = min(needed, self._spans[0].start)
        if speech := self._finder.open_speech:
            needed = min(needed, speech[0] + self._origin - self._pad)
        if self._before:
            needed = min(needed, self._before[0].start)
        self._buffer.discard(needed)
