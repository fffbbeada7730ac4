"""The audio of a clip, which two runs of the VAD read at different positions."""

from collections import deque
from collections.abc import Iterable, Iterator

from whisperbatch.types import Samples


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
