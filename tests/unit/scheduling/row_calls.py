"""Row calls for tests, threads that compute them, and an engine that waits for the test.

with scheduler.running(share):
    first = scheduler.hold(share)          # the call of this row waits at the gate
    others = scheduler.start(share, 1, 2)  # further rows wait in the queue
    engine.gate.set()                     # all rows are computed
"""

import threading
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from typing import Any, Generic, TypeVar

import numpy as np

from tests.unit.counting_source import TIMEOUT
from tests.unit.fakes import EncodedRow, FakeEngine
from whisperbatch.prefetch import Workers
from whisperbatch.recording import Encoding
from whisperbatch.scheduling.call_queue import (
    CallQueue,
    Limit,
    RunShare,
    WaitingRow,
    no_limit,
)
from whisperbatch.scheduling.scheduler import Scheduler

T = TypeVar("T")


def row_call(
    run: RunShare,
    start: int = 0,
    key: Hashable = "key",
    *,
    level: float = 0.0,
    max_rows: int = 4,
    frames: int = 2,
    group: object = None,
) -> WaitingRow:
    """Return the language detection of a row whose features all have the value `level`."""
    row = Encoding(frames, np.full((80, frames), level, np.float32))
    return WaitingRow(key, row, run, group, (0, start), max_rows)


def at_most(rows: int | None) -> Limit:
    """Return a limit for all calls; None for no limit."""
    return no_limit if rows is None else lambda _: rows


def level_of(row: EncodedRow) -> dict[str, float]:
    """Return the result of `row_call`: it identifies the row."""
    return {"level": row.level}


def levels(results: Iterable[dict[str, float]]) -> list[float]:
    """Return the levels of the rows that the results belong to."""
    return [result["level"] for result in results]


class GatedEngine(FakeEngine):
    """A fake engine whose calls wait until the test opens the gate.

    Attributes:
        gate: calls wait until it is set, except those of `encode`.
        started: released at the start of each call, except those of `encode`.
        attempts: number of rows of each call, whether or not it failed, except those of `encode`.
        fail: called with the number of rows of each call, after the gate; may raise an error.
    """

    def __init__(self, **keywords: Any) -> None:
        super().__init__(**{"detect": level_of, **keywords})
        self.gate = threading.Event()
        self.started = threading.Semaphore(0)
        self.attempts: list[int] = []
        self.fail: Callable[[int], None] = lambda rows: None

    def wait_for_call(self) -> None:
        """Wait until the engine has started another call."""
        assert self.started.acquire(timeout=TIMEOUT)

    def _record(self, method: str, rows: int) -> None:
        if method != "encode":
            self.attempts.append(rows)
            self.started.release()
            assert self.gate.wait(TIMEOUT)
            self.fail(rows)
        super()._record(method, rows)


class Caller(Generic[T]):
    """A thread that calls a function."""

    def __init__(self, function: Callable[[], T]) -> None:
        self._function = function
        self._values: list[T] = []
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def wait(self) -> None:
        """Wait until the function has returned or raised an error."""
        self._thread.join(TIMEOUT)
        assert not self._thread.is_alive(), "the thread still waits"

    def result(self) -> T:
        """Wait for the result of the function, or raise its error."""
        self.wait()
        if self._error:
            raise self._error
        return self._values[0]

    def _run(self) -> None:
        try:
            self._values.append(self._function())
        except BaseException as error:  # noqa: BLE001 - raised in the thread of the test
            self._error = error


class CountedCondition(threading.Condition):
    """A condition whose test can wait until threads wait for it."""

    def __init__(self) -> None:
        super().__init__()
        self._waits = threading.Semaphore(0)

    def wait(self, timeout: float | None = None) -> bool:
        self._waits.release()  # the lock is held: a thread that gets the lock next sees the wait
        return super().wait(timeout)

    def wait_for_waits(self, count: int) -> None:
        """Wait until threads have begun to wait so many further times."""
        for _ in range(count):
            assert self._waits.acquire(timeout=TIMEOUT)


class CountedQueue(CallQueue):
    """A queue that counts the added rows."""

    def __init__(self) -> None:
        super().__init__()
        self.added = threading.Semaphore(0)

    def add(self, calls: Iterable[WaitingRow]) -> None:
        added = [*calls]
        super().add(added)
        for _ in added:
            self.added.release()


class CountedScheduler(Scheduler):
    """A scheduler whose test can wait for rows."""

    def __init__(self, engine: GatedEngine) -> None:
        super().__init__(engine)
        self._gated = engine
        self._starts = count()
        self._queue = self._counted = CountedQueue()
        self._changed = self._condition = CountedCondition()
        self._workers = Workers(self._changed, self._next_task, engine.workers)

    @contextmanager
    def running(self, run: RunShare) -> Iterator[None]:
        """Run the threads; the test fails if they do not end."""
        with ExitStack() as stack:
            stack.enter_context(super().running(run))
            try:
                yield
            finally:
                Caller(stack.pop_all().close).result()

    def wait_for_idle(self) -> None:
        """Wait until all threads of the scheduler wait for their first rows."""
        self._condition.wait_for_waits(self.engine.workers)

    def wait_for_rows(self, rows: int) -> None:
        """Wait until `rows` further rows are in the queue."""
        for _ in range(rows):
            assert self._counted.added.acquire(timeout=TIMEOUT)

    def start(
        self, run: RunShare, *rows: float, max_rows: int = 8, key: Hashable = "key"
    ) -> Caller[list[float]]:
        """Start a thread that computes rows with these levels; its rows come after all others."""
        group = object()
        calls = [
            row_call(run, next(self._starts), key, level=level, max_rows=max_rows, group=group)
            for level in rows
        ]
        caller = Caller(lambda: levels(self.compute(calls)))
        self.wait_for_rows(len(rows))
        return caller

    def hold(self, run: RunShare) -> Caller[list[float]]:
        """Start a thread with a row of level 0; its call waits at the gate, as do later rows."""
        caller = self.start(run, 0.0)
        self._gated.wait_for_call()
        return caller
