"""The diarization of one recording beside its transcription."""

import threading
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final

from whisperbatch.diarization.protocol import Diarizer, Progress, SpeakerLimits
from whisperbatch.prefetch import prefetch
from whisperbatch.types import SAMPLING_RATE, Diarization, Samples, Turn

AHEAD: Final = 120 * SAMPLING_RATE  # samples that wait for the diarizer: 7.7 MB


class Listener:
    """Gives the audio of a recording to a diarizer, and collects the turns.

    Three threads use a Listener: the reader of the recording calls `through`, the diarizer's thread
    takes the audio, and the consumer of the segments calls `turns_until` and `result`.

    Args:
        diarizer: finds the turns.
        limits: of the number of speakers.
    """

    def __init__(self, diarizer: Diarizer, limits: SpeakerLimits) -> None:
        self._blocks: deque[Samples] = deque()
        self._waiting = 0  # samples in `_blocks`
        self._ended = self._stopped = False
        self._changed = threading.Condition()
        self._items = prefetch(diarizer(self._audio(), limits), 64)
        self._turns: list[Turn] = []
        self._known = 0.0  # seconds
        self._result: Diarization | None = None

    def through(self, blocks: Iterable[Samples]) -> Iterator[Samples]:
        """Yield blocks, and give them to the diarizer. Waits if the diarizer is too slow."""
        try:
            for block in blocks:
                self._put(block)
                yield block
        finally:
            with self._changed:
                self._ended = True
                self._changed.notify_all()

    def turns_until(self, end: float) -> list[Turn]:
        """Return the turns so far; wait until they are known up to `end`, in seconds."""
        while self._known < end and self._result is None:
            self._advance()
        return self._turns

    def result(self) -> Diarization:
        """Wait for the end of the recording, and return all turns."""
        while self._result is None:
            self._advance()
        return self._result

    def stop(self) -> None:
        """End all waits. Thread-safe."""
        with self._changed:
            self._stopped = self._ended = True
            self._blocks.clear()
            self._changed.notify_all()

    def close(self) -> None:
        """Stop the thread of the diarizer."""
        self.stop()
        self._items.close()

    def _advance(self) -> None:
        item = next(self._items, None)
        if isinstance(item, Progress):
            self._turns += item.turns
            self._known = item.end
        else:
            self._result = item or Diarization(())

    def _put(self, block: Samples) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._stopped or self._waiting < AHEAD)
            if not self._stopped:
                self._blocks.append(block)
                self._waiting += len(block)
                self._changed.notify_all()

    def _audio(self) -> Iterator[Samples]:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._ended or self._blocks)
                if not self._blocks:
                    return
                block = self._blocks.popleft()
                self._waiting -= len(block)
                self._changed.notify_all()
            yield block
