"""The limit of the audio that waits for its text, so that reading does not run far ahead."""

import threading
import time
from collections.abc import Callable
from typing import Final

from whisperbatch.runtimes.machine import available_cpus
from whisperbatch.types import WINDOW

BEGINNING: Final = max(available_cpus() // 2, 1)  # recordings without a chunk, read at a time
MIN_LIMIT: Final = 2 * WINDOW  # samples; one chunk is decoded while the next is read
SLOW_SOURCE: Final = 0.25  # seconds without a chunk; then the next recording begins, too


class ReadingLimit:
    """Limits the audio of a run that was admitted to decoding and has no text yet. Thread-safe.

    A recording always gets its first chunk. Further chunks wait while the limit is reached; the
    earliest recording is first.

    Args:
        limit: samples, of all runs of the model together.
        first_limit: samples until the first chunk has been decoded. The first segments come sooner
            if the processor does not read far ahead meanwhile.
        runs: returns the number of runs that share the limit. With many runs, the memory and the
            threads of all runs together remain those of one run, but for two chunks of each.

    Attributes:
        changed: notified when the result of `may_begin` may have changed.
    """

    def __init__(
        self,
        limit: int,
        first_limit: int | None = None,
        runs: Callable[[], int] = lambda: 1,
    ) -> None:
        self._runs = runs
        self._limit = limit if first_limit is None else min(first_limit, limit)
        self._later_limit = limit
        self._undecoded: dict[int, int] = {}  # samples of each recording
        self._waiting: set[int] = set()
        self._reading: set[int] = set()  # recordings that will have more chunks
        self._beginning: dict[int, float] = {}  # recordings without a chunk: when they began
        self._stopped = False
        self.changed = threading.Condition()

    def may_begin(self) -> bool:
        """Return whether another recording can be read without delaying the others."""
        with self.changed:
            if self._waiting or sum(self._undecoded.values()) >= self._share():
                return False
            began = self._beginning.values()
            return len(began) < BEGINNING or time.monotonic() - max(began) > SLOW_SOURCE

    def wait_while(self, condition: Callable[[], bool], timeout: float | None = None) -> None:
        """Wait until a condition is false, or the run has stopped. See `notify`.

        Args:
            condition: checked when `changed` is notified.
            timeout: seconds; None for no limit.
        """
        with self.changed:
            self.changed.wait_for(lambda: self._stopped or not condition(), timeout)

    def notify(self) -> None:
        """Check the conditions of `wait_while` again."""
        with self.changed:
            self.changed.notify_all()

    def begin(self, recording: int) -> None:
        """Note that the reading of a recording begins."""
        with self.changed:
            self._beginning[recording] = time.monotonic()
            self._reading.add(recording)

    def has_read(self, recording: int) -> None:
        """Note that a recording has no more chunks."""
        with self.changed:
            self._reading.discard(recording)

    def expects_chunks(self) -> bool:
        """Return whether chunks will come before another chunk has been decoded."""
        return bool(self._reading) and not self._waiting and not self._stopped

    def has_begun(self, recording: int) -> None:
        """Note that a recording has its first chunk, or has ended without a chunk."""
        with self.changed:
            self._beginning.pop(recording, None)
            self.changed.notify_all()

    def acquire(self, recording: int, samples: int) -> bool:
        """Wait until a chunk may be decoded. Return False if the run has stopped."""

        def is_admitted() -> bool:
            if self._stopped or not self._undecoded.get(recording):
                return True
            full = sum(self._undecoded.values()) + samples > self._share()
            return not full and recording == min(self._waiting)

        with self.changed:
            self._waiting.add(recording)
            try:
                self.changed.wait_for(is_admitted)
            finally:
                self._waiting.discard(recording)
                self.changed.notify_all()
            self._undecoded[recording] = self._undecoded.get(recording, 0) + samples
            return not self._stopped

    def release(self, recording: int, samples: int) -> None:
        """Subtract a chunk that was decoded."""
        with self.changed:
            self._limit = self._later_limit
            if recording in self._undecoded:
                self._undecoded[recording] -= samples
            self.changed.notify_all()

    def end(self, recording: int) -> None:
        """Subtract all chunks of a recording that has ended."""
        with self.changed:
            self._beginning.pop(recording, None)
            self._reading.discard(recording)
            self._undecoded.pop(recording, None)
            self.changed.notify_all()

    def _share(self) -> float:
        """Return the limit of this run, in samples."""
        return max(self._limit / max(self._runs(), 1), min(MIN_LIMIT, self._limit))

    def stop(self) -> None:
        """End all waits."""
        with self.changed:
            self._stopped = True
            self.changed.notify_all()
