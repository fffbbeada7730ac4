"""Results: the text of a recording, its language, who speaks when, and what its user must know.

Time is in seconds.
"""

import logging
import os
import threading
import warnings
from collections.abc import Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, overload

import numpy as np
import numpy.typing as npt
from typing_extensions import Self, Unpack

from whisperbatch.errors import MissingExtraError
from whisperbatch.text.languages import UNSPACED
from whisperbatch.text.messages import brief, brief_name, counted, description, short_repr
from whisperbatch.types.records import Record, field_value, iterate, without_path
from whisperbatch.types.serialization import from_values

if TYPE_CHECKING:
    from whisperbatch.writers.options import FileKeywords, FileOptions, SubtitleKeywords


@dataclass(frozen=True, slots=True, repr=False)
class LanguageWindow(Record):
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


@dataclass(frozen=True, slots=True, repr=False)
class LanguageDetection(Record):
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

    def __repr__(self) -> str:
        return short_repr(self, "language", "probability", "windows", "reason")

    def _repr_html_(self) -> str:
        """Return a table of the most probable languages, for a notebook."""
        from whisperbatch.writers.notebook import languages_html  # noqa: PLC0415 - see `Record`

        return languages_html(self)


NoticeKind = Literal["channels", "track", "time", "damaged", "incomplete", "no speech", "language"]

MAX_SEGMENTS: Final = 3  # in the repr of a transcript, which has room for 40 characters of text
MERGED_GAP: Final = 1.0  # seconds between two ranges of the same notice that become one range

SILENT: Final = "the audio is silent; check where it comes from, and other tracks and channels"
# Seconds. Shorter ranges without speech are reported only if the whole transcript is empty: music
# before a talk, or the rest of a recording after its last section, is nothing to know about.
LONG_RANGE: Final = 60.0

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, repr=False)
class Notice(Record):
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
        # sums of the lengths of frames: their last digits depend on the sizes of the frames
        start, end = round(start, 7), round(end, 7)
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


@dataclass(frozen=True, slots=True, repr=False)
class Word(Record):
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

    def __repr__(self) -> str:
        return short_repr(self, "start", "end", "word", "probability", "speaker")

    @overload
    def __getitem__(self, name: Literal["start", "end", "probability"]) -> float: ...
    @overload
    def __getitem__(self, name: Literal["word"]) -> str: ...
    @overload
    def __getitem__(self, name: Literal["speaker"]) -> str | None: ...
    @overload
    def __getitem__(self, name: Literal["speaker_confidence"]) -> float | None: ...
    @overload
    def __getitem__(self, name: Literal["other_speakers"]) -> tuple[str, ...]: ...
    def __getitem__(self, name: str) -> object:
        return field_value(self, name)


@dataclass(frozen=True, slots=True, repr=False)
class Segment(Record):
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
        words: the words, if the recording was transcribed with `word_timestamps=True`; None
            otherwise: transcribe(..., word_timestamps=True) gives them.
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

    def __repr__(self) -> str:
        names = ("id", "start", "end", "text", "language", "words", "speaker", "provisional")
        return short_repr(self, *names)

    @overload
    def __getitem__(self, name: Literal["id"]) -> int: ...
    @overload
    def __getitem__(
        self,
        name: Literal[
            "start",
            "end",
            "avg_logprob",
            "no_speech_prob",
            "compression_ratio",
            "temperature",
        ],
    ) -> float: ...
    @overload
    def __getitem__(self, name: Literal["text", "language"]) -> str: ...
    @overload
    def __getitem__(self, name: Literal["words"]) -> tuple[Word, ...] | None: ...
    @overload
    def __getitem__(self, name: Literal["speaker"]) -> str | None: ...
    @overload
    def __getitem__(self, name: Literal["speaker_confidence"]) -> float | None: ...
    @overload
    def __getitem__(self, name: Literal["other_speakers"]) -> tuple[str, ...]: ...
    @overload
    def __getitem__(self, name: Literal["provisional"]) -> bool: ...
    def __getitem__(self, name: str) -> object:
        return field_value(self, name)


Reason = Literal["loop", "too fast", "no speech", "boilerplate", "prompt", "script", "missed"]


@dataclass(frozen=True, slots=True, repr=False)
class Omission(Record):
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


@dataclass(frozen=True, slots=True, repr=False)
class Turn(Record):
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


@dataclass(frozen=True, slots=True, repr=False)
class Diarization(Record):
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

    def __repr__(self) -> str:
        return short_repr(self, "source", "duration", "speakers", "turns")

    @property
    def speakers(self) -> tuple[str, ...]:
        """The names of the speakers, in order of their first turns."""
        return tuple(dict.fromkeys(turn.speaker for turn in self.turns))


@dataclass(frozen=True, slots=True, repr=False)
class Transcript(Record):
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

    @property
    def words(self) -> tuple[Word, ...]:
        """All words in order; empty without `word_timestamps=True`."""
        return tuple(word for segment in self.segments for word in segment.words or ())

    def __repr__(self) -> str:
        text = " ".join(segment.text for segment in self.segments[:MAX_SEGMENTS])
        ending = " ..." if len(self.segments) > MAX_SEGMENTS else ""
        return description(
            self,
            brief_name(self.source),
            f"{self.duration:.1f} s",
            f"language={self.language!r}",
            counted(self.segments, "segment"),
            counted(self.speakers, "speaker") if self.diarization else "",
            counted(self.omissions, "omission") if self.omissions else "",
            "" if self.is_complete else "incomplete",
            brief(text + ending) if self.segments else "",
        )

    def __len__(self) -> int:
        """Return the number of segments."""
        return len(self.segments)

    def __bool__(self) -> bool:
        """Return True, also without segments: a transcript of silence is a transcript."""
        return True

    def __iter__(self) -> Iterator[Segment]:
        """Iterate over the segments."""
        return iterate(self.segments, "a Transcript")

    if not TYPE_CHECKING:  # type checkers find the needless `await`

        def __await__(self) -> Generator[None, None, Self]:
            """Return the transcript, with a warning: it was complete before the `await`."""
            warnings.warn(
                "this await comes too late: transcribe() has blocked the event loop until its end; "
                "write await asr.submit(...), or await asyncio.to_thread(asr.transcribe, ...)",
                RuntimeWarning,
                stacklevel=2,
            )
            return self
            yield

    def __contains__(self, item: object) -> bool:
        """Return whether the transcript has a segment, or a field with this name."""
        return item in self.keys() if isinstance(item, str) else item in self.segments

    @overload
    def __getitem__(self, name: Literal["segments"]) -> tuple[Segment, ...]: ...
    @overload
    def __getitem__(self, name: Literal["words"]) -> tuple[Word, ...]: ...
    @overload
    def __getitem__(self, name: Literal["text", "source"]) -> str: ...
    @overload
    def __getitem__(self, name: Literal["language"]) -> str | None: ...
    @overload
    def __getitem__(
        self,
        name: Literal[
            "language_probability",
            "duration",
            "checked_duration",
            "recovered_duration",
            "missing_duration",
        ],
    ) -> float: ...
    @overload
    def __getitem__(self, name: Literal["omissions"]) -> tuple[Omission, ...]: ...
    @overload
    def __getitem__(self, name: Literal["notices"]) -> tuple[Notice, ...]: ...
    @overload
    def __getitem__(self, name: Literal["diarization"]) -> Diarization | None: ...
    @overload
    def __getitem__(self, name: Literal["speakers"]) -> tuple[str, ...]: ...
    @overload
    def __getitem__(self, name: Literal["redecoded"]) -> int: ...
    @overload
    def __getitem__(self, name: Literal["is_complete"]) -> bool: ...
    def __getitem__(self, name: str) -> object:
        return field_value(self, name)

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

    @without_path
    def to_json(self) -> str:
        """Return the text of a json file; its keys are those of OpenAI's `verbose_json` and more.

        Returns:
            The text, as `writers.render` makes it.

        Raises:
            WriteError: a field has the wrong type, or a time is not finite.
        """
        return self._render("json")

    @without_path
    def to_txt(self) -> str:
        """Return the text of a txt file: a line for each segment, and the names of the speakers.

        Returns:
            The text, as `writers.render` makes it.

        Raises:
            WriteError: a field has the wrong type, or a time is not finite.
        """
        return self._render("txt")

    @without_path
    def to_srt(self, **options: "Unpack[SubtitleKeywords]") -> str:
        """Return the text of an srt file.

        Args:
            **options: any field of `SubtitleOptions`.

        Returns:
            The text, as `writers.render` makes it.

        Raises:
            OptionError: an option is unknown or wrong, or has no effect.
            WriteError: a field has the wrong type, or a time is not finite.
        """
        return self._render("srt", **options)

    @without_path
    def to_vtt(self, **options: "Unpack[SubtitleKeywords]") -> str:
        """Return the text of a vtt file.

        Args:
            **options: any field of `SubtitleOptions`.

        Returns:
            The text, as `writers.render` makes it.

        Raises:
            OptionError: an option is unknown or wrong, or has no effect.
            WriteError: a field has the wrong type, or a time is not finite.
        """
        return self._render("vtt", **options)

    def save(
        self,
        path: str | os.PathLike[str],
        format: str | None = None,  # noqa: A002 - as in `write`
        options: "FileOptions | None" = None,
        **keywords: "Unpack[FileKeywords]",
    ) -> Path:
        """Write the transcript to a file, as `whisperbatch.write` does.

        For subtitles with exact times, transcribe with `word_timestamps=True`.

        Args:
            path: of the file; its suffix decides the format. An existing file is replaced, and its
                folder is made if necessary.
            format: a name such as "srt"; None takes the suffix of the path.
            options: `SubtitleOptions` for subtitles, `TableOptions` for csv and tsv.
            **keywords: any field of the options of this format.

        Returns:
            The path.

        Raises:
            OptionError: the format or an option is unknown, or has no effect.
            WriteError: the file cannot be written.
        """
        from whisperbatch.writers import write  # noqa: PLC0415 - writers imports types

        return write(self, path, format, options, **keywords)

    def to_pandas(self, *, words: bool = False) -> Any:  # noqa: ANN401 - pandas is optional
        """Return a `pandas.DataFrame` with a row for each segment, or for each word.

        The columns are the fields of `Segment` without `words`, or those of `Word`.

        Args:
            words: return a row for each word; needs `word_timestamps=True`.

        Returns:
            The table; it has its columns also without rows.

        Raises:
            MissingExtraError: pandas is not installed.
        """
        try:
            import pandas as pd  # noqa: PLC0415 - optional, and slow to import
        except ImportError as error:
            raise MissingExtraError(
                f"to_pandas needs pandas ({error}): pip install pandas"
            ) from error
        columns = [item.name for item in fields(Word if words else Segment) if item.name != "words"]
        items: tuple[Word | Segment, ...] = self.words if words else self.segments
        rows = [[getattr(item, name) for name in columns] for item in items]
        return pd.DataFrame(rows, columns=columns)

    def _render(self, name: str, **options: Any) -> str:  # noqa: ANN401 - of the format
        from whisperbatch.writers import render  # noqa: PLC0415 - writers imports types

        return render(self, name, **options)

    def _repr_html_(self) -> str:
        """Return the segments, with times, speakers and omissions, for a notebook."""
        from whisperbatch.writers.notebook import transcript_html  # noqa: PLC0415 - as above

        return transcript_html(self)
