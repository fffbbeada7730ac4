"""The sections of a clip, each with VAD frames that do not depend on the sections before it.

    audio          ....|.............|..............|.............|....   nominal boundaries
    section 1      ====^=============|=====^
    VAD, run 2               [warm-up|search........|.........            from a fixed sample on
    section 2                        |     ^========|=======^

Each section has its own run of the VAD. The run begins `WARM_UP` samples before the nominal
boundary, so that its network, its gain control and its calibration know the audio before the
section. The boundary is found from the probabilities of this run. A run that begins at a fixed
sample gives the same probabilities whatever was read before.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from whisperbatch.audio.clips import Clip
from whisperbatch.options import Options
from whisperbatch.protocols import Vad
from whisperbatch.sections.boundaries import find_boundary
from whisperbatch.types import SEARCH, SECTION, WARM_UP, Samples, Span, SpeechFrames


class Tape:
    """The latest samples of an audio stream, read from the stream when they are needed.

    Positions are samples of the recording.

    Args:
        blocks: the audio, in blocks that are not empty.
        position: position of the first sample of `blocks`.
        first: position before which no sample is needed.
    """

    def __init__(self, blocks: Iterable[Samples], position: int, first: int) -> None:
        self._blocks = iter(blocks)
        self._stored: deque[Samples] = deque()
        self._start = self._end = position  # of the stored samples
        self._needed = first
        self._error: Exception | None = None

    def blocks(self, start: int) -> Iterator[Samples]:
        """Yield the audio from sample `start` on, which must still be needed.

        If the stream fails, the audio ends there; `check` raises the error.
        """
        position = start
        while position < self._end or self._read():
            if position < self._start:
                raise ValueError(f"sample {position} is before the stored audio")
            first = self._start
            for block in tuple(self._stored):
                end = first + len(block)
                if position < end:
                    yield block[position - first :]
                    position = end
                first = end

    def discard(self, before: int) -> None:
        """Forget the audio before a position."""
        self._needed = max(self._needed, before)
        while self._stored and self._start + len(self._stored[0]) <= self._needed:
            self._start += len(self._stored.popleft())

    def check(self) -> None:
        """Raise the error of the stream, if it failed."""
        if self._error:
            raise self._error

    def _read(self) -> bool:
        """Read a block. Return False at the end of the audio."""
        if self._error:
            return False
        try:
            block = next(self._blocks, None)
        except Exception as error:  # noqa: BLE001 - `check` raises it
            self._error = error
            return False
        if block is None:
            return False
        self._stored.append(block)
        self._end += len(block)
        self.discard(self._needed)
        return True


@dataclass(frozen=True, slots=True, eq=False)
class Section:
    """A section of a clip.

    Attributes:
        number: number of the nominal boundary at or before the section.
        start: first sample, counted in the recording.
        frames: the VAD frames of the section, to be iterated once. The last may be incomplete.
    """

    number: int
    start: int
    frames: Iterator[SpeechFrames]


def sections(clip: Clip, vad: Vad, options: Options, span: Span) -> Iterator[Section]:
    """Yield the sections of a clip that belong to a span.

    The frames of a section must be exhausted before the next section is requested. Nothing is
    divided before the first nominal boundary that is `SECTION` samples or more after the start of
    the clip, and no boundary is searched where the clip has less than `SEARCH` samples left. A
    short clip is therefore one section.

    Args:
        clip: has its audio, at least from the later of its start and `span.start` on.
        vad: finds the speech.
        options: of the VAD.
        span: the sections to yield.
    """
    return _Sections(clip, vad, options, span).run()


@dataclass(slots=True, eq=False)
class _Open:
    """A section that begins at a known sample.

    Attributes:
        number: number of its nominal boundary.
        start: its first sample.
        frames: the rest of the VAD frames of its run.
        held: frames of the section that were read before, in order.
    """

    number: int
    start: int
    frames: Iterator[SpeechFrames]
    held: deque[SpeechFrames]

    def __iter__(self) -> Iterator[SpeechFrames]:
        while self.held:
            yield self.held.popleft()
        yield from self.frames


class _Sections:
    """See `sections`."""

    def __init__(self, clip: Clip, vad: Vad, options: Options, span: Span) -> None:
        self._first, self._last = clip.first, clip.last
        self._vad = vad
        self._vad_offset = options.vad_offset
        self._span = span
        self._tape = Tape(clip.blocks, clip.position, max(clip.first, span.start))
        self._following: _Open | None = None

    def run(self) -> Iterator[Section]:
        section = self._first_of_span()
        while section and self._span.has(section.number):
            self._following = None
            yield Section(section.number, section.start, self._frames_of(section))
            section = self._following

    def _first_of_span(self) -> _Open | None:
        """Open the first section of the span."""
        number = self._first // SECTION
        if number >= self._span.first:
            frames = self._vad(self._tape.blocks(self._first))
            return _Open(number, self._first, frames, deque())
        boundary = self._next_boundary(self._span.first - 1)
        if boundary is None or not self._span.has(boundary):
            return None
        self._tape.discard(boundary * SECTION - WARM_UP)
        section = self._open(boundary)
        if section is None:
            self._tape.check()
        return section

    def _next_boundary(self, after: int) -> int | None:
        """Return the number of the next boundary of the clip; None if it certainly has no other."""
        number = max(after + 1, -(-self._first // SECTION) + 1)
        if self._last is not None and number * SECTION + SEARCH > self._last:
            return None
        return number

    def _open(self, number: int) -> _Open | None:
        """Find a boundary, and open the section that begins there.

        Returns:
            The section; None if the audio ends within the search window.
        """
        hop = self._vad.hop
        frames = self._vad(self._tape.blocks(number * SECTION - WARM_UP))
        position = number * SECTION - WARM_UP
        window: deque[SpeechFrames] = deque()
        while position < number * SECTION + SEARCH:
            block = next(frames, None)
            if block is None:
                return None
            position += len(block.samples)
            window.append(block)
        start = position - sum(len(block.samples) for block in window)
        first = (number * SECTION - start) // hop * hop
        searched = SpeechFrames(
            np.concatenate([block.samples for block in window]),
            np.concatenate([block.probabilities for block in window]),
            np.concatenate([block.varying for block in window]),
        ).part(first, first + SEARCH, hop)
        boundary = start + first + find_boundary(searched, hop, self._vad_offset) * hop
        while start + len(window[0].samples) <= boundary:
            start += len(window.popleft().samples)
        window[0] = window[0].part(boundary - start, len(window[0].samples), hop)
        return _Open(number, boundary, frames, window)

    def _frames_of(self, section: _Open) -> Iterator[SpeechFrames]:
        """Yield the frames of a section, and open the following section, if there is one."""
        position = section.start
        boundary = self._next_boundary(section.number)
        following: _Open | None = None
        for block in section:
            end = position + len(block.samples)
            if boundary is not None and end > boundary * SECTION:
                following = self._open(boundary)
                boundary = None
            if following and end >= following.start:
                yield block.part(0, following.start - position, self._vad.hop)
                self._following = following
                return
            yield block
            position = end
            needed = position if boundary is None else min(position, boundary * SECTION - WARM_UP)
            self._tape.discard(needed if following is None else position)
        self._tape.check()
