"""Rows (chunks with features) and the markers that travel through the pipeline with them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt
from typing_extensions import Self

from whisperbatch.errors import WhisperBatchError
from whisperbatch.features.levels import levelled
from whisperbatch.features.noise import is_noisy
from whisperbatch.protocols import Encoded, FeatureExtractor
from whisperbatch.recording import Decision, RecordingState
from whisperbatch.types import WINDOW_FRAMES, Chunk, Features, LanguageScores

# Whisper was trained on windows of 30 s. Measured on 80 clips of 7 to 12 s (in three languages, and
# with up to 10 s of silence): 5 s of silence after the clip gave as few errors as padding to 30 s,
# while with 1 to 3 s up to 8 of the clips failed. The encoder window is a multiple of
# `WINDOW_STEP`, so that many rows have windows of the same size and can share a batch.
MIN_PADDING: Final = 500  # feature frames of silence after a row, or up to the end of 30 s
WINDOW_STEP: Final = 500  # feature frames


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """A chunk with its features, and the results for this row so far.

    Attributes:
        chunk: at most 30 s.
        features: shape (n_mels, n_frames).
        pad_value: feature value of silence, on the scale of `features`.
        recording: state of the row's recording, shared by all of its rows.
        language_scores: probability of each language, if the row was scored.
        encoded: encoder output of the row, if the row was scored or decoded.
        language: language of the row; set by the language stage.
        decision: the decision for the recording as of this row; set by the language stage.
    """

    chunk: Chunk
    features: Features
    pad_value: float
    recording: RecordingState = field(repr=False)
    language_scores: LanguageScores | None = None
    encoded: Encoded | None = None
    language: str | None = None
    decision: Decision | None = None

    @property
    def window(self) -> int:
        """Feature frames in the encoder window: the row's frames and silence.

        Rows of one engine call have the same window.
        """
        size = int(self.features.shape[1]) + MIN_PADDING
        return min(-(-size // WINDOW_STEP) * WINDOW_STEP, WINDOW_FRAMES)

    @property
    def is_noisy(self) -> bool:
        """Whether the row has noise; only for Whisper's own features."""
        return is_noisy(self.features)

    @classmethod
    def of(cls, chunk: Chunk, extractor: FeatureExtractor, recording: RecordingState) -> Self:
        """Return the row of a chunk, with features of its levelled speech by `extractor`."""
        features = extractor(levelled(chunk))
        return cls(chunk, features, extractor.pad_value(features), recording)


def padded(rows: Sequence[Row], frames: int) -> npt.NDArray[np.float32]:
    """Return the features of all rows, each padded with its silence: (batch, n_mels, frames)."""
    n_mels = rows[0].features.shape[0]
    features = np.empty((len(rows), n_mels, frames), np.float32)
    for target, row in zip(features, rows, strict=True):
        n_frames = row.features.shape[1]
        target[:, :n_frames] = row.features
        target[:, n_frames:] = row.pad_value
    return features


def grouped(keys: Sequence[object]) -> list[list[int]]:
    """Return the positions of equal keys: one list of positions for each distinct key."""
    groups: dict[object, list[int]] = {}
    for position, key in enumerate(keys):
        groups.setdefault(key, []).append(position)
    return list(groups.values())


@dataclass(frozen=True, slots=True)
class End:
    """The marker after the last row of a recording.

    Attributes:
        recording: state of the recording.
        error: why the recording ended early; None if it was read completely.
    """

    recording: RecordingState
    error: WhisperBatchError | None = None


Item = Row | End
