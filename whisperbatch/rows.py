"""Rows: chunks on their way through the pipeline, and the markers that travel between them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Self

import numpy as np
import numpy.typing as npt

from whisperbatch.errors import WhisperBatchError
from whisperbatch.protocols import Encoded, FeatureExtractor
from whisperbatch.types import WINDOW_FRAMES, Chunk, Features, LanguageScores, Omission

# Whisper was trained on windows of 30 s. In 80 clips of 7 to 12 s, 5 s of silence after them gave
# as few errors as all of it (in three languages, and up to 10 s), 1 to 3 s let up to 8 of them
# fail. Few sizes, so that rows of one size make batches.
SILENCE: Final = 500  # frames after a row, at least, or up to the window's end
STEP: Final = 500  # sizes are multiples of it


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """A chunk and what the encoder sees of it.

    Attributes:
        chunk: at most 30 s.
        features: shape (n_mels, n_frames).
        pad_value: what silence looks like beside them.
        language_scores: the probability of each language, of a row that was scored.
        encoded: the encoder output, of a row that was scored.
        language: to decode it in, where that may differ from row to row.
        voters: rows that tell which language the recording is in, itself the first: of a
            recording's first row, if that is asked for.
    """

    chunk: Chunk
    features: Features
    pad_value: float
    voters: tuple["Row", ...] = ()
    language_scores: LanguageScores | None = None
    encoded: Encoded | None = None
    language: str | None = None

    @property
    def window(self) -> int:
        """Frames that the encoder sees: the row's own and silence. Rows of one call share it."""
        size = int(self.features.shape[1]) + SILENCE
        return min(-(-size // STEP) * STEP, WINDOW_FRAMES)

    @classmethod
    def of(cls, chunk: Chunk, extractor: FeatureExtractor) -> Self:
        """A chunk with its features."""
        features = extractor(chunk.samples)
        return cls(chunk, features, extractor.pad_value(features))


def padded(rows: Sequence[Row], frames: int) -> npt.NDArray[np.float32]:
    """Features of all rows, each padded with its silence: (batch, n_mels, frames)."""
    n_mels = rows[0].features.shape[0]
    features = np.empty((len(rows), n_mels, frames), np.float32)
    for target, row in zip(features, rows, strict=True):
        own = row.features.shape[1]
        target[:, :own] = row.features
        target[:, own:] = row.pad_value
    return features


def grouped(keys: Sequence[object]) -> list[list[int]]:
    """Numbers of the keys that are alike."""
    groups: dict[object, list[int]] = {}
    for number, key in enumerate(keys):
        groups.setdefault(key, []).append(number)
    return list(groups.values())


@dataclass(slots=True)
class RunStats:
    """What was done with a recording: it grows until the recording ends.

    Attributes:
        omissions: what was decoded and left out, and speech that gave no text.
        chunks: how many there were.
        redecoded: how many of them were decoded more than once.
    """

    omissions: list[Omission] = field(default_factory=list)
    chunks: int = 0
    redecoded: int = 0


@dataclass(frozen=True, slots=True)
class End:
    """A recording has been read, or its reading failed.

    Attributes:
        recording: its number.
        source: its name.
        duration: in seconds, of what was read.
        error: why it ended early, or None.
        stats: of what was done.
    """

    recording: int
    source: str
    duration: float
    error: WhisperBatchError | None = None
    stats: RunStats = field(default_factory=RunStats)


@dataclass(frozen=True, slots=True)
class Flush:
    """Nothing has come for a moment: batches do not wait until they are full."""


FLUSH: Final = Flush()
Item = Row | End | Flush
