"""What a diarization remembers of a recording: stretches, pieces and tracks, but no audio."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt

from whisperbatch.diarization.labelling import Stretch
from whisperbatch.diarization.pieces import PIECE, Embeddings, Piece
from whisperbatch.diarization.windows import FRAME, SPEAKERS, Run, Window

WORD: Final = 21  # frames, 0.35 s: in overlapping speech, the dominant track changes more slowly


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
        stretches: runs by one track, in order.
        embeddings: one array for each window, shape (pieces, n_dimensions).
        centres: middle of each piece, in frames of the recording.
        weights: length of each piece relative to a complete piece.
        overlaps: runs by two tracks.
        views: (first frame, codes) of each window; bit n of a code is set while track n is active.
        chains: number of the last chain; see `Stretch`.
        phrases: number of the last phrase.
    """

    stretches: list[Stretch] = field(default_factory=list)
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
            self.stretches.append(Stretch(*bounds, number, track, chain, numbers, phrase))

    def chain_of_pieces(self) -> npt.NDArray[np.int64]:
        """Return the chain (see `Stretch`) of each piece, shape (pieces,); -1 for no stretch."""
        chains = np.full(len(self.centres), -1)
        for stretch in self.stretches:
            chains[stretch.pieces] = stretch.chain
        return chains

    def _continues(self, run: Run, window: Window, number: int, low: int) -> bool:
        """Return whether the run continues the last stretch, as one of the two windows sees it."""
        if not self.stretches or self.stretches[-1].end != window.start + low:
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
