"""Make new chunks from a chunk.

`split_in_two`, `isolate`, `cut_at_pauses` and `shift` make the chunks of a retry. Code-switching
uses `cut_out`: it makes language windows from a chunk, and splits a chunk where the language
changes.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final

import numpy as np

from whisperbatch.types import WINDOW, Chunk, SpeechSpan, to_samples

MIN_SPEECH: Final = to_samples(1.0)  # samples of speech, margins included, in each part of a split
LONG_PAUSE: Final = to_samples(1.0)  # samples; a longer pause is not a better place to split
NEAR_BORDER: Final = to_samples(0.3)  # samples from a span's border: its margin and jitter of words
ENERGY_FRAME: Final = 512  # samples (32 ms) whose energy is summed to find the quietest place
MAX_SHIFT: Final = to_samples(0.5)  # samples of silence added before and after a shifted chunk


def split_in_two(chunk: Chunk, target: int) -> tuple[Chunk, Chunk] | None:
    """Split a chunk near `target`, with at least `MIN_SPEECH` samples of speech in each part.

    The chunk is split at the pause with the highest score

        min(pause, LONG_PAUSE) / LONG_PAUSE - 4 * distance to target / length of chunk

    If no score reaches -1, the chunk is split at the quietest place near the target. A pause of 1 s
    reaches -1 within half the chunk's length from the target, a pause of 0 s within a quarter.

    Args:
        chunk: the chunk.
        target: desired place of the split, in samples of the recording. It can lie outside the
            chunk.

    Returns:
        The two parts, or None if the chunk has less than 2 * `MIN_SPEECH` samples of speech. A
        pause at the split is in neither part.
    """
    total_speech = sum(span.length for span in chunk.speech)
    if total_speech < 2 * MIN_SPEECH:
        return None
    length = chunk.end - chunk.start  # in the recording: shortened pauses have their full length
    speech_before, best = 0, (-np.inf, 0, 0)
    for span, following in pairwise(chunk.speech):
        speech_before += span.length
        if min(speech_before, total_speech - speech_before) < MIN_SPEECH:
            continue
        pause = following.start - span.end
        middle = (span.end + following.start) // 2
        score = min(pause, LONG_PAUSE) / LONG_PAUSE - 4 * abs(middle - target) / length
        best = max(best, (score, span.end, following.start))
    score, end, start = best  # end of the first part, start of the second part
    if score < -1:
        end = start = _quietest_place(chunk, target)
    return cut_out(chunk, chunk.start, end), cut_out(chunk, start, chunk.end)


def isolate(chunk: Chunk, start: int, end: int) -> tuple[Chunk, ...]:
    """Split a chunk before and after a stretch of speech, which becomes a separate chunk.

    Args:
        chunk: the chunk.
        start: first sample of the stretch, in samples of the recording.
        end: the sample after the last. A border near the border of a speech span moves there.

    Returns:
        The parts with speech: before the stretch, the stretch, after the stretch. A single part is
        the whole chunk.
    """
    for span in chunk.speech:
        if 0 <= start - span.start <= NEAR_BORDER:
            start = span.start
        if 0 <= span.end - end <= NEAR_BORDER:
            end = span.end
    borders = [chunk.start, min(max(start, chunk.start), chunk.end), min(end, chunk.end), chunk.end]
    return tuple(
        cut_out(chunk, first, last)
        for first, last in pairwise(borders)
        if _parts_within(chunk.speech, first, last)
    )


def cut_at_pauses(chunk: Chunk, stretches: Sequence[SpeechSpan]) -> tuple[Chunk, ...]:
    """Split a chunk at every pause in some stretches, and before and after the stretches.

        speech       [====] [===] [====] [===] [=====]
        stretches                    [-------]
        parts        [----------] [----] [---] [-----]

    Args:
        chunk: the chunk.
        stretches: in samples of the recording.

    Returns:
        The parts, each with at least `MIN_SPEECH` samples of speech unless the chunk has less. A
        pause between two parts is in neither part. A single part is the whole chunk.
    """
    groups: list[list[SpeechSpan]] = []
    joined = False  # whether the last span is outside all stretches
    for span in chunk.speech:
        outside = not any(span.within(stretch.start, stretch.end).length for stretch in stretches)
        if groups and (_is_short(groups[-1]) or (joined and outside)):
            groups[-1].append(span)
        else:
            groups.append([span])
        joined = outside
    if len(groups) > 1 and _is_short(groups[-1]):
        short = groups.pop()
        groups[-1] += short
    if len(groups) == 1:
        return (chunk,)
    return tuple(cut_out(chunk, group[0].start, group[-1].end) for group in groups)


def _is_short(spans: Sequence[SpeechSpan]) -> bool:
    return sum(span.length for span in spans) < MIN_SPEECH


def cut_out(chunk: Chunk, start: int, end: int) -> Chunk:
    """Return the part of a chunk from sample `start` to before sample `end` of the recording.

    The part keeps the `recording` and `index` of the chunk.

    Raises:
        ValueError: the chunk has no samples in this range.
    """
    pieces = _parts_within(chunk.pieces, start, end)
    samples = [chunk.samples[chunk.chunk_time(piece.start) :][: piece.length] for piece in pieces]
    return replace(
        chunk,
        pieces=pieces,
        speech=_parts_within(chunk.speech, start, end),
        samples=np.concatenate(samples),
    )


def shift(chunk: Chunk, silence: int = MAX_SHIFT) -> Chunk:
    """Add silence before and after a chunk, so that its speech moves in Whisper's window.

    Each silence is `silence` samples long, or shorter if the window has less room. The silence
    before the chunk is also limited by the start of the recording. The first and last piece are
    extended over the silence, although the recording has other samples there, or none at its end.

    Args:
        chunk: the chunk.
        silence: samples of silence before and after the chunk.

    Returns:
        The shifted chunk, at most `WINDOW` samples long. The speech spans are unchanged. A chunk
        that fills the window is returned without added silence.
    """
    room = WINDOW - chunk.length
    before = min(silence, chunk.start, room // 2)
    after = min(silence, room - before)
    first, last = chunk.pieces[0], chunk.pieces[-1]
    pieces = list(chunk.pieces)
    pieces[0] = SpeechSpan(first.start - before, pieces[0].end)
    pieces[-1] = SpeechSpan(pieces[-1].start, last.end + after)
    samples = np.pad(chunk.samples, (before, after))
    return replace(chunk, pieces=tuple(pieces), samples=samples)


def _parts_within(spans: Sequence[SpeechSpan], start: int, end: int) -> tuple[SpeechSpan, ...]:
    """Return the parts of the spans between `start` and `end`, without empty parts."""
    parts = [span.within(start, end) for span in spans]
    return tuple(part for part in parts if part.length)


def _quietest_place(chunk: Chunk, target: int) -> int:
    """Return the middle of the frame with the least energy, in samples of the recording.

    The search covers a quarter of the chunk, with the target in the middle. At least `MIN_SPEECH`
    samples of speech remain before and after the returned place.
    """
    earliest = chunk.chunk_time(_after_min_speech(chunk.speech))
    # the same from the end of the chunk: in mirrored time, positions are negative
    mirrored = [SpeechSpan(-span.end, -span.start) for span in reversed(chunk.speech)]
    latest = chunk.chunk_time(-_after_min_speech(mirrored))
    radius = max(chunk.length // 8, ENERGY_FRAME)
    middle = min(max(chunk.chunk_time(target), earliest), latest)
    start = max(middle - radius, earliest)
    end = max(min(middle + radius, latest), start + ENERGY_FRAME)
    samples = chunk.samples[start:end]
    frames = samples[: len(samples) // ENERGY_FRAME * ENERGY_FRAME].reshape(-1, ENERGY_FRAME)
    quietest_frame = int(np.argmin(np.einsum("ij,ij->i", frames, frames)))
    place = start + quietest_frame * ENERGY_FRAME + ENERGY_FRAME // 2
    return chunk.recording_time(min(place, latest))


def _after_min_speech(spans: Sequence[SpeechSpan]) -> int:
    """Return the first position with `MIN_SPEECH` samples of speech before it.

    The end of the last span is returned if the spans have less speech.
    """
    needed = MIN_SPEECH
    for span in spans:
        if span.length >= needed:
            return span.start + needed
        needed -= span.length
    return spans[-1].end
