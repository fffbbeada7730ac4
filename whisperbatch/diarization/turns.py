"""The turns of a recording, from the speakers of its steps."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from whisperbatch.diarization.labelling import Scores
from whisperbatch.diarization.recorder import Memory, Overlap
from whisperbatch.diarization.windows import FIRST_SAMPLE, FRAME, SPEAKERS
from whisperbatch.types import Turn, to_seconds

NO_SPEAKER: Final = -1
GAP: Final = 3  # frames of silence that do not end a turn: 0.05 s
NEAR: Final = 120  # frames, 2 s: the nearest speech of a track counts most
OVERLAP_CONFIDENCE: Final = 0.5  # of several: the voices of overlapping speech are not compared


@dataclass(frozen=True, slots=True)
class Span:
    """Frames in which a speaker is active.

    Attributes:
        start: first frame, counted in the recording.
        end: the frame after the last.
        speaker: number of the speaker.
        confidence: from 0 to 1.
    """

    start: int
    end: int
    speaker: int
    confidence: float


def spans(
    memory: Memory, bounds: npt.NDArray[np.int64], labels: npt.NDArray[np.int64], confidence: Scores
) -> tuple[list[Span], list[Span]]:
    """Return the spans of all speakers, with those of overlapping speech; and exclusive spans.

    In overlapping speech, an exclusive span has the dominant speaker of this moment. So exclusive
    spans do not overlap.

    Args:
        memory: of the recording.
        bounds: (start, end) of each step in frames.
        labels: the speaker of each step.
        confidence: of each step.
    """
    result = [
        Span(start, end, label, value)
        for (start, end), label, value in zip(
            bounds.tolist(), labels.tolist(), confidence.tolist(), strict=True
        )
    ]
    n_frames = max((start + len(codes) for start, codes in memory.views), default=0)
    timeline = np.full(n_frames, NO_SPEAKER, np.int32)
    for span in result:
        timeline[span.start : span.end] = span.speaker
    count = int(labels.max()) + 1 if len(labels) else 0
    exclusive = [*result]
    confident = OVERLAP_CONFIDENCE if count > 1 else 1.0
    for overlap in memory.overlaps:
        speakers = _overlapping(memory, timeline, overlap, count)
        result += [Span(overlap.start, overlap.end, speaker, confident) for speaker in speakers]
        exclusive += [
            Span(start, end, speakers[min(dominant, len(speakers) - 1)], confident)
            for start, end, dominant in overlap.parts
            if speakers
        ]
    return _in_order(result), _in_order(exclusive)


def _in_order(all_spans: Iterable[Span]) -> list[Span]:
    return sorted(all_spans, key=lambda span: (span.start, span.speaker))


def _overlapping(
    memory: Memory, timeline: npt.NDArray[np.int32], overlap: Overlap, count: int
) -> list[int]:
    """Return the speakers of overlapping tracks: the speakers of the tracks' other frames.

    Two speakers are in the order of the tracks. One speaker, or none, is returned if the other
    frames have no others.
    """
    first, codes = memory.views[overlap.window]
    middle = (overlap.start + overlap.end) / 2 - first
    votes = np.zeros((SPEAKERS, count))
    for track in overlap.tracks:
        frames = np.flatnonzero(codes == 1 << track)
        names = timeline[first + frames]
        near = np.exp(-np.abs(frames - middle) / NEAR)
        known = names != NO_SPEAKER
        np.add.at(votes[track], names[known], near[known])
    one, two = (votes[track] for track in overlap.tracks)
    if count <= 1:
        return [0] if count else []
    pairs = one[:, None] + two[None, :]
    np.fill_diagonal(pairs, -1.0)
    best = np.unravel_index(np.argmax(pairs), pairs.shape)
    speakers = [int(s) for s, v in zip(best, (one, two), strict=True) if v[s] > 0]
    if speakers:
        return speakers
    before = timeline[max(overlap.start - 1, 0) : overlap.start]
    after = timeline[overlap.end : overlap.end + 1]
    around = np.unique(np.concatenate((before, after)))
    return [int(name) for name in around if name != NO_SPEAKER]


def joined(all_spans: Sequence[Span], names: Mapping[int, str], gap: int = GAP) -> tuple[Turn, ...]:
    """Join the spans of each speaker to turns.

    Args:
        all_spans: in order of time.
        names: name of each speaker.
        gap: frames of silence that do not end a turn.
    """
    turns: list[Turn] = []
    for number, name in names.items():
        groups: list[list[Span]] = []
        end = -gap - 1
        for span in all_spans:
            if span.speaker != number:
                continue
            if span.start > end + gap:
                groups.append([])
            groups[-1].append(span)
            end = max(end, span.end)
        turns += [_turn(group, name) for group in groups]
    return tuple(sorted(turns, key=lambda turn: (turn.start, turn.end, turn.speaker)))


def _turn(group: Sequence[Span], name: str) -> Turn:
    """Return the turn of spans that follow each other."""
    lengths = [span.end - span.start for span in group]
    confidence = sum(s.confidence * n for s, n in zip(group, lengths, strict=True)) / sum(lengths)
    last = max(span.end for span in group)
    return Turn(time_of(group[0].start), time_of(last), name, confidence)


def time_of(frame: int) -> float:
    """Return the start of a frame in seconds."""
    return to_seconds(frame * FRAME + FIRST_SAMPLE)
