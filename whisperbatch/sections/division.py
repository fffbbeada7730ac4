r"""The sections of a clip, each with VAD frames that do not depend on the sections before it.

    audio          ....|.............|..............|.............|....   nominal boundaries
    section 1      ====^=============|=====^
    VAD, run 2               [warm-up|search........|.........            from a fixed sample on
    section 2                        |     ^========|=======^

Each section has its own run of the VAD. The run begins `WARM_UP` samples before the nominal
boundary, so that its network, its gain control and its calibration know the audio before the
section. The boundary is found from the probabilities of this run. A run that begins at a fixed
sample gives the same probabilities whatever was read before.

The boundary is the best place within the search window:

    probability    ^^^^\__/^^^^^^\_______________/^^^^^\___/^^^^
    pauses              ==         ==============        ===
    level                          ~~~~~____~~~~~
    boundary                               |
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from whisperbatch.audio.clips import Clip, clips, min_clip
from whisperbatch.chunking.merge import chunks
from whisperbatch.chunking.spans import cut_costs
from whisperbatch.options import Options
from whisperbatch.protocols import Vad
from whisperbatch.types import (
    SAMPLING_RATE,
    SEARCH,
    SECTION,
    WARM_UP,
    WHOLE,
    Chunk,
    Samples,
    SectionSound,
    Span,
    SpeechFrames,
    to_samples,
)
from whisperbatch.vad import open_vad

FULL_PAUSE: Final = SAMPLING_RATE  # samples; a longer pause is no better (`merge.LONG_PAUSE`)
MIN_LEVEL: Final = -65.0  # dBFS; fainter frames are silence, as in `second_opinion.regions`


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
    """Yields the sections of a clip, whose runs of the VAD read one tape."""

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


def find_boundary(window: SpeechFrames, hop: int, vad_offset: float) -> int:
    """Return the VAD frame of a window with which a section begins.

    The boundary lies in the middle of a pause. The longest pause is chosen, because it is certainly
    no pause within a sentence; from `FULL_PAUSE` on, the quietest part of all long pauses. The VAD
    may reject soft speech, which is not quiet. Without a pause, the boundary is the place where
    speech is least likely and the audio is quietest, as in a long speech span.

    Args:
        window: the audio of the search window, and the probabilities of its VAD frames.
        hop: samples per VAD frame.
        vad_offset: frames with a lower probability of speech are pauses.

    Returns:
        From 0 to the number of frames, without this number.
    """
    probabilities = window.probabilities
    pauses = probabilities < vad_offset
    size = min(_longest_run(pauses.tolist()), max(FULL_PAUSE // hop, 1))
    if not size:
        costs = cut_costs(window.varying, probabilities, hop)
        return 1 + _middle_of_lowest(costs[:-1] + costs[1:])
    levels = cut_costs(window.varying, np.zeros_like(probabilities), hop)
    starts = np.flatnonzero(_sums(pauses.astype(np.float64), size) == size)
    return int(starts[_middle_of_lowest(_sums(levels, size)[starts])]) + size // 2


def _longest_run(flags: list[bool]) -> int:
    longest = length = 0
    for flag in flags:
        length = length + 1 if flag else 0
        longest = max(longest, length)
    return longest


def _sums(values: npt.NDArray[np.float64], size: int) -> npt.NDArray[np.float64]:
    """Return the sum of every `size` consecutive values."""
    sums: npt.NDArray[np.float64]
    sums = np.lib.stride_tricks.sliding_window_view(values, size).sum(axis=1)
    return sums


def _middle_of_lowest(costs: npt.NDArray[np.float64]) -> int:
    """Return the index of the lowest cost; of several, of the middle one."""
    lowest = np.flatnonzero(costs == costs.min())
    return int(lowest[len(lowest) // 2])


class SoundMeasure:
    """Passes the VAD frames of a section on, and measures them.

    Args:
        section: its frames are iterated once, by `frames`.
        vad_onset: frames with this probability or more are speech.
        hop: samples per VAD frame.

    Attributes:
        sound: the result for the frames so far.
    """

    def __init__(self, section: Section, vad_onset: float, hop: int) -> None:
        self._frames, self._vad_onset, self._hop = section.frames, vad_onset, hop
        self.sound = SectionSound(section.number, section.start, section.start, 0, 0)

    def frames(self) -> Iterator[SpeechFrames]:
        """Yield the frames of the section."""
        for block in self._frames:
            self._add(block)
            yield block

    def _add(self, block: SpeechFrames) -> None:
        starts = range(0, len(block.samples), self._hop)
        squares = np.add.reduceat(np.square(block.samples), starts)
        loud = np.count_nonzero(squares >= self._hop * 10 ** (MIN_LEVEL / 10))
        speech = np.count_nonzero(block.probabilities >= self._vad_onset)
        known, length = self.sound, len(block.samples)
        self.sound = SectionSound(
            known.number,
            known.start,
            known.end + length,
            known.sound + min(int(loud) * self._hop, length),
            known.speech + min(int(speech) * self._hop, length),
        )


SecondOpinion: TypeAlias = Callable[[Iterable[SpeechFrames], int, int], Iterable[SpeechFrames]]
"""Takes the frames, the first sample and the number of a section, and returns the frames again."""


def chunk_recording(
    blocks: Iterable[Samples],
    options: Options,
    vad: Vad | None = None,
    recording: int = 0,
    second_opinion: SecondOpinion | None = None,
    *,
    span: Span = WHOLE,
    position: int = 0,
    on_section: Callable[[SectionSound], None] = lambda _: None,
) -> Iterator[Chunk]:
    """Yield the chunks of a recording, or of a span of it, numbered from 0 across all sections.

    No chunk crosses a boundary. The chunks of a span are those that the whole
    recording has there, but for their numbers.

    Args:
        blocks: the samples of the recording from `position` on, which is at most `span.start`.
        options: ranges, speech spans and chunks.
        vad: the result of `open_vad` for these options, if it is open already.
        recording: number of the recording.
        second_opinion: finds speech in the audio that the VAD rejects.
        span: the sections that are processed.
        position: first sample of `blocks`.
        on_section: called after the chunks of each section.
    """
    vad = vad or open_vad(options)
    index = 0
    ranges = [
        (start, end)
        for start, end in options.clip_timestamps or ((0.0, None),)
        if span.begins_before_end(to_samples(start) // SECTION)
    ]
    for clip in clips(blocks, ranges, min_clip(options, vad.hop), position):
        for section in sections(clip, vad, options, span):
            measure = SoundMeasure(section, options.vad_onset, vad.hop)
            frames: Iterable[SpeechFrames] = measure.frames()
            if second_opinion:
                frames = second_opinion(frames, section.start, section.number)
            for chunk in chunks(
                frames,
                options,
                vad.hop,
                recording=recording,
                index=index,
                offset=section.start,
                section=section.number,
            ):
                yield chunk
                index += 1
            on_section(measure.sound)
