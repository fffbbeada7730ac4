"""From speech spans to chunks of at most 30 s; each chunk becomes one row of a batch.

    spans    [==] [=====]    [=] [=======]          [====]   [==========]
    chunks   [--------- chunk 0 ---------]          [----- chunk 1 -----]

A chunk extends from its first span to its last, with the pauses between them. `plan` chooses the
boundaries of the chunks. It looks ahead to get few chunks with boundaries at long pauses.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final

import numpy as np

from whisperbatch.chunking.spans import SpanFinder
from whisperbatch.options import Options
from whisperbatch.types import Chunk, Samples, SpeechFrames, SpeechSpan, to_samples

LOOK_AHEAD: Final = 3  # chunk lengths of audio that decide where a chunk ends
LONG_PAUSE: Final = to_samples(1.0)  # a boundary at a pause of at least this length is free
BREAK_COST: Final = 0.3  # cost of a boundary without any pause; a chunk costs 1


def plan(
    spans: Sequence[SpeechSpan], limit: int, max_silence: int | None = None, *, more: bool = False
) -> list[int]:
    """Return how many spans each chunk contains.

    The result has the lowest total cost. Each chunk costs 1. Each boundary costs up to
    `BREAK_COST`, less for a longer pause. Solved by dynamic programming over the last boundary, as
    in Knuth and Plass, "Breaking paragraphs into lines" (1981).

    Args:
        spans: speech spans in order, each no longer than `limit`.
        limit: maximum length of a chunk in samples, including its pauses.
        max_silence: maximum length of a pause within a chunk, in samples; None for no maximum.
        more: whether more spans will follow. Then the last chunk is not full yet and costs its
            fraction of `limit`. (If it cost 1, its free room could be divided among the other
            chunks at no cost, and every first chunk would be short.)

    Returns:
        Numbers of spans, with the sum len(spans).
    """
    best: list[tuple[float, int]] = [(0.0, 0)]  # for the first n spans: cost, size of last chunk
    for end in range(1, len(spans) + 1):
        candidates = []
        length = 0
        for start in range(end - 1, -1, -1):
            length += spans[start].length
            if start < end - 1:
                length += _pause(spans[start], spans[start + 1], max_silence)
            if length > limit and start < end - 1:
                break
            open_ended = more and end == len(spans)
            cost = best[start][0] + (length / limit if open_ended else 1.0)
            if start:
                pause = spans[start].start - spans[start - 1].end
                cost += BREAK_COST * max(0.0, 1.0 - pause / LONG_PAUSE)
            candidates.append((cost, end - start))
        best.append(min(candidates, key=lambda candidate: (candidate[0], -candidate[1])))
    counts: list[int] = []
    position = len(spans)
    while position:
        counts.append(best[position][1])
        position -= counts[-1]
    return counts[::-1]


def _pause(span: SpeechSpan, following: SpeechSpan, max_silence: int | None) -> int:
    pause = following.start - span.end
    return pause if max_silence is None else min(pause, max_silence)


def pieces(spans: Sequence[SpeechSpan], max_silence: int | None = None) -> tuple[SpeechSpan, ...]:
    """Return the pieces of the recording that a chunk with these spans contains.

    Without `max_silence`, there is one piece from the start of the first span to the end of the
    last. A pause longer than `max_silence` samples is shortened: half of `max_silence` remains on
    either side, and a new piece begins.
    """
    result: list[SpeechSpan] = []
    start = spans[0].start
    for span, following in pairwise(spans):
        if max_silence is not None and following.start - span.end > max_silence:
            silence_before = max_silence // 2
            result.append(SpeechSpan(start, span.end + silence_before))
            start = following.start - (max_silence - silence_before)
    return (*result, SpeechSpan(start, spans[-1].end))


class AudioBuffer:
    """The latest samples of a recording, addressed by recording sample.

    Attributes:
        end: recording sample after the last one in the buffer.
    """

    def __init__(self, start: int = 0) -> None:
        self._blocks: list[Samples] = []
        self._start = start
        self.end = start

    def append(self, samples: Samples) -> None:
        """Add the samples that follow the last ones."""
        self._blocks.append(samples)
        self.end += len(samples)

    def take(self, span: SpeechSpan) -> Samples:
        """Return a copy of the samples of `span`, which must still be in the buffer."""
        parts = [np.zeros(0, np.float32)]
        start = self._start
        for block in self._blocks:
            parts.append(block[max(span.start - start, 0) : max(span.end - start, 0)])
            start += len(block)
        return np.concatenate(parts)

    def forget(self, before: int) -> None:
        """Free the blocks that end at or before sample `before`."""
        while self._blocks and self._start + len(self._blocks[0]) <= before:
            self._start += len(self._blocks.pop(0))


def chunks(
    frames: Iterable[SpeechFrames],
    options: Options,
    hop: int,
    *,
    recording: int = 0,
    index: int = 0,
    offset: int = 0,
) -> Iterator[Chunk]:
    """Yield the chunks of a recording, as soon as later speech can no longer change them.

    Every speech span is in exactly one chunk. The buffer holds about `LOOK_AHEAD` chunk lengths of
    audio at most.

    Args:
        frames: blocks of one clip of a recording, from a Vad.
        options: options for spans and chunks.
        hop: samples of a VAD frame.
        recording: number of the recording.
        index: index of the first chunk.
        offset: recording sample at which `frames` begin.
    """
    limit = to_samples(options.chunk_length)
    max_silence = None if options.max_silence is None else to_samples(options.max_silence)
    max_speech = min(options.max_speech_duration, options.chunk_length)
    min_speech = options.min_speech_duration if options.vad else 0.0  # without VAD, all is speech
    span_options = replace(options, max_speech_duration=max_speech, min_speech_duration=min_speech)
    finder = SpanFinder(span_options, hop)
    buffer = AudioBuffer()
    spans: list[SpeechSpan] = []  # certain, but not yet in a chunk

    def emit(settled: int, *, final: bool) -> Iterator[Chunk]:
        nonlocal index
        while spans and (final or settled >= spans[0].start + LOOK_AHEAD * limit):
            horizon = spans[0].start + LOOK_AHEAD * limit
            visible = [span for span in spans if span.start < horizon]
            more = not final or len(visible) < len(spans)
            chunk_spans = spans[: plan(visible, limit, max_silence, more=more)[0]]
            del spans[: len(chunk_spans)]
            chunk_pieces = pieces(chunk_spans, max_silence)
            yield Chunk(
                recording=recording,
                index=index,
                pieces=tuple(piece.moved(offset) for piece in chunk_pieces),
                speech=tuple(span.moved(offset) for span in chunk_spans),
                samples=np.concatenate([buffer.take(piece) for piece in chunk_pieces]),
            )
            index += 1

    for block in frames:
        buffer.append(block.samples)
        spans.extend(finder.push(block))
        yield from emit(finder.settled, final=False)
        buffer.forget(min(finder.settled, spans[0].start) if spans else finder.settled)
    spans.extend(finder.finish(buffer.end))
    yield from emit(buffer.end, final=True)
