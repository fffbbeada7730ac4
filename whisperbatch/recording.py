"""The state of one recording, and its rows (chunks with features).

`PipelineRun` creates the state when the recording begins, and has the only table of recordings.
Every row of the recording and its `End` refer to the state. The state is freed with the last of
these references, after the recording has ended.

Who changes which field, in the order of the recording's rows:

    reader, source, opened               the thread that opens the recording
    checked, recovered, sounds, was_read the thread that reads the recording
    language                             this thread (language windows), then the language stage
    switching                            the language stage
    history, limited_chunks              the threads that decode, with `changed`
    section, published, counts, omissions, doubt_until  the segmentation stage
    diarization, final_segments          the speaker stage
    notices                              any stage
"""

import threading
import time
from bisect import insort
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt
from typing_extensions import Self

from whisperbatch.errors import WhisperBatchError
from whisperbatch.features.levels import level_speech
from whisperbatch.features.measures import is_noisy
from whisperbatch.protocols import Encoded, FeatureExtractor, FeatureType
from whisperbatch.types import (
    WINDOW_FRAMES,
    Chunk,
    Diarization,
    Features,
    LanguageScores,
    Notices,
    Omission,
    SectionSound,
    Segment,
    Transcript,
    to_seconds,
)

# Whisper was trained on windows of 30 s. Measured on 80 clips of 7 to 12 s (in three languages, and
# with up to 10 s of silence): 5 s of silence after the clip gave as few errors as padding to 30 s,
# while with 1 to 3 s up to 8 of the clips failed. The encoder window is a multiple of
# `WINDOW_STEP`, so that many rows have windows of the same size and can share a batch.
MIN_PADDING: Final = 500  # feature frames of silence after a row, or up to the end of 30 s
WINDOW_STEP: Final = 500  # feature frames
# On a GPU, a call takes about 0.2 s, and each of its rows about 6 ms: more rows share a call.
GPU_WINDOW_STEP: Final = 1500


@dataclass(frozen=True, slots=True)
class Decision:
    """The language decided for a recording.

    Attributes:
        language: Whisper's code.
        probability: from 0 to 1; 1 for a given language.
        probabilities: mean probability of each language over all voters.
    """

    language: str
    probability: float
    probabilities: Mapping[str, float] = field(default_factory=dict, compare=False)


@dataclass(slots=True)
class LanguageState:
    """The latest decision for a recording, and the scores that decisions are made from.

    Attributes:
        decision: the latest decision; None before the first.
        final: whether later scores never revise the decision.
        voters: number of first chunks whose scores made the latest revision; 0 before the first
            revision.
        scores: language scores of each chunk that was scored, by index.
    """

    decision: Decision | None = None
    final: bool = False
    voters: int = 0
    scores: dict[int, LanguageScores] = field(default_factory=dict)


@dataclass(slots=True)
class SwitchingState:
    """The labels of a recording's rows (code-switching).

    A label is the language of a row as a whole; a cut row has parts in other languages.

    Attributes:
        labels: labels of the first waiting rows of the section.
        last_label: the last label given in the section.
        previous_label: label of the row before the first waiting row.
        last_language: language of the row or part yielded last.
        count: number of rows yielded.
        windows: number of windows scored.
        seconds: seconds of speech of each language.
        weighted_seconds: seconds of speech times the probability of the language.
    """

    labels: list[str] = field(default_factory=list)
    last_label: str | None = None
    previous_label: str | None = None
    last_language: str | None = None
    count: int = 0
    windows: int = 0
    seconds: dict[str, float] = field(default_factory=dict)
    weighted_seconds: dict[str, float] = field(default_factory=dict)

    def begin_section(self) -> None:
        """Forget the labels: those of a section do not depend on the sections before it."""
        self.labels = []
        self.last_label = self.previous_label = self.last_language = None


@dataclass(slots=True)
class History:
    """The last tokens of a section's text, added chunk by chunk.

    Attributes:
        index: index of the last chunk that has added its tokens; -1 before the first.
        section: section of this chunk.
        tokens: text tokens of the section's chunks so far; only the last tokens are stored.
    """

    index: int = -1
    section: int = -1
    tokens: tuple[int, ...] = ()


class Reader(Protocol):
    """The reader of a recording (`audio.reader.AudioReader`)."""

    position: int
    duration: float | None
    is_borrowed: bool
    notices: Notices

    def close(self) -> object:
        """Stop reading. Thread-safe."""
        ...


@dataclass(slots=True, eq=False)
class RecordingState:
    """What a run knows about one recording.

    Attributes:
        number: number of the recording in the run.
        reader: the reader; None before the recording is open.
        opened: whether the recording was opened, or could not be opened.
        was_read: whether the recording was read to its end.
        source: name of the recording; None before it is opened.
        checked: samples of each section decoded for a second opinion, because the VAD rejected
            them.
        recovered: samples that count as speech only because of the second opinion.
        sounds: what the VAD found in each section that was read, or in each clip of a section, in
            order, and the samples of the section that were checked since the clip before.
        language: decisions of the language stage, which is ahead of the results.
        switching: labels of the rows, with `multilingual`.
        history: text of the chunks so far, with `condition_on_previous_text`.
        changed: notified when `history` changes.
        section: section of the last row whose result was returned; -1 before the first.
        published: the decision for the chunks whose results were returned so far. None before the
            first result, unless the language is given.
        segments: number of segments returned.
        sections_with_text: numbers of the sections of these segments.
        omissions: removed text and speech without text.
        notices: facts that the user must know; those of the reader, once the recording is open.
        chunks: number of chunks decoded.
        redecoded: number of chunks that were decoded again because their text failed the audit, was
            improbable in noise, or was in another language than the speech (`multilingual`).
        doubt_until: end of the last row's speech, and the language that this speech sounds like,
            if its language is doubtful.
        limited_chunks: number of chunks whose retries were stopped by the limit of work.
        diarization: the speakers and their turns, at the end of the recording, with `diarize`.
        final_segments: all segments with their final speakers, at the end, with `diarize`.
        begun: when the recording began, of `time.monotonic`.
    """

    number: int
    reader: Reader | None = None
    opened: bool = False
    was_read: bool = False
    source: str | None = None
    checked: Counter[int] = field(default_factory=Counter)
    recovered: int = 0
    sounds: list[tuple[SectionSound, int]] = field(default_factory=list)
    language: LanguageState = field(default_factory=LanguageState)
    switching: SwitchingState = field(default_factory=SwitchingState)
    history: History = field(default_factory=History)
    changed: threading.Condition = field(default_factory=threading.Condition, repr=False)
    section: int = -1
    published: Decision | None = None
    segments: int = 0
    sections_with_text: set[int] = field(default_factory=set)
    omissions: list[Omission] = field(default_factory=list)
    notices: Notices = field(default_factory=lambda: Notices(""), repr=False)
    chunks: int = 0
    redecoded: int = 0
    doubt_until: tuple[int, str] | None = None
    limited_chunks: int = 0
    diarization: Diarization | None = None
    final_segments: tuple[Segment, ...] | None = None
    begun: float = field(default_factory=time.monotonic)

    @classmethod
    def beginning(cls, number: int, given: Decision | None) -> "RecordingState":
        """Return the state of a recording that begins; `given` is the decision of the user."""
        return cls(number, language=LanguageState(given, given is not None), published=given)

    @property
    def duration(self) -> float:
        """Seconds that were read so far."""
        return to_seconds(self.reader.position) if self.reader else 0.0

    def transcript(self, segments: Iterable[Segment]) -> Transcript:
        """Return the transcript of the recording, which has ended."""
        decision = self.published
        return Transcript(
            segments=tuple(segments) if self.final_segments is None else self.final_segments,
            language=decision.language if decision else None,
            language_probability=decision.probability if decision else 0.0,
            duration=self.duration,
            source=self.source or "",
            omissions=tuple(self.omissions),
            chunks=self.chunks,
            redecoded=self.redecoded,
            checked_duration=to_seconds(self.checked.total()),
            recovered_duration=to_seconds(self.recovered),
            diarization=self.diarization,
            notices=self.notices.all(),
        )

    def add_check(self, section: int, checked: int, recovered: int) -> None:
        """Add the samples of a second opinion. Thread-safe."""
        with self.changed:
            self.checked[section] += checked
            self.recovered += recovered

    def add_sound(self, sound: SectionSound) -> None:
        """Add a section, or a clip of it, when its checks are complete. Thread-safe."""
        with self.changed:
            before = sum(checked for each, checked in self.sounds if each.number == sound.number)
            item = (sound, self.checked[sound.number] - before)
            insort(self.sounds, item, key=lambda item: item[0].start)

    def is_opening(self) -> bool:
        """Return whether the source is not open yet, and has not failed."""
        return self.reader is None and not self.opened

    def is_borrowed(self) -> bool:
        """Return whether a file object of the caller is being read."""
        return self.reader is not None and self.reader.is_borrowed and not self.was_read


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
            of a later call, and when the row has been encoded once. Most rows are decoded once. It
            has no effect with an engine that encodes again (`EngineTraits.encodes_again`).
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

    def padded_window(self, padding: int, step: int) -> int:
        """Return the feature frames of the row and silence: a multiple of `step`, at most 30 s.

        Args:
            padding: frames of silence, at least, or up to the end of 30 s.
            step: frames.
        """
        size = int(self.features.shape[1]) + padding
        return min(-(-size // step) * step, WINDOW_FRAMES)

    def prepare(self, feature_type: FeatureType, window: int) -> Encoding:
        """Return the row's encoding, with the features that its encoder call needs.

        Args:
            feature_type: type that the engine computes with.
            window: feature frames in the encoder window. Rows of one engine call have the same
                window.
        """
        encoding = self.encoding
        if not encoding.frames:
            encoding.frames = window
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
