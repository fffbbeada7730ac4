"""A chunk cut anew: in two at another place, or with other boundaries."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final

import numpy as np

from whisperbatch.types import WINDOW, Chunk, SpeechSpan, to_samples

SHORTEST: Final = to_samples(1.0)  # of speech on either side of a cut
GOOD_PAUSE: Final = to_samples(1.0)  # a longer one is no better a place to cut
FRAME: Final = 512  # samples, 32 ms: where it is quietest is looked for frame by frame
SILENCE: Final = to_samples(0.5)  # put before and after a chunk to move its boundaries


def halves(chunk: Chunk, target: int) -> tuple[Chunk, Chunk] | None:
    """The chunk in two, cut near recording sample `target`.

    At a pause, the longer and nearer the better; where there is none, at the quietest frame of
    the quarter of the chunk around the target. None where there is less than 2 s of speech.
    """
    total = sum(span.length for span in chunk.speech)
    if total < 2 * SHORTEST:
        return None
    length = chunk.end - chunk.start
    before, best = 0, (-np.inf, 0, 0)
    for one, other in pairwise(chunk.speech):
        before += one.length
        if min(before, total - before) < SHORTEST:
            continue
        pause = other.start - one.end
        middle = (one.end + other.start) // 2
        worth = min(pause, GOOD_PAUSE) / GOOD_PAUSE - 4 * abs(middle - target) / length
        best = max(best, (worth, one.end, other.start))
    worth, end, start = best
    if worth < -1:  # no pause within half the chunk
        end = start = _quietest(chunk, target)
    return stretch(chunk, chunk.start, end), stretch(chunk, start, chunk.end)


def stretch(chunk: Chunk, start: int, end: int) -> Chunk:
    """What of a chunk lies from recording sample `start` to `end`."""
    pieces = _clip(chunk.pieces, start, end)
    samples = [chunk.samples[chunk.chunk_time(piece.start) :][: piece.length] for piece in pieces]
    return replace(
        chunk,
        pieces=pieces,
        speech=_clip(chunk.speech, start, end),
        samples=np.concatenate(samples),
    )


def moved(chunk: Chunk) -> Chunk:
    """The chunk between two stretches of silence, so that its speech lies elsewhere in the window.

    The silence stands for what is before and after it in the recording.
    """
    room = WINDOW - chunk.length
    before = min(SILENCE, chunk.start, room // 2)
    after = min(SILENCE, room - before)
    first, last = chunk.pieces[0], chunk.pieces[-1]
    pieces = list(chunk.pieces)
    pieces[0] = SpeechSpan(first.start - before, pieces[0].end)
    pieces[-1] = SpeechSpan(pieces[-1].start, last.end + after)
    samples = np.pad(chunk.samples, (before, after))
    return replace(chunk, pieces=tuple(pieces), samples=samples)


def _clip(spans: Sequence[SpeechSpan], start: int, end: int) -> tuple[SpeechSpan, ...]:
    clipped = [span.within(start, end) for span in spans]
    return tuple(span for span in clipped if span.length)


def _quietest(chunk: Chunk, target: int) -> int:
    """Recording sample at the middle of the quietest frame around the target."""
    first = chunk.chunk_time(_after_speech(chunk.speech))
    backwards = [SpeechSpan(-span.end, -span.start) for span in reversed(chunk.speech)]
    last = chunk.chunk_time(-_after_speech(backwards))
    reach = max(chunk.length // 8, FRAME)
    middle = min(max(chunk.chunk_time(target), first), last)
    start = max(middle - reach, first)
    around = chunk.samples[start : max(min(middle + reach, last), start + FRAME)]
    frames = around[: len(around) // FRAME * FRAME].reshape(-1, FRAME)
    quietest = int(np.argmin(np.einsum("ij,ij->i", frames, frames)))
    return chunk.recording_time(min(start + quietest * FRAME + FRAME // 2, last))


def _after_speech(spans: Sequence[SpeechSpan]) -> int:
    """The sample by which `SHORTEST` of speech has passed."""
    left = SHORTEST
    for span in spans:
        if span.length >= left:
            return span.start + left
        left -= span.length
    return spans[-1].end
