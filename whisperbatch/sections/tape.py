"""The audio of a clip, read once and given to the sections that need it.

    audio        |-------------|-------------|-------------|----
    section 0    [================]
    section 1              [=================]
    section 2                            [===================]

Sections overlap, because the run of the VAD of a section begins before the section. Each section
may be read by its own thread. A thread that finds no audio for its section reads the next block
from the source, for all sections. So one thread reads at a time, and a section waits for nothing
but the source. A block is held by the sections that have not taken the block, and by no other.
"""

import threading
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from whisperbatch.types import Samples


@dataclass(slots=True, eq=False)
class Part:
    """The audio that a section needs. Positions are samples of the recording.

    Attributes:
        number: number of the section.
        start: first sample.
        end: the sample after the last; None: to the end of the audio.
        waiting: the blocks that the section has not taken.
    """

    number: int
    start: int
    end: int | None
    waiting: deque[Samples] = field(default_factory=deque)


class Tape:
    """The audio of a clip. Thread-safe.

    Args:
        blocks: the audio, in blocks that are not empty.
        position: position of the first sample of `blocks`.
        parts: the audio of each section, in order; as many as sections may exist.

    Attributes:
        ended: the end of the audio; None while it is unknown.
    """

    def __init__(self, blocks: Iterable[Samples], position: int, parts: Iterable[Part]) -> None:
        self._blocks = iter(blocks)
        self._position = position
        self._later = iter(parts)
        self._next = next(self._later, None)
        self._parts: dict[int, Part] = {}  # that begin before the position and are not closed
        self._changed = threading.Condition()
        self._is_reading = False
        self._error: Exception | None = None
        self.ended: int | None = None

    def blocks(self, number: int) -> Iterator[Samples]:
        """Yield the audio of a section.

        If the source fails, the audio ends there; `check` raises the error.

        Raises:
            ValueError: more audio is requested than the section needs.
        """
        while (block := self._take(number)) is not None:
            yield block

    def close(self, number: int) -> None:
        """Forget the audio of a section, which needs no more."""
        with self._changed:
            self._parts.pop(number, None)

    def check(self) -> None:
        """Raise the error of the source, if it failed."""
        if self._error:
            raise self._error

    def _take(self, number: int) -> Samples | None:
        """Return the next block of a section; None at the end of the audio."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._has(number) or not self._is_reading)
                part = self._parts.get(number)
                if part and part.waiting:
                    return part.waiting.popleft()
                if self.ended is not None:
                    return None
                if part and part.end is not None and self._position >= part.end:
                    raise ValueError(f"section {number} needs no audio after sample {part.end}")
                self._is_reading = True
            self._read()

    def _has(self, number: int) -> bool:
        return number in self._parts and bool(self._parts[number].waiting)

    def _read(self) -> None:
        """Read a block for the sections that need it."""
        block: Samples | None = None
        try:
            block = next(self._blocks, None)
        except Exception as error:  # noqa: BLE001 - `check` raises it
            self._error = error
        finally:
            with self._changed:
                self._is_reading = False
                if block is None:
                    self.ended = self._position
                else:
                    self._deliver(block)
                self._changed.notify_all()

    def _deliver(self, block: Samples) -> None:
        first, end = self._position, self._position + len(block)
        self._position = end
        while self._next and self._next.start < end:
            self._parts[self._next.number] = self._next
            self._next = next(self._later, None)
        for part in self._parts.values():
            if part.end is None or first < part.end:
                part.waiting.append(block[max(part.start - first, 0) :])
