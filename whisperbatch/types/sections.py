"""Sections: the parts of a long recording that can be processed alone, with the same result.

    nominal boundaries 0           5 min        10 min       15 min
    recording          |-----------^--|----------^--|--------^--------|
    boundaries         0              1             2        3
    sections           [== section 0 =][ section 1 =][== 2 ==][== 3 ==]
    Span(1, 3)                         [=====================]

Boundary k lies within `SEARCH` samples after its nominal position, `k * SECTION`. The boundary is
found from the audio around it alone. Everything that depends on earlier audio or text begins again
at a boundary.
docs/explanation/sections.md explains the rules. Time inside the pipeline is an integer number of
samples at 16 kHz.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

SAMPLING_RATE: Final = 16_000  # Hz, the rate of Whisper's input


def to_samples(seconds: float) -> int:
    """Convert seconds to samples, rounded to the nearest sample."""
    return round(seconds * SAMPLING_RATE)


def to_seconds(samples: int) -> float:
    """Convert samples to seconds, without rounding."""
    return samples / SAMPLING_RATE


CHUNK_RULES: Final = 3
"""Version of the rules by which audio becomes chunks. It changes whenever recordings get
other chunks; version 1 had no sections, version 2 always had the plain mix of channels and lost
speech under steady sound. Parts with
different versions must not be joined."""

# Samples between two nominal boundaries. A multiple of the VAD frame (512 samples), as are the
# lengths below: the VAD frames of all sections are then frames of one grid.
SECTION: Final = to_samples(300.0)
SEARCH: Final = 960 * 512  # samples (30.72 s) in which a boundary is searched
WARM_UP: Final = 512 * 512  # samples (16.384 s) that the VAD reads before a nominal boundary
# Samples after a search that the VAD needs for the probabilities in it: one block for steady sound,
# three for gain control and four for calibration.
VAD_MARGIN: Final = 8 * 64 * 512
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
