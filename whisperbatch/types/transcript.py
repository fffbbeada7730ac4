"""Results: the text of a recording, its language, who speaks when, and what its user must know.

Time is in seconds.
"""

import logging
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt
from typing_extensions import Self

from whisperbatch.text.languages import UNSPACED
from whisperbatch.types.serialization import from_values, to_values


@dataclass(frozen=True, slots=True)
class LanguageWindow:
    """A stretch of the recording that was used to detect its language.

    Attributes:
        start: start of the first speech in the window, in seconds.
        end: end of the last speech in the window, in seconds.
        language: the most probable language of the window.
        probability: probability of `language`.
    """

    start: float
    end: float
    language: str
    probability: float


@dataclass(frozen=True, slots=True)
class LanguageScores:
    """The probability of each language in one window or row.

    Attributes:
        probabilities: probability of each language.
        seconds: seconds of speech that the probabilities come from.
    """

    probabilities: Mapping[str, float]
    seconds: float


@dataclass(frozen=True, slots=True)
class LanguageDetection:
    """The detected language of a recording.

    Attributes:
        language: Whisper's code; None if the recording has no speech.
        probability: mean over the windows, weighted by seconds of speech; 0.0 if there is none.
        probabilities: mean probability of each language, the most probable first.
        windows: the windows that were used, in order.
        reason: why no window was used, or empty.
    """

    language: str | None
    probability: float
    probabilities: Mapping[str, float]
    windows: tuple[LanguageWindow, ...] = ()
    reason: str = ""


NoticeKind = Literal["channels", "track", "time", "damaged", "incomplete", "no speech", "language"]

MERGED_GAP: Final = 1.0  # seconds between two ranges of the same notice that become one range

SILENT: Final = "the audio is silent; check the file, its other tracks and its channels"
# Seconds. Shorter ranges without speech are reported only if the whole transcript is empty: music
# before a talk, or the rest of a recording after its last section, is nothing to know about.
LONG_RANGE: Final = 60.0

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Notice:
    """A fact about a range of a recording that its user must know.

    Kinds:
        "channels": the channels were not averaged, or speech on them may be lost.
        "track": another audio track was chosen, or may have the speech.
        "time": time stamps of the file contradict each other; times may be wrong.
        "damaged": audio that could not be decoded; silence replaces it.
        "incomplete": audio that the file states and that is missing.
        "no speech": sound without text.
        "language": the language is doubtful.

    Attributes:
        kind: see above.
        start: start of the range in seconds of the recording.
        end: end of the range; at least `start`.
        text: one line without times: the fact, and a remedy if there is one.
    """

    kind: NoticeKind
    start: float
    end: float
    text: str


class Notices:
    """The notices of one recording. Thread-safe.

    Args:
        source: name of the recording, for the log.
    """

    def __init__(self, source: str) -> None:
        self._source = source
        self._notices: tuple[Notice, ...] = ()
        self._lock = threading.Lock()

    def add(self, kind: NoticeKind, start: float, end: float, text: str) -> None:
        """Add a notice. The log has one warning for each kind and text.

        Args:
            kind: see `Notice`.
            start: in seconds of the recording.
            end: in seconds.
            text: one line without times, so that equal facts have equal texts.
        """
        with self._lock:
            is_new = not any((n.kind, n.text) == (kind, text) for n in self._notices)
            self._notices = merged((*self._notices, Notice(kind, start, end, text)))
        if is_new:
            place = f"from {start:.2f} to {end:.2f} s" if end > start else f"at {start:.2f} s"
            log.warning("%s: %s%s", self._source, text, f" ({place})" if end else "")

    def all(self) -> tuple[Notice, ...]:
        """Return the notices so far, in order of their starts."""
        return self._notices


def merged(notices: Iterable[Notice]) -> tuple[Notice, ...]:
    """Return notices in order of their starts; those that repeat each other become one.

    Two notices of the same kind and text are one notice if at most `MERGED_GAP` seconds lie between
    them. The result does not depend on the order of the notices.
    """
    found: list[Notice] = []
    latest: dict[tuple[str, str], int] = {}  # kind and text: index of the latest notice
    for notice in sorted(notices, key=lambda each: (each.start, each.end, each.kind, each.text)):
        index = latest.get((notice.kind, notice.text))
        if index is not None and notice.start <= found[index].end + MERGED_GAP:
            found[index] = replace(found[index], end=max(found[index].end, notice.end))
        else:
            latest[notice.kind, notice.text] = len(found)
            found.append(notice)
    return tuple(found)


def concerns_empty_only(notice: Notice) -> bool:
    """Return whether a transcript has this notice only if it has no segments at all."""
    return notice.kind == "no speech" and (
        notice.text == SILENT or notice.end - notice.start < LONG_RANGE
    )


@dataclass(frozen=True, slots=True)
class Word:
    """A word with its times in the recording.

    Attributes:
        start: start time in seconds.
        end: end time in seconds.
        word: text of the word, with the space before the word if the language writes spaces.
        probability: mean probability of the word's tokens, from 0 to 1.
        speaker: who says the word, with `diarize=True`; otherwise None. If no turn covers the word,
            the speaker of the nearest turn. None if the recording has no turns.
        speaker_confidence: from 0 to 1; None without a speaker.
        other_speakers: who else speaks during the word.
    """

    start: float
    end: float
    word: str
    probability: float
    speaker: str | None = None
    speaker_confidence: float | None = None
    other_speakers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Segment:
    """A sentence (or what `segments` says) with its times in the recording.

    With text from several chunks, the probabilities are means, weighted by the characters from each
    chunk; the compression ratio and the temperature are the highest.

    Attributes:
        id: number of the segment in its recording, from 0.
        start: start of the first word, in seconds.
        end: end of the last word, in seconds.
        text: text without surrounding space.
        language: Whisper's code of the language of the text.
        avg_logprob: of the segment's chunk: mean natural-log probability per token.
        no_speech_prob: of the chunk: probability that there is no speech.
        compression_ratio: of the chunk's text: UTF-8 bytes divided by zlib-compressed bytes.
        temperature: sampling temperature; 0 for greedy and beam search.
        words: the words, with `word_timestamps=True`; otherwise None.
        speaker: who says most of the segment, with `diarize=True`; otherwise None.
        speaker_confidence: mean confidence of the words; None without a speaker.
        other_speakers: who else speaks during the segment.
        provisional: whether the speakers may still change: the segment comes from a stream that has
            not ended, and `diarize` is True.
    """

    id: int
    start: float
    end: float
    text: str
    language: str
    avg_logprob: float
    no_speech_prob: float
    compression_ratio: float
    temperature: float = 0.0
    words: tuple[Word, ...] | None = None
    speaker: str | None = None
    speaker_confidence: float | None = None
    other_speakers: tuple[str, ...] = ()
    provisional: bool = False


Reason = Literal["loop", "too fast", "no speech", "boilerplate", "prompt", "script", "missed"]


@dataclass(frozen=True, slots=True)
class Omission:
    """Text that was removed from the transcript, or speech without text.

    Reasons, with the meaning of their score:
        "loop": repeats the words before the text; number of repetitions.
        "too fast": more text than can be said in its time; characters per second.
        "no speech": no speech at the text's time; no-speech probability.
        "boilerplate": a phrase that Whisper produces on music and noise; uncovered fraction.
        "prompt": leaked from the prompt; number of words.
        "script": letters that the language is not written in; number of letters.
        "missed": speech for which no words were found; seconds of speech.

    Attributes:
        start: start time in seconds of the recording.
        end: end time in seconds of the recording.
        text: the removed text; empty for missed speech.
        reason: why the text is an omission, see above.
        score: strength of the evidence, see above.
    """

    start: float
    end: float
    text: str
    reason: Reason
    score: float


def unnamed_speaker(number: int) -> str:
    """Return the name of a speaker who has no name: of a channel, or of a voice."""
    return f"SPEAKER_{number:02d}"


@dataclass(frozen=True, slots=True)
class Turn:
    """A stretch of the recording in which one person speaks. Turns of several speakers may overlap.

    Attributes:
        start: start time in seconds.
        end: end time in seconds.
        speaker: name of the speaker, as in `Diarization.speakers`.
        confidence: from 0 to 1: how much closer the voice is to this speaker than to the others.
    """

    start: float
    end: float
    speaker: str
    confidence: float


@dataclass(frozen=True, slots=True)
class Diarization:
    """The speakers of a recording and their turns.

    Attributes:
        turns: in order of their start times. Turns of one speaker do not overlap.
        source: name of the recording.
        duration: seconds that were read of the recording.
        embeddings: the mean voice embedding of each speaker, shape (n_dimensions,), of length 1;
            empty if the diarizer has none.
        exclusive: turns of the dominant speaker at each time, without overlap, which decide who
            says a word; empty if `turns` decide. With `speaker="channel"`, the loudest speaker.
    """

    turns: tuple[Turn, ...]
    source: str = ""
    duration: float = 0.0
    embeddings: Mapping[str, npt.NDArray[np.float32]] = field(
        default_factory=dict, repr=False, compare=False
    )
    exclusive: tuple[Turn, ...] = field(default=(), repr=False)

    @property
    def speakers(self) -> tuple[str, ...]:
        """The names of the speakers, in order of their first turns."""
        return tuple(dict.fromkeys(turn.speaker for turn in self.turns))


@dataclass(frozen=True, slots=True)
class Transcript:
    """The text of a recording.

    Attributes:
        segments: in order; empty if the recording has no speech.
        language: given, or detected; None if there is no speech to detect the language from.
        language_probability: 1.0 for a given language, 0.0 if the language is None.
        duration: seconds that were read of the recording.
        source: name of the recording.
        omissions: removed text and speech without text, in order.
        chunks: number of chunks.
        redecoded: number of chunks that were decoded again because their text failed the audit, was
            improbable in noise, or was in another language than the speech (`multilingual`).
        checked_duration: seconds that the VAD rejects and the model checked.
        recovered_duration: seconds that count as speech only because of this check.
        diarization: the speakers and their turns, with `diarize=True`; otherwise None.
        notices: facts about the recording that you must know, such as a missing end.
    """

    segments: tuple[Segment, ...]
    language: str | None
    language_probability: float
    duration: float
    source: str
    omissions: tuple[Omission, ...] = ()
    chunks: int = 0
    redecoded: int = 0
    checked_duration: float = 0.0
    recovered_duration: float = 0.0
    diarization: Diarization | None = None
    notices: tuple[Notice, ...] = ()

    @property
    def is_complete(self) -> bool:
        """Whether the recording was read to its end, as far as its file states the end."""
        return all(item.kind != "incomplete" for item in self.notices)

    @property
    def missing_duration(self) -> float:
        """Seconds that the file states and that are missing: the recording was cut off.

        0 also if the recording breaks off and its file does not state its end; see `is_complete`.
        """
        missing = (item for item in self.notices if item.kind == "incomplete")
        return sum((item.end - item.start for item in missing), start=0.0)

    @property
    def speakers(self) -> tuple[str, ...]:
        """The names of the speakers, in order of their first turns; empty without `diarize`."""
        return self.diarization.speakers if self.diarization else ()

    @property
    def text(self) -> str:
        """All segments, with a space before each unless its language is written without spaces."""
        return "".join(
            (" " if number and segment.language not in UNSPACED else "") + segment.text
            for number, segment in enumerate(self.segments)
        )

    def to_dict(self) -> dict[str, Any]:
        """Return all fields as values that JSON can hold.

        Returns:
            The values, from which `from_dict` makes an equal transcript. Scores may be infinite or
            NaN, which Python's `json` writes and reads.
        """
        values: dict[str, Any] = to_values(self)
        return values

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Return the transcript that `to_dict` was called on.

        Args:
            values: of `to_dict`, also after a way through JSON. Fields with a default may be
                missing, as in transcripts that an earlier version has stored.

        Returns:
            The transcript.

        Raises:
            OptionError: a field is missing, unknown, or has another type, or a time is not finite.
        """
        return from_values(cls, values)
