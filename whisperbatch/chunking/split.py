"""Chunks for a retry: split in two, cut out of a larger chunk, or shifted in Whisper's window."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final

import numpy as np

from whisperbatch.types import WINDOW, Chunk, SpeechSpan, to_samples

MIN_SPEECH: Final = to_samples(1.0)  # speech on either side of a split
LONG_PAUSE: Final = to_samples(1.0)  # a longer pause is not a better place to split
ENERGY_FRAME: Final = 512  # samples (32 ms): frame of the search for the quietest place
SHIFT: Final = to_samples(0.5)  # silence before and after a shifted chunk


def split_in_two(chunk: Chunk, target: int) -> tuple[Chunk, Chunk] | None:
    """Split a chunk near recording sample `target`.

    The chunk is split at a pause; long pauses near the target are preferred. If there is no pause,
    the chunk is split at the quietest frame of the quarter of the chunk around the target.

    Returns:
        The two parts, or None if the chunk has less than 2 s of speech.
    """
    total = sum(span.length for span in chunk.speech)
    if total < 2 * MIN_SPEECH:
        return None
    length = chunk.end - chunk.start
    speech_before, best = 0, (-np.inf, 0, 0)
    for span, following in pairwise(chunk.speech):
        speech_before += span.length
        if min(speech_before, total - speech_before) < MIN_SPEECH:
            continue
        pause = following.start - span.end
        middle = (span.end + following.start) // 2
        score = min(pause, LONG_PAUSE) / LONG_PAUSE - 4 * abs(middle - target) / length
        best = max(best, (score, span.end, following.start))
    score, end, start = best
    if score < -1:  # no pause within half the chunk
        end = start = _quietest(chunk, target)
    return cut_out(chunk, chunk.start, end), cut_out(chunk, start, chunk.end)


def cut_out(chunk: Chunk, start: int, end: int) -> Chunk:
    """Return the part of a chunk from recording sample `start` to `end`."""
    pieces = _clip(chunk.pieces, start, end)
    samples = [chunk.samples[chunk.chunk_time(piece.start) :][: piece.length] for piece in pieces]
    return replace(
        chunk,
        pieces=pieces,
        speech=_clip(chunk.speech, start, end),
        samples=np.concatenate(samples),
    )


def shift(chunk: Chunk) -> Chunk:
    """Put silence before and after a chunk, so that its speech is elsewhere in Whisper's window.

    The silence replaces the audio before and after the chunk in the recording.
    """
    room = WINDOW - chunk.length
    before = min(SHIFT, chunk.start, room // 2)
    after = min(SHIFT, room - before)
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
    """Return the recording sample at the middle of the quietest frame around the target.

    There are at least MIN_SPEECH samples of speech on either side.
    """
    first = chunk.chunk_time(_after_min_speech(chunk.speech))
    mirrored = [SpeechSpan(-span.end, -span.start) for span in reversed(chunk.speech)]
    last = chunk.chunk_time(-_after_min_speech(mirrored))
    radius = max(chunk.length // 8, ENERGY_FRAME)
    middle = min(max(chunk.chunk_time(target), first), last)
    start = max(middle - radius, first)
    nearby = chunk.samples[start : max(min(middle + radius, last), start + ENERGY_FRAME)]
    frames = nearby[: len(nearby) // ENERGY_FRAME * ENERGY_FRAME].reshape(-1, ENERGY_FRAME)
    quietest = int(np.argmin(np.einsum("ij,ij->i", frames, frames)))  # frame of least energy
    return chunk.recording_time(min(start + quietest * ENERGY_FRAME + ENERGY_FRAME // 2, last))


def _after_min_speech(spans: Sequence[SpeechSpan]) -> int:
    """Return the sample before which there are MIN_SPEECH samples of speech."""
    missing = MIN_SPEECH
    for span in spans:
        if span.length >= missing:
            return span.start + missing
        missing -= span.length
    return spans[-1].end
