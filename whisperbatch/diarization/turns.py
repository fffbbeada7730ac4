"""The turns of a recording: boundaries from the tracks, identity from the voices.

Each step of the recording gets a speaker. A step is at most 0.1 s of a run by one track. Its scores
are the similarities of the pieces around the step and the mean voice of each speaker. For short
runs, whose embeddings are unreliable, the other pieces of the same track count, too. The most
probable sequence of speakers (Viterbi) balances the scores and the number of changes within chains
of runs. Between chains, a change costs nothing: the tracks of the network have seen a boundary.
Costs of the same speaker in two tracks, and of two speakers in one track, made the results worse.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from whisperbatch.diarization.embeddings import Memory, Overlap, TrackSegment
from whisperbatch.diarization.protocol import in_order
from whisperbatch.diarization.segmentation import FIRST_SAMPLE, FRAME, SPEAKERS
from whisperbatch.types import SAMPLING_RATE, Turn, to_seconds

STEP_FRAMES: Final = 6  # frames: 0.1 s
# Seconds of a run whose own embeddings are reliable. DER of 13 development conversations with 0.5,
# 0.7, 1.0, 1.5 and 2.5 s: 13.4, 13.4, 13.4, 13.8 and 14.0 %.
RELIABLE: Final = 0.8
# Cost of a change within a chain: seconds times the difference of similarities. From 0.03 to 0.075,
# the development conversations have the same DER (13.4 %); with 0.2 they have 0.2 points more. In
# the recorded telephone call, the DER is 2 points higher with 0.05 than with 0.075. A lower cost at
# pauses does not help: with 0.05 there, nine conversations have 11.52 instead of 11.50 %.
CHANGE: Final = 0.075
TEMPERATURE: Final = 0.05  # of similarities: then a confidence of 0.7 is right in 7 of 10 cases

Scores = npt.NDArray[np.float32]

NO_SPEAKER: Final = -1
GAP: Final = 3  # frames of silence that do not end a turn: 0.05 s
NEAR: Final = 120  # frames, 2 s: the nearest speech of a track counts most
OVERLAP_CONFIDENCE: Final = 0.5  # of several: the voices of overlapping speech are not compared


@dataclass(slots=True)
class _Speech:
    """The speech of a chain, or of a phrase.

    Attributes:
        pieces: numbers of the pieces, in order.
        seconds: length.
    """

    pieces: list[int] = field(default_factory=list)
    seconds: float = 0.0

    def add(self, segment: TrackSegment) -> None:
        """Add the next segment."""
        self.pieces += segment.pieces
        self.seconds += segment.seconds

    @property
    def trust(self) -> float:
        """How reliable its own embeddings are, from 0 to 1."""
        return min(self.seconds / RELIABLE, 1.0) if self.pieces else 0.0


def score_steps(
    segments: Sequence[TrackSegment], centres: npt.NDArray[np.int64], scores: Scores
) -> tuple[npt.NDArray[np.int64], Scores, npt.NDArray[np.int64]]:
    """Return the steps: their frames (start, end), scores of the speakers, and segments.

    Args:
        segments: in order of time.
        centres: middle of each piece in frames of the recording.
        scores: cosine similarity of each piece and each speaker, shape (pieces, speakers).
    """
    chains: dict[int, _Speech] = {}
    phrases: dict[int, _Speech] = {}
    tracks: dict[tuple[int, int], list[int]] = {}
    for segment in segments:
        chains.setdefault(segment.chain, _Speech()).add(segment)
        phrases.setdefault(segment.phrase, _Speech()).add(segment)
        tracks.setdefault((segment.window, segment.track), []).extend(segment.pieces)
    bounds, values, owners = [], [], []
    for number, segment in enumerate(segments):
        edges = list(range(segment.start, segment.end, STEP_FRAMES))
        middles = np.array([min(e + STEP_FRAMES, segment.end) + e for e in edges]) / 2
        chain, phrase = chains[segment.chain], phrases[segment.phrase]
        own = _interpolated(chain.pieces, middles, centres, scores)
        track = tracks[segment.window, segment.track]
        if chain.trust < 1 and track:
            own = chain.trust * own + (1 - chain.trust) * scores[track].mean(axis=0)
        if 0 < len(phrase.pieces) < len(chain.pieces):
            spoken = _interpolated(phrase.pieces, middles, centres, scores)
            own = phrase.trust * spoken + (1 - phrase.trust) * own
        values.append(own)
        bounds += [(e, min(e + STEP_FRAMES, segment.end)) for e in edges]
        owners += [number] * len(edges)
    return np.array(bounds), np.concatenate(values).astype(np.float32), np.array(owners)


def _interpolated(
    pieces: Sequence[int],
    middles: npt.NDArray[np.float64],
    centres: npt.NDArray[np.int64],
    scores: Scores,
) -> Scores:
    """Return the scores at some frames, interpolated between the middles of pieces."""
    if not pieces:
        return np.zeros((len(middles), scores.shape[1]), np.float32)
    at = centres[list(pieces)]
    columns = [np.interp(middles, at, scores[list(pieces), k]) for k in range(scores.shape[1])]
    result: Scores = np.stack(columns, axis=1).astype(np.float32)
    return result


def label_steps(
    segments: Sequence[TrackSegment],
    bounds: npt.NDArray[np.int64],
    values: Scores,
    owners: npt.NDArray[np.int64],
) -> npt.NDArray[np.int64]:
    """Return the speaker of each step: the sequence with the highest score (Viterbi).

    Args:
        segments: in order of time.
        bounds: first frame of each step, and the frame after the last; shape (steps, 2).
        values: scores, shape (steps, speakers).
        owners: number of the segment of each step, shape (steps,).
    """
    n_steps, n_speakers = values.shape
    if n_speakers == 1:
        return np.zeros(n_steps, np.int64)
    seconds = (bounds[:, 1] - bounds[:, 0]) * FRAME / SAMPLING_RATE
    gains = values * seconds[:, None]
    chains = np.array([segments[owner].chain for owner in owners.tolist()])
    costs = np.where(np.diff(chains, prepend=chains[0]) == 0, CHANGE, 0.0)
    total = gains[0].astype(np.float64)
    origins = np.empty((n_steps, n_speakers), np.int64)
    others = 1.0 - np.eye(n_speakers)
    everyone = np.arange(n_speakers)
    for step in range(1, n_steps):
        paths = total[:, None] - costs[step] * others
        origins[step] = np.argmax(paths, axis=0)
        total = paths[origins[step], everyone] + gains[step]
    labels = np.empty(n_steps, np.int64)
    labels[-1] = int(np.argmax(total))
    for step in range(n_steps - 1, 0, -1):
        labels[step - 1] = origins[step, labels[step]]
    return labels


def rate_labels(values: Scores, labels: npt.NDArray[np.int64]) -> Scores:
    """Return the probability of each step's speaker, given the similarities to all speakers."""
    exponents = (values - values.max(axis=1, keepdims=True)) / TEMPERATURE
    weights = np.exp(exponents)
    chosen = weights[np.arange(len(labels)), labels]
    result: Scores = (chosen / weights.sum(axis=1)).astype(np.float32)
    return result


@dataclass(frozen=True, slots=True)
class SpeakerFrames:
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


def find_frames(
    memory: Memory, bounds: npt.NDArray[np.int64], labels: npt.NDArray[np.int64], confidence: Scores
) -> tuple[list[SpeakerFrames], list[SpeakerFrames]]:
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
        SpeakerFrames(start, end, label, value)
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
        result += [
            SpeakerFrames(overlap.start, overlap.end, speaker, confident) for speaker in speakers
        ]
        exclusive += [
            SpeakerFrames(start, end, speakers[min(dominant, len(speakers) - 1)], confident)
            for start, end, dominant in overlap.parts
            if speakers
        ]
    for spans in (result, exclusive):
        spans.sort(key=lambda span: (span.start, span.speaker))
    return result, exclusive


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


def join_frames(
    all_spans: Sequence[SpeakerFrames], names: Mapping[int, str], gap: int = GAP
) -> tuple[Turn, ...]:
    """Join the spans of each speaker to turns.

    Args:
        all_spans: in order of time.
        names: name of each speaker.
        gap: frames of silence that do not end a turn.
    """
    turns: list[Turn] = []
    for number, name in names.items():
        groups: list[list[SpeakerFrames]] = []
        end = -gap - 1
        for span in all_spans:
            if span.speaker != number:
                continue
            if span.start > end + gap:
                groups.append([])
            groups[-1].append(span)
            end = max(end, span.end)
        turns += [_turn(group, name) for group in groups]
    return in_order(turns)


def _turn(group: Sequence[SpeakerFrames], name: str) -> Turn:
    lengths = [span.end - span.start for span in group]
    confidence = sum(s.confidence * n for s, n in zip(group, lengths, strict=True)) / sum(lengths)
    last = max(span.end for span in group)
    return Turn(time_of(group[0].start), time_of(last), name, confidence)


def time_of(frame: int) -> float:
    """Return the start of a frame in seconds."""
    return to_seconds(frame * FRAME + FIRST_SAMPLE)
