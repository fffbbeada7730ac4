"""From spans of speech to chunks of at most 30 s: what one row of a batch holds.

    spans    [==] [=====]    [=] [=======]          [====]   [==========]
    chunks   [--------- chunk 0 ---------]          [----- chunk 1 -----]

A chunk runs from its first span to its last, with the silence between. Where two chunks part is
chosen by looking ahead: few chunks, and breaks at long pauses (`plan`).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final

import numpy as np

from whisperbatch.chunking.spans import SpanFinder
from whisperbatch.options import Options
from whisperbatch.types import Chunk, Samples, SpeechFrames, SpeechSpan, to_samples

LOOK_AHEAD: Final = 3  # chunk lengths of speech that a break is chosen by
GOOD_PAUSE: Final = to_samples(1.0)  # a break at this much silence or more costs nothing
BREAK_COST: Final = 0.3  # of a break with no silence at all, in chunks


def plan(
    spans: Sequence[SpeechSpan], limit: int, max_silence: int | None = None, *, more: bool = False
) -> list[int]:
    """How many spans each chunk takes.

    Least cost over all ways to part `spans`: 1 for each chunk, and for each break up to
    `BREAK_COST`, the less the longer its pause. Dynamic programming over the last break, as in
    Knuth and Plass, "Breaking paragraphs into lines" (1981).

    Args:
        spans: in order, each no longer than `limit`.
        limit: of a chunk, in samples, its inner pauses counted.
        max_silence: what a pause counts for at most; None for all of it.
        more: other spans will follow, so the last chunk is not full yet: it costs its share of
            `limit`. (If it cost 1, the others would be free to share out its room, and every
            first chunk would be short.)

    Returns:
        Counts that sum to len(spans).
    """
    best: list[tuple[float, int]] = [(0.0, 0)]  # to have placed n spans: cost, size of last chunk
    for end in range(1, len(spans) + 1):
        options = []
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
                gap = spans[start].start - spans[start - 1].end
                cost += BREAK_COST * max(0.0, 1.0 - gap / GOOD_PAUSE)
            options.append((cost, end - start))
        best.append(min(options, key=lambda option: (option[0], -option[1])))
    counts: list[int] = []
    position = len(spans)
    while position:
        counts.append(best[position][1])
        position -= counts[-1]
    return counts[::-1]


def _pause(before: SpeechSpan, after: SpeechSpan, max_silence: int | None) -> int:
    gap = after.start - before.end
    return gap if max_silence is None else min(gap, max_silence)


def pieces(spans: Sequence[SpeechSpan], max_silence: int | None = None) -> tuple[SpeechSpan, ...]:
    """The stretches of the recording that a chunk of `spans` holds.

    One from the first span's start to the last one's end; more where a pause is longer than
    `max_silence` samples: half of that stays on either side of it.
    """
    result: list[SpeechSpan] = []
    start = spans[0].start
    for before, after in pairwise(spans):
        if max_silence is not None and after.start - before.end > max_silence:
            kept = max_silence // 2
            result.append(SpeechSpan(start, before.end + kept))
            start = after.start - (max_silence - kept)
    return (*result, SpeechSpan(start, spans[-1].end))


class AudioBuffer:
    """The latest stretch of a recording, addressed by recording sample."""

    def __init__(self, start: int = 0) -> None:
        self._blocks: list[Samples] = []
        self._start = start
        self.end = start

    def append(self, samples: Samples) -> None:
        """Add what follows."""
        self._blocks.append(samples)
        self.end += len(samples)

    def take(self, span: SpeechSpan) -> Samples:
        """A copy of the samples of `span`, which must not be forgotten yet."""
        pieces = [np.zeros(0, np.float32)]
        start = self._start
        for block in self._blocks:
            pieces.append(block[max(span.start - start, 0) : max(span.end - start, 0)])
            start += len(block)
        return np.concatenate(pieces)

    def forget(self, before: int) -> None:
        """Let go of whole blocks that end at or before sample `before`."""
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
    """Chunks of speech, as soon as the speech that follows can no longer change them.

    All speech is in exactly one chunk. At most about `LOOK_AHEAD` chunk lengths of audio are held.

    Args:
        frames: of one range of a recording, from a Vad.
        options: of spans and chunks.
        hop: samples a frame.
        recording: its number.
        index: of the first chunk.
        offset: recording sample at which `frames` begin.
    """
    limit = to_samples(options.chunk_length)
    max_silence = None if options.max_silence is None else to_samples(options.max_silence)
    longest = min(options.max_speech_duration, options.chunk_length)
    shortest = options.min_speech_duration if options.vad else 0.0  # all is speech then
    spoken = replace(options, max_speech_duration=longest, min_speech_duration=shortest)
    finder = SpanFinder(spoken, hop)
    buffer = AudioBuffer()
    spans: list[SpeechSpan] = []

    def emit(known: int, *, final: bool) -> Iterator[Chunk]:
        nonlocal index
        while spans and (final or known >= spans[0].start + LOOK_AHEAD * limit):
            horizon = spans[0].start + LOOK_AHEAD * limit
            seen = [span for span in spans if span.start < horizon]
            more = not final or len(seen) < len(spans)
            taken = spans[: plan(seen, limit, max_silence, more=more)[0]]
            del spans[: len(taken)]
            held = pieces(taken, max_silence)
            yield Chunk(
                recording=recording,
                index=index,
                pieces=tuple(piece.moved(offset) for piece in held),
                speech=tuple(span.moved(offset) for span in taken),
                samples=np.concatenate([buffer.take(piece) for piece in held]),
            )
            index += 1

    for block in frames:
        buffer.append(block.samples)
        spans.extend(finder.push(block))
        yield from emit(finder.settled, final=False)
        buffer.forget(min(finder.settled, spans[0].start) if spans else finder.settled)
    spans.extend(finder.finish(buffer.end))
    yield from emit(buffer.end, final=True)
