"""The diarization of one recording beside its transcription."""

import logging
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from whisperbatch.diarization.items import items_of
from whisperbatch.diarization.protocol import (
    MAX_LAG,
    Embedding,
    Progress,
    SpeakerLimits,
    TurnFinder,
)
from whisperbatch.errors import ClosedError, EngineError
from whisperbatch.threads import JOIN_TIMEOUT, in_background
from whisperbatch.types import SAMPLING_RATE, Diarization, Samples, Turn

# Samples of all channels that wait for the diarizer: 8 MB. While the reader waits for the diarizer,
# the model gets its rows late, and computes calls with fewer rows.
AHEAD: Final = 120 * SAMPLING_RATE

log = logging.getLogger(__name__)


class Listener:
    """Gives the audio of a recording to a diarizer, and collects the turns.

    Three threads use a Listener: the reader of the recording calls `through`, the diarizer's thread
    takes the audio, and the consumer of the segments calls `turns_until` and `result`. The
    diarizer's thread never waits for the consumer: a recording may have no segments for hours.

    Args:
        diarizer: finds the turns. It may have an attribute `reads_ahead`: seconds of audio that it
            takes although its next Progress does not need them.
        limits: of the number of speakers.
        source: name of the recording, for errors.

    Attributes:
        embeddings: of the speakers so far, as in `Progress`.

    Raises:
        OptionError: the diarizer cannot honour the limits.
    """

    def __init__(self, diarizer: TurnFinder, limits: SpeakerLimits, source: str) -> None:
        self._blocks: deque[Samples] = deque()
        self._waiting = 0  # samples in `_blocks`
        self._given = 0.0  # seconds that the diarizer has taken
        self._told = 0.0  # seconds up to which the diarizer has given turns
        self._ended = self._stopped = False
        self._changed = threading.Condition()
        self._items: deque[Progress | Diarization | BaseException] = deque()
        self._has_finished = False  # no more items will come
        self._turns: list[Turn] = []
        self._known = 0.0  # seconds
        self.embeddings: Mapping[str, Embedding] = {}
        self._result: Diarization | None = None
        self._max_lag = MAX_LAG + float(getattr(diarizer, "reads_ahead", 0.0))
        self._found = items_of(diarizer, self._audio(), limits, source)
        self._thread = in_background(self._run, name="whisperbatch-diarizer")

    def through(self, blocks: Iterable[Samples]) -> Iterator[Samples]:
        """Yield blocks, and give them to the diarizer. Waits if the diarizer is too slow."""
        try:
            for block in blocks:
                self._put(block)
                yield block
        finally:
            self.end()

    def end(self) -> None:
        """Tell the diarizer that no more audio follows, even if `through` was never iterated."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def turns_until(self, end: float) -> list[Turn]:
        """Return the turns so far; wait until they are known up to `end`, in seconds.

        Raises:
            EngineError: the diarizer failed.
            ClosedError: `stop` was called.
        """
        while self._known < end and self._result is None:
            self._advance()
        return self._turns

    def result(self) -> Diarization:
        """Wait for the end of the recording, and return all turns.

        Raises:
            EngineError: the diarizer failed.
            ClosedError: `stop` was called.
        """
        while self._result is None:
            self._advance()
        return self._result

    def stop(self) -> None:
        """End all waits. Thread-safe."""
        with self._changed:
            self._stopped = True
            self._blocks.clear()
            self._changed.notify_all()

    def close(self) -> None:
        """Stop the thread of the diarizer."""
        self.stop()
        if self._thread is threading.current_thread():  # called by the garbage collector
            return
        self._thread.join(JOIN_TIMEOUT)
        if self._thread.is_alive():
            log.warning(
                "a diarizer did not stop within %g s; its thread ends with its work", JOIN_TIMEOUT
            )

    def _advance(self) -> None:
        """Take the next item of the diarizer. The items are taken one by one when they are needed.

        So the provisional speakers do not depend on how far ahead the diarizer is.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._items or self._has_finished or self._stopped)
            if not self._items:
                raise ClosedError("the recording was closed")
            item = self._items.popleft()
        if isinstance(item, BaseException):
            self._items.appendleft(item)  # for the next call
            raise item
        if isinstance(item, Progress):
            self._turns += item.turns
            self.embeddings = item.embeddings
            self._known = item.end
        else:
            self._result = item

    def _put(self, block: Samples) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._is_deaf() or self._waiting < AHEAD)
            if not self._is_deaf():
                self._blocks.append(block)
                self._waiting += block.size
                self._changed.notify_all()

    def _is_deaf(self) -> bool:
        return self._stopped or self._has_finished

    def _audio(self) -> Iterator[Samples]:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._ended or self._stopped or self._blocks)
                if self._stopped:
                    raise ClosedError("the recording was closed")
                if not self._blocks:
                    return
                block = self._blocks.popleft()
                self._waiting -= block.size
                self._changed.notify_all()
            if self._given - self._told > self._max_lag:
                raise EngineError(
                    f"the diarizer has heard {self._given:.0f} s of audio, but its last Progress "
                    f"ends at {self._told:.0f} s; it must yield a Progress at least every "
                    f"{MAX_LAG:g} s, also without turns"
                )
            self._given += len(block) / SAMPLING_RATE
            yield block

    def _run(self) -> None:
        """Collect the items of the diarizer, in its thread."""
        try:
            for item in self._found:
                if isinstance(item, Progress):
                    self._told = item.end
                with self._changed:
                    self._items.append(item)
                    self._changed.notify_all()
        except BaseException as error:  # noqa: BLE001 - the consumer must see every error
            with self._changed:
                self._items.append(error)
        finally:
            with self._changed:
                self._has_finished = True
                self._blocks.clear()
                self._changed.notify_all()
