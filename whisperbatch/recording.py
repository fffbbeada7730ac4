"""The state of one recording: everything that a run knows about it, except its rows.

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
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from whisperbatch.types import (
    Diarization,
    LanguageScores,
    Notices,
    Omission,
    SectionSound,
    Segment,
    Transcript,
    to_seconds,
)


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
        checked: samples decoded for a second opinion, because the VAD rejected them.
        recovered: samples that count as speech only because of the second opinion.
        sounds: what the VAD found in each section that was read, and the samples of the section
            that were checked.
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
    """

    number: int
    reader: Reader | None = None
    opened: bool = False
    was_read: bool = False
    source: str | None = None
    checked: int = 0
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

    @classmethod
    def beginning(cls, number: int, given: Decision | None) -> "RecordingState":
        """Return the state of a recording that begins; `given` is the decision of the user."""
        return cls(number, language=LanguageState(given, given is not None), published=given)

    @property
    def duration(self) -> float:
        """Seconds that were read so far."""
        return to_seconds(self.reader.position) if self.reader else 0.0

    def transcript(self, segments: Iterable[Segment]) -> Transcript:
        """Return the transcript of the recording, which has ended.

        Args:
            segments: that the run has yielded for the recording.
        """
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
            checked_duration=to_seconds(self.checked),
            recovered_duration=to_seconds(self.recovered),
            diarization=self.diarization,
            notices=self.notices.all(),
        )

    def add_sound(self, sound: SectionSound) -> None:
        """Add a section, or a clip of it, when it was read and its checks are complete."""
        self.sounds.append((sound, self.checked - sum(checked for _, checked in self.sounds)))

    def is_opening(self) -> bool:
        """Return whether the source is not open yet, and has not failed."""
        return self.reader is None and not self.opened

    def is_borrowed(self) -> bool:
        """Return whether a file object of the caller is being read."""
        return self.reader is not None and self.reader.is_borrowed and not self.was_read
