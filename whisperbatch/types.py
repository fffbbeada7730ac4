"""The values that pass between the stages and to the user: frozen, slotted, compared by value.

Inside the pipeline, time is an integer: samples at 16 kHz from the start of the recording. Values
that users see (`Word`, `Segment`, `Omission`, `Transcript`, `LanguageWindow`) use seconds.
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
"""Mono audio at 16 kHz, shape (n_samples,), nominally from -1 to 1."""

Features: TypeAlias = npt.NDArray[np.float32]
"""Normalised log-mel spectrogram, shape (n_mels, n_frames), one feature frame every 10 ms."""

SAMPLING_RATE: Final = 16_000  # Hz, the rate of Whisper's input
WINDOW: Final = 30 * SAMPLING_RATE  # samples in Whisper's 30 s window: the longest chunk
HOP: Final = 160  # samples from one feature frame to the next: 10 ms
WINDOW_FRAMES: Final = WINDOW // HOP  # feature frames in Whisper's window: 3000


def to_samples(seconds: float) -> int:
    """Convert seconds to samples, rounded to the nearest sample."""
    return round(seconds * SAMPLING_RATE)


def to_seconds(samples: int) -> float:
    """Convert samples to seconds, without rounding."""
    return samples / SAMPLING_RATE


@dataclass(frozen=True, slots=True, eq=False)
class Audio:
    """Samples in memory, with their sampling rate.

    Attributes:
        samples: shape (n_samples,), float32 or int16. The array is never modified.
        sampling_rate: in Hz.
    """

    samples: npt.NDArray[np.float32] | npt.NDArray[np.int16]
    sampling_rate: int = SAMPLING_RATE


Source: TypeAlias = (
    str | Path | bytes | BinaryIO | Audio | npt.NDArray[np.float32] | npt.NDArray[np.int16]
)
"""A path, "-" (standard input), bytes of a media file, an open binary file or pipe, or samples."""


@dataclass(frozen=True, slots=True)
class SpeechSpan:
    """A stretch of the recording, with its margins.

    Attributes:
        start: first sample.
        end: the sample after the last.
        before: samples of margin (not speech) at the start; ignored in comparisons.
        after: samples of margin at the end; ignored in comparisons.
    """

    start: int
    end: int
    before: int = field(default=0, compare=False)
    after: int = field(default=0, compare=False)

    @property
    def length(self) -> int:
        """Length in samples."""
        return self.end - self.start

    def moved(self, by: int) -> "SpeechSpan":
        """Return the span moved `by` samples later."""
        return replace(self, start=self.start + by, end=self.end + by)

    def within(self, start: int, end: int) -> "SpeechSpan":
        """Return the part of the span from `start` to `end`; its length is 0 if none is there."""
        first = min(max(self.start, start), end)
        last = max(min(self.end, end), first)
        before = max(self.before - (first - self.start), 0)
        return SpeechSpan(first, last, before, max(self.after - (self.end - last), 0))


def speech_seconds(spans: Sequence[SpeechSpan]) -> float:
    """Return the total length of the spans in seconds, margins included."""
    return to_seconds(sum(span.length for span in spans))


@dataclass(frozen=True, slots=True, eq=False)
class SpeechFrames:
    """A block of audio with the speech probability of each VAD frame.

    Attributes:
        samples: shape (n_samples,). Blocks follow each other without gap or overlap.
        probabilities: shape (ceil(n_samples / hop),). Only the last block may end within a frame.
    """

    samples: Samples
    probabilities: npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class Chunk:
    """At most 30 s of one recording, decoded as one row of a batch.

    The audio of a chunk is the audio of its pieces, joined. There is one piece unless
    `max_silence` shortened a pause. `recording_time` maps a sample of the chunk to the recording:

        recording  ----[=== piece 0 ===]----------[= piece 1 =]-----
        chunk          [=== piece 0 ===][= piece 1 =]

    Attributes:
        recording: number of the recording in this run, from 0.
        index: number of the chunk in its recording, from 0.
        pieces: the stretches of the recording in this chunk, in order, without overlap.
        speech: the speech spans inside the pieces, in samples of the recording, in order.
        samples: shape (sum of the pieces' lengths,).
    """

    recording: int
    index: int
    pieces: tuple[SpeechSpan, ...]
    speech: tuple[SpeechSpan, ...]
    samples: Samples = field(repr=False)

    @property
    def length(self) -> int:
        """Length in samples, at most `WINDOW`."""
        return len(self.samples)

    @property
    def speech_duration(self) -> float:
        """Seconds of speech in the chunk, with the margins of the spans."""
        return speech_seconds(self.speech)

    @property
    def start(self) -> int:
        """First sample, counted in the recording."""
        return self.pieces[0].start

    @property
    def end(self) -> int:
        """The sample after the last, counted in the recording."""
        return self.pieces[-1].end

    def recording_time(self, sample: int) -> int:
        """Map a sample of the chunk to the recording: monotone and exact.

        Args:
            sample: counted in the chunk. A sample outside is mapped as the nearest end.

        Returns:
            The sample, counted in the recording; for a joint, the start of the later piece.
        """
        if sample >= self.length:
            return self.end
        joints = [0, *accumulate(piece.length for piece in self.pieces)]
        number = bisect_right(joints, max(sample, 0)) - 1
        return self.pieces[number].start + max(sample, 0) - joints[number]

    def chunk_time(self, sample: int) -> int:
        """Map a sample of the recording to the chunk.

        Args:
            sample: counted in the recording.

        Returns:
            The sample, counted in the chunk; for a sample between two pieces, their joint.
        """
        position = 0
        for piece in self.pieces:
            if sample < piece.end:
                return position + max(sample - piece.start, 0)
            position += piece.length
        return position


@dataclass(frozen=True, slots=True)
class Word:
    """A word with its times in the recording.

    Attributes:
        start: start time in seconds.
        end: end time in seconds.
        word: text of the word, with the space before the word if the language writes spaces.
        probability: mean probability of the word's tokens, from 0 to 1.
    """

    start: float
    end: float
    word: str
    probability: float


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
        redecoded: number of chunks that were retried because their text failed the audit.
        checked_duration: seconds that the VAD rejects and the model checked.
        recovered_duration: seconds that count as speech only because of this check.
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

    @property
    def text(self) -> str:
        """All segments, with a space before each unless its language is written without spaces."""
        return "".join(
            (" " if number and segment.language not in UNSPACED else "") + segment.text
            for number, segment in enumerate(self.segments)
        )


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
