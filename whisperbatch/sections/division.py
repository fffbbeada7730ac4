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

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from whisperbatch.audio.clips import Clip, clips, min_clip
from whisperbatch.chunking.merge import chunks
from whisperbatch.chunking.spans import cut_costs
from whisperbatch.options import Options
from whisperbatch.prefetch import interleave
from whisperbatch.protocols import Vad
from whisperbatch.runtimes.malloc import return_free_memory
from whisperbatch.sections.tape import Part, Tape
from whisperbatch.types import (
    SAMPLING_RATE,
    SEARCH,
    SECTION,
    VAD_MARGIN,
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
MAX_CHUNKS: Final = 4096  # of a section that wait for the sections before
MIN_LEVEL: Final = -65.0  # dBFS; fainter frames are silence, as in `second_opinion.regions`


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


@dataclass(slots=True, eq=False)
class _Open:
    """A section that begins at a known sample.

    Attributes:
        start: its first sample.
        frames: the rest of the VAD frames of its run.
        held: frames of the section that were read before, in order.
    """

    start: int
    frames: Iterator[SpeechFrames]
    held: Iterable[SpeechFrames] = ()

    def take(self) -> Iterator[SpeechFrames]:
        """Return the frames of the section, and forget them."""
        frames = chain(self.held, self.frames)
        self.held, self.frames = (), iter(())
        return frames


class Sections:
    """The sections of a clip that belong to a span. Thread-safe.

    Each section may be read by its own thread. The thread that reads a section looks for the next
    boundary when it needs this boundary and no other thread has found it. So the sections can also
    be read one after the other.

    Nothing is divided before the first nominal boundary that is `SECTION` samples or more after the
    start of the clip, and no boundary is searched where the clip has less than `SEARCH` samples
    left. A short clip is therefore one section.

    Args:
        clip: has its audio, at least from the later of its start and `span.start` on.
        vad: finds the speech.
        options: of the VAD.
        span: the sections that are read.
    """

    def __init__(self, clip: Clip, vad: Vad, options: Options, span: Span) -> None:
        self._first, self._last = clip.first, clip.last
        self._vad = vad
        self._vad_offset = options.vad_offset
        self._span = span
        self._tape = Tape(clip.blocks, clip.position, self._parts())
        self._found: dict[int, Future[_Open | None]] = {}
        self._lock = threading.Lock()

    @property
    def are_several(self) -> bool:
        """Whether the clip can have more than one section, as far as its end is known."""
        first = self._first_number()
        second = None if first is None else self._next_boundary(first)
        return second is not None and self._span.has(second)

    def numbers(self) -> Iterator[int]:
        """Yield the numbers of the sections, until the end of the audio is known.

        The last numbers may have no section: `read` then yields nothing.
        """
        number = self._first_number()
        while number is not None and self._span.has(number) and self._may_exist(number):
            yield number
            number = self._next_boundary(number)

    def read(self, number: int) -> Section | None:
        """Return a section, whose frames must be read once; None if the audio ends before.

        Raises:
            AudioError: the source failed before the section.
        """
        section = self._find(number)
        if section is None:
            if number == self._first_number():
                self._tape.check()
            return None
        return Section(number, section.start, self._frames_of(number, section))

    def _first_number(self) -> int | None:
        number = self._first // SECTION
        if number >= self._span.first:
            return number
        return self._next_boundary(self._span.first - 1)

    def _parts(self) -> Iterator[Part]:
        """Yield the audio that each section needs."""
        number = self._first_number()
        while number is not None:
            following = self._next_boundary(number)
            start = self._run_start(number)
            yield Part(number, start, None if following is None else _end_of_search(following))
            number = following

    def _run_start(self, number: int) -> int:
        """Return the first sample of the run of the VAD of a section."""
        return self._first if self._begins_clip(number) else number * SECTION - WARM_UP

    def _begins_clip(self, number: int) -> bool:
        """Return whether a section begins with the clip, and not at a boundary."""
        return number == self._first // SECTION

    def _may_exist(self, number: int) -> bool:
        """Return whether a section may begin at a nominal boundary, as far as the end is known."""
        end = self._tape.ended
        return end is None or number == self._first_number() or end >= number * SECTION + SEARCH

    def _next_boundary(self, after: int) -> int | None:
        """Return the number of the next boundary of the clip; None if it certainly has no other."""
        number = max(after + 1, -(-self._first // SECTION) + 1)
        if self._last is not None and number * SECTION + SEARCH > self._last:
            return None
        return number

    def _find(self, number: int) -> _Open | None:
        """Return a section, which one thread finds; None if there is no such section."""
        with self._lock:
            is_new = number not in self._found
            found = self._found.setdefault(number, Future())
        if is_new:
            try:
                found.set_result(self._open(number))
            except BaseException as error:  # noqa: BLE001 - of every thread that needs the section
                found.set_exception(error)
        return found.result()

    def _open(self, number: int) -> _Open | None:
        """Find a boundary, and open the section that begins there.

        Returns:
            The section; None if the audio ends within the search window.
        """
        hop = self._vad.hop
        frames = self._vad(self._tape.blocks(number))
        position = self._run_start(number)
        if self._begins_clip(number):
            return _Open(position, frames)
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
        return _Open(boundary, frames, window)

    def _frames_of(self, number: int, section: _Open) -> Iterator[SpeechFrames]:
        """Yield the frames of a section."""
        position = section.start
        following = self._next_boundary(number)
        last: int | None = None  # the sample after the section, once it is found
        for block in section.take():
            end = position + len(block.samples)
            if following is not None and end > following * SECTION:
                found = self._find(following)
                last = found.start if found else None
                following = None
            if last is not None and end >= last:
                yield block.part(0, last - position, self._vad.hop)
                self._tape.close(number)
                return
            yield block
            position = end
        self._tape.close(number)
        self._tape.check()


def _end_of_search(number: int) -> int:
    """Return the sample after the last that the section before a boundary can need.

    The VAD reads whole blocks.
    """
    return number * SECTION + SEARCH + 2 * VAD_MARGIN


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
        starts = np.arange(0, len(block.samples), self._hop)
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


class Readers:
    """Places for the threads that read sections, which all recordings of a run share. Thread-safe.

    A recording always has one thread.

    Args:
        most: returns the number of places.
    """

    def __init__(self, most: Callable[[], int]) -> None:
        self._most = most
        self._reading = 0
        self.changed = threading.Condition()

    @property
    def most(self) -> int:
        """The number of places now."""
        return self._most()

    def may_start(self) -> bool:
        """Return whether a recording may read another section."""
        return self._reading < self._most()

    @contextmanager
    def place(self) -> Iterator[None]:
        """Take a place for the time of a `with` block."""
        with self.changed:
            self._reading += 1
        try:
            yield
        finally:
            with self.changed:
                self._reading -= 1
                self.changed.notify_all()


def chunk_recording(
    blocks: Iterable[Samples],
    options: Options,
    vad: Vad | None = None,
    recording: int = 0,
    second_opinion: SecondOpinion | None = None,
    *,
    span: Span = WHOLE,
    position: int = 0,
    readers: Readers | None = None,
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
        second_opinion: finds speech in the audio that the VAD rejects. Thread-safe.
        span: the sections that are processed.
        position: first sample of `blocks`.
        readers: sections are read at the same time, each by its own thread; None: the thread of
            the caller reads. The chunks are the same.
        on_section: called after the last chunk of each section, by the thread that reads the
            section.
    """
    vad = vad or open_vad(options)
    ranges = [
        (start, end)
        for start, end in options.clip_timestamps or ((0.0, None),)
        if span.begins_before_end(to_samples(start) // SECTION)
    ]
    reader = _SectionReader(options, vad, recording, second_opinion, on_section)
    index = 0
    for clip in clips(blocks, ranges, min_clip(options, vad.hop), position):
        divided = Sections(clip, vad, options, span)
        sources = (reader.chunks(divided, number) for number in divided.numbers())
        for chunk in _in_order(sources, readers if divided.are_several else None):
            yield replace(chunk, index=index)
            index += 1


def _in_order(sources: Iterable[Iterator[Chunk]], readers: Readers | None) -> Iterator[Chunk]:
    """Yield the chunks of sections in order.

    The second section begins when the first chunk is known: its text then comes as early as with
    one reader.
    """
    if readers is None or readers.most <= 1:
        yield from chain.from_iterable(sources)
        return
    begun = threading.Event()
    for chunk in interleave(
        (_with_place(source, readers) for source in sources),
        at_once=readers.most,
        ended=0,
        depth=MAX_CHUNKS,
        ordered=True,
        may_start=lambda: begun.is_set() and readers.may_start(),
        changed=readers.changed,
    ):
        begun.set()
        yield chunk


def _with_place(chunks: Iterator[Chunk], readers: Readers) -> Iterator[Chunk]:
    with readers.place():
        yield from chunks
    return_free_memory()


@dataclass(frozen=True, slots=True)
class _SectionReader:
    """Makes the chunks of sections; for the attributes see `chunk_recording`."""

    options: Options
    vad: Vad
    recording: int
    second_opinion: SecondOpinion | None
    on_section: Callable[[SectionSound], None]

    def chunks(self, divided: Sections, number: int) -> Iterator[Chunk]:
        """Yield the chunks of a section, numbered from 0."""
        section = divided.read(number)
        if section is None:
            return
        measure = SoundMeasure(section, self.options.vad_onset, self.vad.hop)
        frames: Iterable[SpeechFrames] = measure.frames()
        if self.second_opinion:
            frames = self.second_opinion(frames, section.start, number)
        yield from chunks(
            frames,
            self.options,
            self.vad.hop,
            recording=self.recording,
            offset=section.start,
            section=number,
        )
        self.on_section(measure.sound)
