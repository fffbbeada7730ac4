"""Audio: samples, spans of a recording, chunks, and sections.

Time inside the pipeline is an integer number of samples at 16 kHz. Sections are the parts of a long
recording that can be processed alone, with the same result:

    nominal boundaries 0           5 min        10 min       15 min
    recording          |-----------^--|----------^--|--------^--------|
    boundaries         0              1             2        3
    sections           [== section 0 =][ section 1 =][== 2 ==][== 3 ==]
    Span(1, 3)                         [=====================]

Boundary k lies within `SEARCH` samples after its nominal position, `k * SECTION`. The boundary is
found from the audio around it alone. Everything that depends on earlier audio or text begins again
at a boundary. docs/explanation/sections.md explains the rules.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from pathlib import Path
from typing import Any, BinaryIO, Final, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from whisperbatch.text.messages import description, short_repr

SAMPLING_RATE: Final = 16_000  # Hz, the rate of Whisper's input


CHUNK_RULES: Final = 3
"""Version of the rules by which audio becomes chunks. It changes whenever recordings get
other chunks; version 1 had no sections, version 2 always had the plain mix of channels and lost
speech under steady sound. Parts with
different versions must not be joined."""

SEARCH: Final = 960 * 512  # samples (30.72 s) in which a boundary is searched
WARM_UP: Final = 512 * 512  # samples (16.384 s) that the VAD reads before a nominal boundary
# Samples after a search that the VAD needs for the probabilities in it: one block for steady sound,
# three for gain control and four for calibration.
VAD_MARGIN: Final = 8 * 64 * 512

Samples: TypeAlias = npt.NDArray[np.float32]
"""Mono audio at 16 kHz, shape (n_samples,), nominally from -1 to 1."""

Features: TypeAlias = npt.NDArray[np.float32]
"""Normalised log-mel spectrogram, shape (n_mels, n_frames), one feature frame every 10 ms."""

WINDOW: Final = 30 * SAMPLING_RATE  # samples in Whisper's 30 s window: the longest chunk
HOP: Final = 160  # samples from one feature frame to the next: 10 ms
WINDOW_FRAMES: Final = WINDOW // HOP  # feature frames in Whisper's window: 3000


def to_samples(seconds: float) -> int:
    """Convert seconds to samples, rounded to the nearest sample."""
    return round(seconds * SAMPLING_RATE)


def to_seconds(samples: int) -> float:
    """Convert samples to seconds, without rounding."""
    return samples / SAMPLING_RATE


# Samples between two nominal boundaries. A multiple of the VAD frame (512 samples), as are the
# lengths below: the VAD frames of all sections are then frames of one grid.
SECTION: Final = to_samples(300.0)
# Samples after them that the mix of several channels needs (`audio.mixing`): a cell and its
# look-ahead.
MIX_MARGIN: Final = to_samples(4.0)


@dataclass(frozen=True, slots=True)
class Span:
    """A range of sections of a recording: those that begin in a range of nominal boundaries.

    A section belongs to the nominal boundary at or before its first sample. Spans that share their
    ends therefore have every section once, even if the recording is shorter than planned: a span
    after its end has no sections.

    Attributes:
        first: number of the first nominal boundary.
        last: number of the nominal boundary after the span; None: to the end of the recording.
    """

    first: int = 0
    last: int | None = None

    def __post_init__(self) -> None:
        if self.first < 0 or (self.last is not None and self.last <= self.first):
            raise ValueError(f"a span needs 0 <= first < last, not {self.first} and {self.last}")

    @property
    def start(self) -> int:
        """The first sample of the recording that the result can depend on."""
        return max(self.first * SECTION - WARM_UP, 0)

    @property
    def end(self) -> int | None:
        """The sample after the last that the result can depend on; None: to the end.

        With `clip_timestamps`, see `end_of_clips`.
        """
        return None if self.last is None else self.last * SECTION + SEARCH + VAD_MARGIN + MIX_MARGIN

    @property
    def end_of_clips(self) -> int | None:
        """`end` with `clip_timestamps`: a clip is not divided in its first `SECTION` samples."""
        return None if self.end is None else self.end + SECTION

    def has(self, section: int) -> bool:
        """Return whether the span has the section with this number."""
        return self.first <= section and self.begins_before_end(section)

    def begins_before_end(self, section: int) -> bool:
        """Return whether a section with this number begins before the end of the span."""
        return self.last is None or section < self.last


@dataclass(frozen=True, slots=True)
class SectionSound:
    """What the VAD found in a section, or in a clip of a section. Positions are samples.

    Attributes:
        number: number of the section.
        start: first sample, counted in the recording.
        end: the sample after the last.
        sound: number of samples that are no silence.
        speech: number of samples of speech.
    """

    number: int
    start: int
    end: int
    sound: int
    speech: int


WHOLE: Final = Span()
"""The span of a whole recording."""


def first_section(ranges: Sequence[tuple[float, float | None]]) -> int:
    """Return the number of the first section of a recording with these `clip_timestamps`."""
    return to_samples(ranges[0][0]) // SECTION if ranges else 0


@dataclass(frozen=True, slots=True, eq=False)
class Audio:
    """Samples in memory, with their sampling rate.

    Attributes:
        samples: shape (n_samples,), float32 or int16. The array is never modified.
        sampling_rate: in Hz.
    """

    samples: npt.NDArray[np.float32] | npt.NDArray[np.int16]
    sampling_rate: int = SAMPLING_RATE

    def __repr__(self) -> str:
        kind = getattr(self.samples, "dtype", type(self.samples).__name__)
        shape = getattr(self.samples, "shape", "")
        return description(self, f"{kind} samples {shape}", f"sampling_rate={self.sampling_rate}")


@dataclass(frozen=True, slots=True, eq=False)
class SpanSource:
    """A recording of which only a span is transcribed. Times are those of the whole recording.

    Attributes:
        source: the recording.
        span: its sections that are transcribed.
    """

    source: "Source"
    span: Span


@dataclass(frozen=True, slots=True, eq=False)
class DeferredSource:
    """A recording that is chosen when the pipeline begins it.

    Attributes:
        choose: returns the recording; an error that it raises ends the recording. Called when the
            recording is opened, by the thread that reads it.
    """

    choose: Callable[[], "Source"]


class SupportsArray(Protocol):
    """Samples of another package, such as a tensor of PyTorch, JAX or xarray."""

    def __array__(self) -> npt.NDArray[Any]:
        """Return the samples as an array of NumPy."""
        ...


Source: TypeAlias = (
    str
    | Path
    | bytes
    | BinaryIO
    | Audio
    | npt.NDArray[np.float32]
    | npt.NDArray[np.int16]
    | SupportsArray
    | SpanSource
    | DeferredSource
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
        cleaned: the samples without steady sound such as hum, shape (n_samples,): shows where the
            audio is quiet. None if steady sound is not most of the block.
    """

    samples: Samples
    probabilities: npt.NDArray[np.float32]
    cleaned: Samples | None = None

    @property
    def varying(self) -> Samples:
        """The samples without steady sound, if it is most of the block; otherwise the samples."""
        return self.samples if self.cleaned is None else self.cleaned

    def part(self, start: int, end: int, hop: int) -> "SpeechFrames":
        """Return the samples from `start` to before `end`, and their frames of `hop` samples."""
        cleaned = None if self.cleaned is None else self.cleaned[start:end]
        probabilities = self.probabilities[start // hop : -(-end // hop)]
        return SpeechFrames(self.samples[start:end], probabilities, cleaned)


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
        section: number of the section that contains the chunk (see above).
        channel: number of the only channel of the chunk, if several channels speak at the same
            time; None for the audio of all channels.
        completes: whether no later chunk has speech of the same time in another channel.
    """

    recording: int
    index: int
    pieces: tuple[SpeechSpan, ...]
    speech: tuple[SpeechSpan, ...]
    samples: Samples = field(repr=False)
    section: int = 0
    channel: int | None = None
    completes: bool = True

    def __repr__(self) -> str:
        return short_repr(self, "recording", "index", "start", "end", "section", "channel")

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
