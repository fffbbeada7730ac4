"""Pieces: short stretches of speech by one track, each with a voice embedding.

    run      [=========== one track ==========]      (a run of a window)
    pieces   [--- 1.5 s ---]
                  [--- 1.5 s ---]                     at multiples of the shift in the recording
                         [--- 1.5 s ---]

Boundaries come from the tracks: no piece crosses a change of track. The identity comes from dense
pieces: if a track joins two similar voices, its pieces still differ.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from whisperbatch.diarization.windows import FRAME, Run, Window

PIECE: Final = 24_000  # samples: 1.5 s; shorter pieces have worse embeddings, longer mix voices
SHIFT: Final = 16_000  # samples from a piece to the next
MIN_PIECE: Final = 4_800  # samples: 0.3 s; a shorter run takes the speaker of its track
FBANK_HOP: Final = 160  # samples
FBANK_FRAME: Final = 400  # samples
PIECE_FRAMES: Final = (PIECE - FBANK_FRAME) // FBANK_HOP  # that fit into a piece wherever it starts

Embeddings = npt.NDArray[np.float32]


class EmbeddingNetwork(Protocol):
    """Computes voice embeddings."""

    def __call__(self, features: Sequence[npt.NDArray[np.float32]], /) -> Embeddings:
        """Return embeddings, shape (pieces, 192), of features, each of shape (frames, 80)."""
        ...


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of a run.

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


def plan(window: Window, all_runs: Sequence[Run]) -> Iterator[Piece]:
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
