"""Join speech spans to chunks of at most 30 s; each chunk becomes one row of a batch.

    spans    [==] [=====]    [=] [=======]          [====]   [==========]
    chunks   [--------- chunk 0 ---------]          [----- chunk 1 -----]

A chunk extends from the start of its first span to the end of its last span. The chunk contains the
pauses between its spans; `max_silence` shortens long pauses. `plan` chooses the boundaries between
chunks. To get few chunks, with boundaries at long pauses, `plan` compares all ways to divide the
next spans (`LOOK_AHEAD`).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final

import numpy as np

from whisperbatch.chunking.spans import SpanFinder
from whisperbatch.options import Options
from whisperbatch.types import Chunk, Samples, SpeechFrames, SpeechSpan, to_samples

LOOK_AHEAD: Final = 3  # chunk lengths of audio, from the start of a chunk, that decide its end
LONG_PAUSE: Final = to_samples(1.0)  # samples; a boundary at a pause of this length costs nothing
# Cost of a boundary at a pause of length 0, where a chunk costs 1. With 0.3, WER was 2.64 %; with
# 1.0, WER was 2.91 % and there were more chunks (docs/explanation/choices.md).
BREAK_COST: Final = 0.3


def plan(
    spans: Sequence[SpeechSpan], limit: int, max_silence: int | None = None, *, more: bool = False
) -> list[int]:
    """Return the number of spans in each chunk, for the division with the lowest total cost.

    Each chunk costs 1. A boundary between two chunks costs `BREAK_COST * (1 - pause / LONG_PAUSE)`,
    but at least 0. If two divisions cost the same, the division with more spans in its last chunk
    is chosen.

    The method is dynamic programming over the last boundary, as in Knuth and Plass, "Breaking
    paragraphs into lines" (1981).

    Args:
        spans: speech spans in order. A span longer than `limit` becomes a separate chunk.
        limit: maximum length of a chunk in samples, including its pauses.
        max_silence: length in samples to which longer pauses in a chunk are shortened; None keeps
            all pauses unchanged.
        more: whether more spans will follow. Then the last chunk can still grow, and it costs only
            its length divided by `limit`. If the last chunk cost 1, short first chunks would cost
            nothing extra: 26 to 29 chunks resulted where 21 suffice.

    Returns:
        One number for each chunk, at least 1. The numbers add up to len(spans).
    """
    # for the first n spans: lowest cost, number of spans in the last chunk
    best: list[tuple[float, int]] = [(0.0, 0)]
    for end in range(1, len(spans) + 1):
        candidates = []
        length = 0
        for start in range(end - 1, -1, -1):
            length += spans[start].length
            if start < end - 1:
                length += _pause_length(spans[start], spans[start + 1], max_silence)
            if length > limit and start < end - 1:
                break
            can_grow = more and end == len(spans)
            cost = best[start][0] + (length / limit if can_grow else 1.0)
            if start:
                pause = spans[start].start - spans[start - 1].end
                cost += BREAK_COST * max(0.0, 1.0 - pause / LONG_PAUSE)
            candidates.append((cost, end - start))
        best.append(min(candidates, key=lambda candidate: (candidate[0], -candidate[1])))
    counts: list[int] = []
    remaining = len(spans)
    while remaining:
        counts.append(best[remaining][1])
        remaining -= counts[-1]
    return counts[::-1]


def _pause_length(span: SpeechSpan, following: SpeechSpan, max_silence: int | None) -> int:
    """Return the samples that a chunk contains of the pause between two spans."""
    pause = following.start - span.end
    return pause if max_silence is None else min(pause, max_silence)


def pieces(spans: Sequence[SpeechSpan], max_silence: int | None = None) -> tuple[SpeechSpan, ...]:
    """Return the stretches of audio that a chunk with these spans contains.

    Without `max_silence`, there is one piece, from the start of the first span to the end of the
    last span. A pause longer than `max_silence` is shortened to `max_silence`: one piece ends
    `max_silence / 2` after the span before the pause, and the next piece begins `max_silence / 2`
    before the span after the pause.

    Args:
        spans: the speech spans of a chunk in order, at least one.
        max_silence: maximum length of a pause in samples; None for no maximum.

    Returns:
        The pieces in order, without overlap and without margins.
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
    """The latest samples of an audio stream. Positions count from the start of the stream.

    Attributes:
        end: position after the last sample in the buffer.
    """

    def __init__(self) -> None:
        self._blocks: list[Samples] = []
        self._start = self.end = 0

    def append(self, samples: Samples) -> None:
        """Add the next samples of the stream, shape (n_samples,)."""
        self._blocks.append(samples)
        self.end += len(samples)

    def copy(self, span: SpeechSpan) -> Samples:
        """Return a copy of the samples of `span`, all of which must still be in the buffer."""
        parts = [np.zeros(0, np.float32)]
        start = self._start
        for block in self._blocks:
            parts.append(block[max(span.start - start, 0) : max(span.end - start, 0)])
            start += len(block)
        return np.concatenate(parts)

    def discard(self, before: int) -> None:
        """Free the blocks that end at or before position `before`."""
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
    section: int = 0,
) -> Iterator[Chunk]:
    """Yield the chunks of a section in order, each when later speech can no longer change it.

    Pieces and speech spans of the chunks count samples of the recording. Every speech span is
    in exactly one chunk. Memory does not grow with the recording: the buffer holds at most
    `LOOK_AHEAD` chunk lengths of audio, the spans that can still change, and one block.

    Args:
        frames: consecutive blocks of a section from a Vad.
        options: the options of speech spans and of chunks are used.
        hop: samples per VAD frame.
        recording: number of the recording in this run, from 0.
        index: number that the first chunk gets in its recording.
        offset: position in the recording of the first sample of `frames`.
        section: number of the section.
    """
    limit = to_samples(options.chunk_length)
    max_silence = None if options.max_silence is None else to_samples(options.max_silence)
    finder = SpanFinder(_span_options(options), hop)
    # Until the chunks are yielded, positions count from the first sample of `frames`.
    buffer = AudioBuffer()
    spans: list[SpeechSpan] = []  # final spans that are not in a chunk yet

    def complete_chunks(settled: int, *, at_end: bool) -> Iterator[Chunk]:
        """Yield the chunks whose look-ahead ends by sample `settled`; at the end, all chunks."""
        nonlocal index
        while spans and (at_end or settled >= spans[0].start + LOOK_AHEAD * limit):
            look_ahead_end = spans[0].start + LOOK_AHEAD * limit
            next_spans = [span for span in spans if span.start < look_ahead_end]
            more = not at_end or len(next_spans) < len(spans)
            chunk_spans = spans[: plan(next_spans, limit, max_silence, more=more)[0]]
            del spans[: len(chunk_spans)]
            chunk_pieces = pieces(chunk_spans, max_silence)
            yield Chunk(
                recording=recording,
                index=index,
                pieces=tuple(piece.moved(offset) for piece in chunk_pieces),
                speech=tuple(span.moved(offset) for span in chunk_spans),
                samples=np.concatenate([buffer.copy(piece) for piece in chunk_pieces]),
                section=section,
            )
            index += 1

    for block in frames:
        buffer.append(block.samples)
        spans.extend(finder.push(block))
        yield from complete_chunks(finder.settled, at_end=False)
        buffer.discard(min(finder.settled, spans[0].start) if spans else finder.settled)
    spans.extend(finder.finish(buffer.end))
    yield from complete_chunks(buffer.end, at_end=True)


def _span_options(options: Options) -> Options:
    """Return the options of speech spans that fit into a chunk.

    The result has no `clip_timestamps`: checking all clips for each clip would take quadratic time.
    """
    return replace(
        options,
        clip_timestamps=(),
        max_speech_duration=min(options.max_speech_duration, options.chunk_length),
        # without VAD, everything counts as speech: a short clip is kept
        min_speech_duration=options.min_speech_duration if options.vad else 0.0,
    )
