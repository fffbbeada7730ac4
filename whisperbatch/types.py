"""The values that stages hand to each other and to the user: frozen, slotted, compared by value.

Inside the pipeline time is an integer count of samples at 16 kHz, counted from the start of the
recording. Seconds (floats) appear in `Segment`, `Word` and `Transcript` alone.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from pathlib import Path
from typing import BinaryIO, Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from whisperbatch.text.languages import UNSPACED

Samples: TypeAlias = npt.NDArray[np.float32]
"""Mono audio at 16 kHz, shape (n_samples,), nominally within -1 and 1."""

Features: TypeAlias = npt.NDArray[np.float32]
"""Normalised spectrogram, shape (n_mels, n_frames), one frame every 10 ms."""

SAMPLING_RATE: Final = 16_000  # Hz, Whisper's
WINDOW: Final = 30 * SAMPLING_RATE  # samples in Whisper's window: no chunk is ever longer
HOP: Final = 160  # samples from one feature frame to the next: 10 ms
WINDOW_FRAMES: Final = WINDOW // HOP  # feature frames in a window: 3000


def to_samples(seconds: float) -> int:
    """Seconds to samples, rounded to the nearest."""
    return round(seconds * SAMPLING_RATE)


def to_seconds(samples: int) -> float:
    """Samples to seconds, exactly."""
    return samples / SAMPLING_RATE


@dataclass(frozen=True, slots=True, eq=False)
class Audio:
    """Samples that are already in memory, with the rate at which they were taken.

    Attributes:
        samples: shape (n_samples,), float32 or int16. It is never modified.
        sampling_rate: in Hz.
    """

    samples: npt.NDArray[np.float32] | npt.NDArray[np.int16]
    sampling_rate: int = SAMPLING_RATE


Source: TypeAlias = (
    str | Path | bytes | BinaryIO | Audio | npt.NDArray[np.float32] | npt.NDArray[np.int16]
)
"""What can be transcribed: a path, "-" for standard input, the bytes of a media file, an open
binary file or pipe, or samples."""


@dataclass(frozen=True, slots=True)
class SpeechSpan:
    """A stretch of the recording: samples `start` up to, not including, `end`.

    Attributes:
        start: its first sample.
        end: the sample after its last.
        before: samples at its start that are margin, not speech. Margins make no difference
            between two spans.
        after: likewise at its end.
    """

    start: int
    end: int
    before: int = field(default=0, compare=False)
    after: int = field(default=0, compare=False)

    @property
    def length(self) -> int:
        """In samples."""
        return self.end - self.start

    def moved(self, by: int) -> "SpeechSpan":
        """The same, `by` samples later."""
        return replace(self, start=self.start + by, end=self.end + by)

    def within(self, start: int, end: int) -> "SpeechSpan":
        """What of it lies from `start` to `end`: of no length where nothing does."""
        first = min(max(self.start, start), end)
        last = max(min(self.end, end), first)
        before = max(self.before - (first - self.start), 0)
        return SpeechSpan(first, last, before, max(self.after - (self.end - last), 0))


def spoken(speech: Sequence[SpeechSpan]) -> float:
    """Seconds of speech."""
    return to_seconds(sum(span.length for span in speech))


@dataclass(frozen=True, slots=True, eq=False)
class SpeechFrames:
    """A block of audio with the probability of speech in each of its frames.

    Attributes:
        samples: shape (n_samples,). Blocks follow each other without gap or overlap.
        probabilities: shape (ceil(n_samples / hop),), float32; only the last block of a
            recording may end within a frame.
    """

    samples: Samples
    probabilities: npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class Chunk:
    """At most 30 s of one recording: one row of a batch.

    Its audio is that of its pieces, one after the other. Where long pauses are kept, the
    default, there is one piece. `recording_time` is the one map from chunk to recording:

        recording  ----[=== piece 0 ===]----------[= piece 1 =]-----
        chunk          [=== piece 0 ===][= piece 1 =]

    Attributes:
        recording: number of the recording in this run, from 0.
        index: number of the chunk in its recording, from 0.
        pieces: the stretches of the recording it holds, in order, without overlap.
        speech: the speech spans inside them, in recording samples, in order.
        samples: shape (sum of the pieces' lengths,).
    """

    recording: int
    index: int
    pieces: tuple[SpeechSpan, ...]
    speech: tuple[SpeechSpan, ...]
    samples: Samples = field(repr=False)

    @property
    def length(self) -> int:
        """In samples, at most `WINDOW`."""
        return len(self.samples)

    @property
    def speech_duration(self) -> float:
        """Seconds of speech in it, the margins of the spans counted."""
        return spoken(self.speech)

    @property
    def start(self) -> int:
        """First sample in the recording."""
        return self.pieces[0].start

    @property
    def end(self) -> int:
        """Sample after its last in the recording."""
        return self.pieces[-1].end

    def recording_time(self, sample: int) -> int:
        """Where sample `sample` of the chunk lies in the recording.

        Monotone and exact. At a joint it is the start of the later piece. Outside the chunk it
        is the chunk's nearest end.
        """
        if sample >= self.length:
            return self.end
        joints = [0, *accumulate(piece.length for piece in self.pieces)]
        number = bisect_right(joints, max(sample, 0)) - 1
        return self.pieces[number].start + max(sample, 0) - joints[number]

    def chunk_time(self, sample: int) -> int:
        """Where sample `sample` of the recording lies in the chunk; in a gap, at the joint."""
        position = 0
        for piece in self.pieces:
            if sample < piece.end:
                return position + max(sample - piece.start, 0)
            position += piece.length
        return position


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """What the engine decoded from one row.

    Attributes:
        tokens: ids, without the prompt and without the end of text.
        avg_logprob: mean natural-log probability a token, the end of text counted.
        no_speech_prob: probability of the no-speech token at the start of transcript.
    """

    tokens: tuple[int, ...]
    avg_logprob: float
    no_speech_prob: float


@dataclass(frozen=True, slots=True)
class Word:
    """A word with its times in the recording, in seconds.

    Attributes:
        start: when it begins.
        end: when it ends.
        word: its text, with the space before it where the language writes one.
        probability: mean probability of its tokens, from 0 to 1.
    """

    start: float
    end: float
    word: str
    probability: float


@dataclass(frozen=True, slots=True)
class Segment:
    """A sentence or phrase, with its times in the recording, in seconds.

    Attributes:
        id: number in its recording, from 0.
        start: when its first word begins.
        end: when its last word ends.
        text: without surrounding space.
        language: Whisper's code of the language it was decoded in.
        avg_logprob: mean natural-log probability a token, of the chunk it comes from.
        no_speech_prob: probability that there is no speech, of the chunk it comes from.
        compression_ratio: UTF-8 bytes over zlib bytes, of the chunk it comes from.
        temperature: at which it was decoded: 0 unless it was sampled.
        words: with `word_timestamps=True`, otherwise None.
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


Reason = Literal["loop", "too fast", "no speech", "boilerplate", "prompt", "script", "missed"]


@dataclass(frozen=True, slots=True)
class Omission:
    """Text that was decoded and is not in the transcript, or speech that gave no text.

    Attributes:
        start: in seconds of the recording.
        end: likewise.
        text: what was decoded; empty where speech was missed.
        reason: "loop" repeats the words before it; "too fast" is more than can be said in its
            time; "no speech" was decoded where nobody speaks; "boilerplate" is a stock phrase
            that Whisper makes of music and noise; "prompt" was leaked from the prompt; "script"
            has letters of a script that its language is not written in; "missed" is speech that
            no words were found for.
        score: how strong the evidence is, in the reason's own measure: times said; characters
            a second; no-speech probability; share of the time without words; words; letters;
            seconds of speech.
    """

    start: float
    end: float
    text: str
    reason: Reason
    score: float


@dataclass(frozen=True, slots=True)
class Transcript:
    """A recording's text.

    Attributes:
        segments: in order; empty where there is no speech.
        language: the language given or detected; None where there is no speech to detect it
            from.
        language_probability: of the language detected; 1.0 where it was given, 0.0 where it
            is None.
        duration: of the recording (of what was read of it), in seconds.
        source: the recording's name.
        omissions: what was decoded and left out, and speech that no words were found for, in order.
        chunks: how many chunks the recording was cut into.
        redecoded: how many of them were decoded more than once.
    """

    segments: tuple[Segment, ...]
    language: str | None
    language_probability: float
    duration: float
    source: str
    omissions: tuple[Omission, ...] = ()
    chunks: int = 0
    redecoded: int = 0

    @property
    def text(self) -> str:
        """All segments, joined as their languages are written."""
        return join_texts(self.segments)


@dataclass(frozen=True, slots=True)
class LanguageWindow:
    """A stretch of the recording that was listened to for its language, in seconds.

    Attributes:
        start: of its first speech.
        end: of its last.
        language: the most probable one.
        probability: of it.
    """

    start: float
    end: float
    language: str
    probability: float


@dataclass(frozen=True, slots=True)
class LanguageScores:
    """What was heard in one place.

    Attributes:
        probabilities: of each language.
        seconds: of speech there.
    """

    probabilities: Mapping[str, float]
    seconds: float


@dataclass(frozen=True, slots=True)
class LanguageDetection:
    """Which language a recording is in.

    Attributes:
        language: Whisper's code; None where nobody speaks.
        probability: mean over the windows, each counted by its seconds of speech; 0.0 where
            nobody speaks.
        probabilities: the same for each language, the most probable first.
        windows: what was listened to, in order.
        reason: why nothing had to be listened to, or nothing could be; otherwise empty.
    """

    language: str | None
    probability: float
    probabilities: Mapping[str, float]
    windows: tuple[LanguageWindow, ...] = ()
    reason: str = ""


def join_texts(segments: tuple[Segment, ...]) -> str:
    """Segment texts as one string: a space between two, none in unspaced languages."""
    parts: list[str] = []
    for segment in segments:
        if parts and segment.language not in UNSPACED:
            parts.append(" ")
        parts.append(segment.text)
    return "".join(parts)
