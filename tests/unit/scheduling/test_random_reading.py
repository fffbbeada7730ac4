"""Random orders of reading and decoding: the limit holds, and no thread waits forever."""

import threading
from collections.abc import Sequence
from functools import partial
from queue import SimpleQueue

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.counting_source import TIMEOUT
from tests.unit.scheduling.row_calls import Caller
from whisperbatch.scheduling import ReadingLimit

pytestmark = pytest.mark.usefixtures("no_threads_added")


class RandomRun:
    """Threads that read recordings, and threads that decode the chunks.

    Attributes:
        most: maximum number of samples that were read, but not decoded.
    """

    def __init__(self, limit: int, stop_after: int | None) -> None:
        self.limit = ReadingLimit(limit)
        self.most = 0
        self._undecoded = self._decoded = 0
        self._stop_after = stop_after
        self._admitted: SimpleQueue[tuple[int, int] | None] = SimpleQueue()
        self._lock = threading.Lock()

    def read(self, number: int, chunks: Sequence[int]) -> bool:
        """Read the chunks of a recording. Return False if the run stops before its end."""
        self.limit.begin(number)
        for samples in chunks:
            self.limit.has_begun(number)
            if not self.limit.acquire(number, samples):
                return False
            with self._lock:
                self._undecoded += samples
                self.most = max(self.most, self._undecoded)
            self._admitted.put((number, samples))
        self.limit.has_begun(number)
        return True

    def decode(self) -> None:
        """Decode chunks until the end. Stop the run after a number of chunks."""
        while item := self._admitted.get(timeout=TIMEOUT):
            with self._lock:
                self._undecoded -= item[1]
                self._decoded += 1
                stops = self._decoded == self._stop_after
            self.limit.release(*item)
            if stops:
                self.limit.stop()

    def end(self) -> None:
        """End a thread that decodes."""
        self._admitted.put(None)


@settings(max_examples=100)
@given(
    st.lists(st.lists(st.integers(1, 12), max_size=8), min_size=1, max_size=5),
    st.integers(1, 20),
    st.integers(1, 3),
    st.none() | st.integers(1, 10),
)
def test_no_thread_waits_forever(
    recordings: list[list[int]], size: int, decoders: int, stop_after: int | None
) -> None:
    run = RandomRun(size, stop_after)
    readers = [Caller(partial(run.read, *item)) for item in enumerate(recordings)]
    threads = [Caller(run.decode) for _ in range(decoders)]
    complete = [reader.result() for reader in readers]
    for _ in threads:
        run.end()
    for thread in threads:
        thread.result()
    if stop_after is None:
        assert all(complete)
        assert run.limit.may_begin()
    # the first chunk of a recording is admitted although the limit is reached
    assert run.most <= size + sum(max(chunks, default=0) for chunks in recordings)
