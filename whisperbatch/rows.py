"""Rows (chunks with features) and the markers that travel through the pipeline with them."""

from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from typing_extensions import Self

from whisperbatch.errors import WhisperBatchError
from whisperbatch.features.levels import level_speech
from whisperbatch.features.noise import is_noisy
from whisperbatch.protocols import Encoded, FeatureExtractor, FeatureType
from whisperbatch.recording import Decision, RecordingState
from whisperbatch.types import WINDOW_FRAMES, Chunk, Features, LanguageScores

# Whisper was trained on windows of 30 s. Measured on 80 clips of 7 to 12 s (in three languages, and
# with up to 10 s of silence): 5 s of silence after the clip gave as few errors as padding to 30 s,
# while with 1 to 3 s up to 8 of the clips failed. The encoder window is a multiple of
# `WINDOW_STEP`, so that many rows have windows of the same size and can share a batch.
MIN_PADDING: Final = 500  # feature frames of silence after a row, or up to the end of 30 s
WINDOW_STEP: Final = 500  # feature frames


@dataclass(slots=True, eq=False)
class Encoding:
    """The input of the encoder for a row, and its output while a later call needs the output.

    The copies of a row share it, so that no copy is encoded again.

    Attributes:
        frames: feature frames of the encoder window; 0 before the row is prepared.
        features: shape (n_mels, frames), padded with silence, in the type that the engine computes
            with; None before the row is prepared, and while `output` is kept.
        output: encoder output of the row alone, if it is kept.
        keep: whether to keep the output of the next encoder call. It is set by a stage that knows
            of a later call, and when the row has been encoded once. Most rows are decoded once, and
            an engine may have to copy an output from its GPU to split it from its batch.
        key: hash of the features, for a store of results; None if there is no store.
    """

    frames: int = 0
    features: npt.NDArray[Any] | None = None
    output: Encoded | None = None
    keep: bool = False
    key: bytes | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """A chunk with its features, and the results for this row so far.

    Attributes:
        chunk: at most 30 s.
        features: shape (n_mels, n_frames).
        pad_value: feature value of silence, on the scale of `features`.
        recording: state of the row's recording, shared by all of its rows.
        language_scores: probability of each language, if the row was scored.
        encoding: input and output of the encoder; belongs to this row and its copies.
        language: language of the row; set by the language stage.
        decision: the decision for the recording as of this row; set by the language stage.
    """

    chunk: Chunk
    features: Features
    pad_value: float
    recording: RecordingState = field(repr=False)
    language_scores: LanguageScores | None = None
    encoding: Encoding = field(default_factory=Encoding, repr=False)
    language: str | None = None
    decision: Decision | None = None

    @property
    def window(self) -> int:
        """Feature frames in the encoder window: the row's frames and silence.

        Rows of one engine call have the same window.
        """
        size = int(self.features.shape[1]) + MIN_PADDING
        return min(-(-size // WINDOW_STEP) * WINDOW_STEP, WINDOW_FRAMES)

    def prepare(self, feature_type: FeatureType, window: int | None = None) -> Encoding:
        """Return the row's encoding, with the features that its encoder call needs.

        Args:
            feature_type: type that the engine computes with.
            window: feature frames in the encoder window; None for the row's own window.
        """
        encoding = self.encoding
        if not encoding.frames:
            encoding.frames = window or self.window
            n_mels, n_frames = self.features.shape
            features = np.full((n_mels, encoding.frames), self.pad_value, np.float32)
            features[:, :n_frames] = self.features
            encoding.features = features.astype(feature_type, copy=False)
        return encoding

    @property
    def is_noisy(self) -> bool:
        """Whether the row has noise; only for Whisper's own features."""
        return is_noisy(self.features)

    @classmethod
    def of(cls, chunk: Chunk, extractor: FeatureExtractor, recording: RecordingState) -> Self:
        """Return the row of a chunk, with features of its levelled speech by `extractor`."""
        features = extractor(level_speech(chunk))
        return cls(chunk, features, extractor.pad_value(features), recording)


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
