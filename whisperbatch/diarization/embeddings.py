"""The voices of a recording: pieces of speech with embeddings, and what is remembered of them.

A piece is a short part of speech by one track.

    run      [=========== one track ==========]      (a run of a window)
    pieces   [--- 1.5 s ---]
                  [--- 1.5 s ---]                     at multiples of the shift in the recording
                         [--- 1.5 s ---]

Boundaries come from the tracks: no piece crosses a change of track. The identity comes from dense
pieces: if a track joins two similar voices, its pieces still differ.

A `Memory` collects segments, pieces and tracks of a recording, but no audio.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from whisperbatch.diarization.segmentation import FRAME, SPEAKERS, Run, Window
from whisperbatch.types import SAMPLING_RATE

PIECE: Final = 24_000  # samples: 1.5 s; shorter pieces have worse embeddings, longer mix voices
SHIFT: Final = 16_000  # samples from a piece to the next
MIN_PIECE: Final = 4_800  # samples: 0.3 s; a shorter run takes the speaker of its track
FBANK_HOP: Final = 160  # samples
FBANK_FRAME: Final = 400  # samples
PIECE_FRAMES: Final = (PIECE - FBANK_FRAME) // FBANK_HOP  # that fit into a piece wherever it starts

Embeddings = npt.NDArray[np.float32]

WORD: Final = 21  # frames, 0.35 s: in overlapping speech, the dominant track changes more slowly


class Embedder(Protocol):
    """Computes voice embeddings."""

    def __call__(self, features: Sequence[npt.NDArray[np.float32]], /) -> Embeddings:
        """Return embeddings, shape (pieces, 192), of features, each of shape (frames, 80)."""
        ...


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a run.

    Attributes:
        run: number of the run in its window.
        start: first sample, counted in the window.
        end: the sample after the last.
    """

    run: int
    start: int
    end: int

    @property
    def centre(self) -> int:
        """The sample in the middle."""
        return (self.start + self.end) // 2


def plan_pieces(window: Window, all_runs: Sequence[Run]) -> Iterator[Piece]:
    """Yield the pieces of the runs by one track in the region of the window.

    The middle of a piece is in the region. A run in the region has at least one piece.
    """
    low, high = (edge * FRAME for edge in window.region)
    offset = window.start * FRAME
    for number, run in enumerate(all_runs):
        start, end = run.start * FRAME, run.end * FRAME
        inside = max(start, low), min(end, high)
        if len(run.tracks) > 1 or end - start < MIN_PIECE or inside[0] >= inside[1]:
            continue
        pieces = [Piece(number, at, min(at + PIECE, end)) for at in _positions(start, end, offset)]
        chosen = [piece for piece in pieces if inside[0] <= piece.centre < inside[1]]
        yield from chosen or [min(pieces, key=lambda piece: abs(piece.centre - sum(inside) // 2))]


def _positions(start: int, end: int, offset: int) -> list[int]:
    """Return where the pieces of a run start: if it is long, at multiples of the shift.

    Args:
        start: first sample of the run, counted in the window.
        end: the sample after the last.
        offset: first sample of the window, counted in the recording.
    """
    latest = end - PIECE
    if latest <= start:
        return [start]
    if latest - start < SHIFT // 2:
        return [(start + latest) // 2]
    first = -(-(start + offset) // SHIFT)
    inner = [n * SHIFT - offset for n in range(first, (latest + offset) // SHIFT + 1)]
    if not inner:
        return [start, latest]
    if inner[0] - start > SHIFT // 2:
        inner.insert(0, start)
    if latest - inner[-1] > SHIFT // 2:
        inner.append(latest)
    return inner


def frames_of(piece: Piece) -> tuple[int, int]:
    """Return the first fbank frame of a piece, and the frame after the last.

    All full pieces have the same number of frames.
    """
    first = -(-piece.start // FBANK_HOP)
    count = (piece.end - FBANK_FRAME) // FBANK_HOP + 1 - first
    return first, first + min(max(1, count), PIECE_FRAMES)


@dataclass(slots=True)
class TrackSegment:
    """A run by one track, within the region of its window.

    Attributes:
        start: first frame, counted in the recording.
        end: the frame after the last.
        window: number of the window.
        track: number of the track in the window.
        chain: number of the speech that continues over regions: segments with the same number
            follow each other, and the tracks see no change of speaker.
        pieces: numbers of the pieces, in order.
        phrase: number of the part of the chain between two pauses.
    """

    start: int
    end: int
    window: int
    track: int
    chain: int
    pieces: list[int] = field(default_factory=list)
    phrase: int = 0

    @property
    def seconds(self) -> float:
        """Length in seconds."""
        return (self.end - self.start) * FRAME / SAMPLING_RATE


@dataclass(frozen=True, slots=True)
class Overlap:
    """Frames in which two tracks of a window are active.

    Attributes:
        start: first frame, counted in the recording.
        end: the frame after the last.
        window: number of the window.
        tracks: the two tracks.
        parts: (start, end, dominant) of each part; `dominant` is 0 or 1: which of the two tracks
            would be the more probable speaker if only one spoke.
    """

    start: int
    end: int
    window: int
    tracks: tuple[int, int]
    parts: tuple[tuple[int, int, int], ...]


@dataclass(slots=True)
class Memory:
    """The analysis of a recording up to a window: about 4 MB for each hour.

    Attributes:
        segments: runs by one track, in order.
        embeddings: one array for each window, shape (pieces, n_dimensions).
        centres: middle of each piece, in frames of the recording.
        weights: length of each piece relative to a complete piece.
        overlaps: runs by two tracks.
        views: (first frame, codes) of each window; bit n of a code is set while track n is active.
        chains: number of the last chain; see `TrackSegment`.
        phrases: number of the last phrase.
    """

    segments: list[TrackSegment] = field(default_factory=list)
    embeddings: list[Embeddings] = field(default_factory=list)
    centres: list[int] = field(default_factory=list)
    weights: list[float] = field(default_factory=list)
    overlaps: list[Overlap] = field(default_factory=list)
    views: list[tuple[int, npt.NDArray[np.uint8]]] = field(default_factory=list)
    chains: int = 0
    phrases: int = 0

    def add(
        self, window: Window, all_runs: Sequence[Run], pieces: Sequence[Piece], vectors: Embeddings
    ) -> None:
        """Add a window with its runs, its pieces and their embeddings."""
        number = len(self.views)
        codes = (window.activity @ (1 << np.arange(SPEAKERS))).astype(np.uint8)
        self.views.append((window.start, codes))
        first_piece = len(self.centres)
        self.embeddings.append(vectors)
        self.centres += [window.start + piece.centre // FRAME for piece in pieces]
        self.weights += [min((piece.end - piece.start) / PIECE, 1.0) for piece in pieces]
        low, high = window.region
        for index, run in enumerate(all_runs):
            start, end = max(run.start, low), min(run.end, high)
            if start >= end:
                continue
            bounds = (window.start + start, window.start + end)
            if len(run.tracks) > 1:
                one, two = run.tracks
                difference = window.alone[start:end, two] - window.alone[start:end, one]
                parts = _parts(bounds[0], difference)
                self.overlaps.append(Overlap(*bounds, number, (one, two), parts))
                continue
            goes_on = (run.follows_pause and run.start > low) or (
                start == low and self._continues(run, window, number, low)
            )
            self.chains += not goes_on
            self.phrases += not goes_on or (run.follows_pause and run.start >= low)
            numbers = [first_piece + n for n, piece in enumerate(pieces) if piece.run == index]
            track, chain, phrase = run.tracks[0], self.chains, self.phrases
            self.segments.append(TrackSegment(*bounds, number, track, chain, numbers, phrase))

    def chain_of_pieces(self) -> npt.NDArray[np.int64]:
        """Return the chain (see `TrackSegment`) of each piece, shape (pieces,); -1 for none."""
        chains = np.full(len(self.centres), -1)
        for segment in self.segments:
            chains[segment.pieces] = segment.chain
        return chains

    def _continues(self, run: Run, window: Window, number: int, low: int) -> bool:
        """Return whether the run continues the last segment, as one of the two windows sees it."""
        if not self.segments or self.segments[-1].end != window.start + low:
            return False
        if run.start < low:
            return True
        start, codes = self.views[number - 1]
        edge = window.start + low - start
        return edge < len(codes) and codes[edge] == codes[edge - 1]


def _parts(start: int, difference: npt.NDArray[np.float32]) -> tuple[tuple[int, int, int], ...]:
    """Return the parts of overlapping speech in which one of the two tracks is dominant.

    Args:
        start: first frame, counted in the recording.
        difference: log-probability of the second track less that of the first, of each frame.
    """
    half = WORD // 2
    padded = np.pad(difference.astype(np.float64), half, mode="edge")
    dominant = np.convolve(padded, np.ones(WORD), "valid") > 0
    edges = [0, *(np.flatnonzero(np.diff(dominant)) + 1).tolist(), len(dominant)]
    return tuple((start + low, start + high, int(dominant[low])) for low, high in pairwise(edges))
