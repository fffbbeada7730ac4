"""Sources for `interleave`, and a record of how they are read."""

import threading
from collections.abc import Callable, Generator, Iterable

import pytest

from tests.unit.counting_source import TIMEOUT, wait_until

Item = tuple[str, int]
both_orders = pytest.mark.parametrize("ordered", [False, True])


def counted(name: str, count: int) -> Generator[Item, None, None]:
    for number in range(count):
        yield name, number


class Recorder:
    """Makes sources, and records which of them are being read.

    Attributes:
        taken: number of sources that were taken.
        open: sources that are being read.
        most: highest number of sources that were read at a time.
        read: number of items read of each source that was started.
        ended: sources that were closed or read to the end.
    """

    def __init__(self) -> None:
        self.taken = self.most = 0
        self.open: set[str] = set()
        self.read: dict[str, int] = {}
        self.ended: set[str] = set()
        self._lock = threading.Lock()

    def source(
        self, name: str, count: int, gate: threading.Event | None = None
    ) -> Generator[Item, None, None]:
        """Yield `count` items, the first of them when the gate is open."""
        with self._lock:
            self.open.add(name)
            self.read[name] = 0
            self.most = max(self.most, len(self.open))
        try:
            assert gate is None or gate.wait(TIMEOUT)
            for number in range(count):
                self.read[name] += 1
                yield name, number
        finally:
            with self._lock:
                self.open.remove(name)
                self.ended.add(name)

    def sources(
        self, counts: Iterable[int], gates: dict[str, threading.Event] | None = None
    ) -> Generator[Generator[Item, None, None], None, None]:
        """Yield the sources "0", "1", ... with these numbers of items."""
        for number, count in enumerate(counts):
            self.taken += 1
            yield self.source(str(number), count, (gates or {}).get(str(number)))

    def wait_for_open(self, *names: str) -> None:
        """Wait until exactly these sources are being read."""
        wait_until(lambda: self.open == set(names))


def in_background(function: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=function)
    thread.start()
    return thread
