"""A source that counts, and the functions of `whisperbatch.prefetch` that read it."""

import threading
import time
from collections.abc import Callable, Generator

import pytest

from whisperbatch.prefetch import map_ordered, prefetch

TIMEOUT = 30.0


class Source:
    """Yields 0, 1, 2, ...; records the number of items read, the thread, and the closing."""

    def __init__(self, count: int = 10**9, error: BaseException | None = None) -> None:
        self.count, self.error = count, error
        self.read = 0
        self.closed = threading.Event()
        self.thread: threading.Thread | None = None

    def items(self) -> Generator[int, None, None]:
        self.thread = threading.current_thread()
        try:
            while self.read < self.count:
                self.read += 1
                yield self.read - 1
            if self.error:
                raise self.error
        finally:
            self.closed.set()


def double(item: int) -> int:
    return 2 * item


def prefetched(source: Generator[int, None, None]) -> Generator[int, None, None]:
    return prefetch(source, 3)


def mapped(source: Generator[int, None, None]) -> Generator[int, None, None]:
    return map_ordered(lambda item: item, source, workers=2, depth=3)


def nested(source: Generator[int, None, None]) -> Generator[int, None, None]:
    return mapped(prefetched(mapped(source)))


Reader = Callable[[Generator[int, None, None]], Generator[int, None, None]]
readers = pytest.mark.parametrize("reader", [prefetched, mapped, nested])


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + TIMEOUT
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.001)
    assert condition()


def wait_for_reads(source: Source, read: int) -> None:
    """Wait until `read` items are read, and check that no more are read."""
    wait_until(lambda: source.read >= read)
    time.sleep(0.01)
    assert source.read == read
