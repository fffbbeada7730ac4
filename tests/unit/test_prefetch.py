"""`prefetch` and `map_ordered`: order, bounds, errors, ends. `Workers`: when its threads run."""

import gc
import logging
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest

from tests.unit.counting_source import (
    TIMEOUT,
    Reader,
    Source,
    double,
    nested,
    readers,
    wait_for_reads,
    wait_until,
)
from whisperbatch import prefetch as prefetch_module
from whisperbatch.prefetch import Workers, map_ordered, prefetch

pytestmark = pytest.mark.usefixtures("no_threads_added")


@readers
@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 100])
def test_items_are_complete_and_in_order(reader: Reader, count: int) -> None:
    source = Source(count)
    assert list(reader(source.items())) == list(range(count))
    assert source.closed.is_set()


def test_results_are_in_order_although_some_take_longer() -> None:
    def slow(item: int) -> int:
        time.sleep(0.002 * (item % 5 == 0))
        return 2 * item

    items = map_ordered(slow, range(60), workers=4, depth=6)
    assert list(items) == [2 * item for item in range(60)]


@pytest.mark.parametrize("depth", [1, 2, 5])
def test_the_source_is_read_at_most_depth_items_ahead(depth: int) -> None:
    source = Source()
    with closing(prefetch(source.items(), depth)) as items:
        for number in range(4):
            assert next(items) == number
            wait_for_reads(source, number + 1 + depth)
    assert source.closed.is_set()


@pytest.mark.parametrize("depth", [1, 2, 5])
def test_work_is_taken_at_most_depth_items_ahead(depth: int) -> None:
    source = Source()
    with closing(map_ordered(double, source.items(), workers=8, depth=depth)) as items:
        for number in range(4):
            assert next(items) == 2 * number
            wait_for_reads(source, number + 1 + depth)
    assert source.closed.is_set()


def test_workers_run_at_the_same_time() -> None:
    together = threading.Barrier(3)

    def meet(item: int) -> int:
        together.wait(TIMEOUT)
        return item

    assert list(map_ordered(meet, range(9), workers=3, depth=3)) == list(range(9))


def test_a_slow_source_does_not_delay_results() -> None:
    more = threading.Event()

    def slow() -> Generator[int, None, None]:
        yield 1
        yield 2
        assert more.wait(TIMEOUT)
        yield 3

    items = map_ordered(double, slow(), workers=1, depth=4)
    assert [next(items), next(items)] == [2, 4]
    more.set()
    assert list(items) == [6]


def test_the_source_is_read_while_the_consumer_works() -> None:
    source = Source(3)
    items = prefetch(source.items(), 4)
    assert next(items) == 0
    wait_until(source.closed.is_set)  # although the other items are not requested yet
    assert list(items) == [1, 2]
    assert source.thread is not threading.current_thread()


def test_no_thread_starts_before_the_first_item_is_requested() -> None:
    before = threading.active_count()
    source = Source()
    items = map_ordered(double, source.items(), workers=2, depth=2)
    assert threading.active_count() == before
    items.close()
    assert source.read == 0


@readers
def test_an_error_comes_after_all_items_before_it(reader: Reader) -> None:
    source = Source(7, OSError("unplugged"))
    received: list[int] = []
    with pytest.raises(OSError, match="unplugged") as caught:
        received.extend(reader(source.items()))  # `extend` keeps the items before the error
    assert received == list(range(7))
    assert any(
        entry.name == "items" for entry in caught.traceback
    )  # the traceback shows the source


@readers
def test_an_error_is_raised_once_and_ends_the_iteration(reader: Reader) -> None:
    items = reader(Source(0, OSError("unplugged")).items())
    with pytest.raises(OSError, match="unplugged"):
        next(items)
    with pytest.raises(StopIteration):
        next(items)


def test_an_error_of_the_function_comes_at_its_position_and_stops_the_source() -> None:
    def fail(item: int) -> int:
        if item == 3:
            raise ValueError("three")
        return item

    source = Source()
    received: list[int] = []
    with pytest.raises(ValueError, match="three"):
        received.extend(map_ordered(fail, source.items(), workers=4, depth=6))
    assert received == [0, 1, 2]
    assert source.closed.is_set()
    assert source.read <= 3 + 1 + 6


def test_the_first_error_in_item_order_is_raised() -> None:
    second = threading.Event()

    def fail(item: int) -> int:
        if item == 1:
            second.set()
            raise ValueError("second")
        assert second.wait(TIMEOUT)
        raise KeyError("first")

    with pytest.raises(KeyError, match="first"):
        next(map_ordered(fail, [0, 1], workers=2, depth=2))


def test_results_come_before_the_error_of_the_source() -> None:
    source = Source(2, OSError("unplugged"))
    items = map_ordered(double, source.items(), workers=2, depth=5)
    assert next(items) == 0
    wait_until(source.closed.is_set)
    assert next(items) == 2
    with pytest.raises(OSError, match="unplugged"):
        next(items)


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, MemoryError])
@readers
def test_every_exception_of_the_source_is_raised(
    reader: Reader, error: type[BaseException]
) -> None:
    items = reader(Source(1, error()).items())
    assert next(items) == 0
    with pytest.raises(error):
        next(items)


def test_stop_iteration_in_the_function_is_an_error() -> None:
    def stop(_item: int) -> int:
        return next(iter([]))

    with pytest.raises(RuntimeError, match="StopIteration"):
        list(map_ordered(stop, range(3), workers=1, depth=1))


def test_a_source_that_is_not_iterable_is_an_error() -> None:
    nothing: Any = None
    with pytest.raises(TypeError, match="not iterable"):
        list(prefetch(nothing, 2))


class Tasks:
    """A queue of tasks for `Workers`, which is open or closed."""

    def __init__(self, count: int) -> None:
        self.changed = threading.Condition()
        self.workers = Workers(self.changed, self._next_task, count)
        self.done: list[int] = []
        self._waiting: deque[Callable[[], None]] = deque()
        self._open = False

    @contextmanager
    def running(self) -> Iterator[None]:
        """Run the threads, which end after all tasks, at the end of a `with` block."""
        with self.changed:
            self._open = True
        self.workers.start()
        try:
            yield
        finally:
            threads = self.workers.threads()
            self.close()
            for thread in threads:
                thread.join(TIMEOUT)
                assert not thread.is_alive()

    def close(self) -> None:
        with self.changed:
            self._open = False
            self.changed.notify_all()

    def open_again(self) -> None:
        with self.changed:
            self._open = True
        self.workers.start()

    def add(self, task: Callable[[], None]) -> None:
        with self.changed:
            self._waiting.append(task)
            self.changed.notify()

    def add_number(self, number: int) -> None:
        """Add a task that adds a number to `done`."""
        self.add(lambda: self.done.append(number))

    def _next_task(self) -> Callable[[], None] | None:
        self.changed.wait_for(lambda: self._waiting or not self._open)
        return self._waiting.popleft() if self._waiting else None


@pytest.mark.parametrize("count", [1, 3])
def test_workers_start_when_they_are_needed_and_end_without_tasks(count: int) -> None:
    before = threading.active_count()
    tasks = Tasks(count)
    assert threading.active_count() == before
    assert tasks.workers.threads() == []
    with tasks.running():
        threads = tasks.workers.threads()
        assert len(set(threads)) == count
        assert all(thread.is_alive() for thread in threads)
        tasks.workers.start()
        assert tasks.workers.threads() == threads  # none is missing
        assert threading.active_count() == before + count
        for number in range(50):
            tasks.add_number(number)
        wait_until(lambda: len(tasks.done) == 50)
        assert tasks.workers.threads() == threads
    assert sorted(tasks.done) == list(range(50))
    assert tasks.workers.threads() == []
    assert threading.active_count() == before


@pytest.mark.parametrize("count", [1, 3])
def test_a_worker_that_is_replaced_ends_after_its_task(count: int) -> None:
    replaced: list[threading.Thread] = []

    def replace_worker() -> None:
        replaced.append(threading.current_thread())
        tasks.workers.replace()
        tasks.workers.replace()  # as from two failed calls of one task
        tasks.add_number(1)

    tasks = Tasks(count)
    with tasks.running():
        before = set(tasks.workers.threads())
        tasks.add(replace_worker)
        wait_until(lambda: tasks.done == [1])
        [thread] = replaced
        thread.join(TIMEOUT)
        assert not thread.is_alive()
        assert len(tasks.workers.threads()) == count
        assert before - set(tasks.workers.threads()) == {thread}


def test_workers_start_again() -> None:
    tasks = Tasks(2)
    for number in range(30):
        with tasks.running():
            assert len(tasks.workers.threads()) == 2
            tasks.add_number(number)
        assert tasks.workers.threads() == []
    assert tasks.done == list(range(30))


def test_workers_run_tasks_at_the_same_time() -> None:
    tasks, together = Tasks(3), threading.Barrier(3)
    names: list[str] = []

    def meet() -> None:
        together.wait(TIMEOUT)
        names.append(threading.current_thread().name)

    with tasks.running():
        for _ in range(3):
            tasks.add(meet)
        wait_until(lambda: len(names) == 3)
    assert set(names) == {"whisperbatch-engine"}


def test_one_worker_runs_tasks_in_order() -> None:
    tasks = Tasks(1)
    with tasks.running():
        for number in range(100):
            tasks.add_number(number)
    assert tasks.done == list(range(100))


def test_a_worker_that_ends_is_replaced() -> None:
    """Whenever the threads are started, their number is complete, and no task is left."""
    tasks, threads = Tasks(3), set[threading.Thread]()
    for number in range(300):
        tasks.open_again()
        running = tasks.workers.threads()
        assert len(running) == 3
        threads.update(running)
        tasks.add_number(number)
        wait_until(lambda: len(tasks.done) == number + 1)  # noqa: B023 - called in the loop
        tasks.close()
    for thread in threads:
        thread.join(TIMEOUT)
    assert tasks.done == list(range(300))
    assert tasks.workers.threads() == []


def test_only_missing_workers_are_started() -> None:
    tasks, started, release = Tasks(3), threading.Event(), threading.Event()

    def long() -> None:
        started.set()
        assert release.wait(TIMEOUT)

    with tasks.running():
        tasks.add(long)
        assert started.wait(TIMEOUT)
        tasks.close()
        wait_until(lambda: len(tasks.workers.threads()) == 1)  # its task is not done
        [busy] = tasks.workers.threads()
        tasks.open_again()
        assert len(tasks.workers.threads()) == 3
        assert busy in tasks.workers.threads()
        release.set()


def test_a_waiting_worker_holds_no_task() -> None:
    """A task of the engine holds the rows of a call."""

    class Rows:
        pass

    tasks, rows = Tasks(1), Rows()
    collected = weakref.ref(rows)

    def task(rows: Rows = rows) -> None:
        tasks.done.append(0)

    with tasks.running():
        tasks.add(task)
        del rows, task
        wait_until(lambda: bool(tasks.done))
        gc.collect()
        wait_until(lambda: collected() is None)


@readers
@pytest.mark.parametrize("taken", [1, 5])
def test_close_stops_and_closes_the_source(reader: Reader, taken: int) -> None:
    source = Source()
    items = reader(source.items())
    for _ in range(taken):
        next(items)
    items.close()
    assert source.closed.is_set()
    read = source.read
    time.sleep(0.01)
    assert source.read == read


@readers
def test_break_closes_the_source(reader: Reader) -> None:
    source = Source()
    for item in reader(source.items()):
        if item == 3:
            break
    wait_until(source.closed.is_set)


@readers
def test_an_error_of_the_consumer_closes_the_source(reader: Reader) -> None:
    source = Source()
    with pytest.raises(KeyboardInterrupt), closing(reader(source.items())) as items:  # noqa: PT012
        for item in items:
            if item == 3:
                raise KeyboardInterrupt
    assert source.closed.is_set()


@readers
@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_an_error_thrown_into_the_generator_closes_the_source(
    reader: Reader, error: type[BaseException]
) -> None:
    source = Source()
    items = reader(source.items())
    next(items)
    with pytest.raises(error):
        items.throw(error())
    assert source.closed.is_set()


def test_ctrl_c_ends_the_wait_for_an_item() -> None:
    """The signal arrives during the wait for the next item."""
    waiting = threading.Event()
    more = threading.Event()

    def slow() -> Generator[int, None, None]:
        yield 0
        waiting.set()
        more.wait(TIMEOUT)
        yield 1

    def interrupt() -> None:
        waiting.wait(TIMEOUT)
        time.sleep(0.05)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        time.sleep(0.05)
        more.set()

    # programs that a shell starts in the background ignore SIGINT
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        items = prefetch(slow(), 1)
        next(items)
        signalling = threading.Thread(target=interrupt)
        signalling.start()
        with pytest.raises(KeyboardInterrupt):
            list(items)
        signalling.join()
    finally:
        signal.signal(signal.SIGINT, before)


def test_close_does_not_wait_forever_for_a_blocked_source(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A pipe without a writer: the source is closed later, when the read returns."""
    monkeypatch.setattr(prefetch_module, "JOIN_TIMEOUT", 0.05)
    more, closed, waiting = threading.Event(), threading.Event(), threading.Event()

    def slow() -> Generator[int, None, None]:
        try:
            yield 0
            waiting.set()
            more.wait(TIMEOUT)
            yield 1
        finally:
            closed.set()

    items = prefetch(slow(), 2)
    next(items)
    assert waiting.wait(TIMEOUT)
    with caplog.at_level(logging.WARNING):
        items.close()
    assert "a source did not stop within 0.05 s" in caplog.text
    assert not closed.is_set()
    before = threading.active_count()
    more.set()
    assert closed.wait(TIMEOUT)
    wait_until(lambda: threading.active_count() == before - 1)


def test_close_waits_for_running_work_and_cancels_pending_work() -> None:
    started, done = threading.Event(), []
    release = threading.Event()

    def work(item: int) -> int:
        if item:
            started.set()
            release.wait(TIMEOUT)
        done.append(item)
        return item

    items = map_ordered(work, range(100), workers=1, depth=10)
    assert next(items) == 0
    assert started.wait(TIMEOUT)
    threading.Timer(0.02, release.set).start()
    items.close()
    assert done == [0, 1]
    wait_until(lambda: not any(isinstance(t, threading.Timer) for t in threading.enumerate()))


def test_an_error_during_close_of_the_source_is_ignored() -> None:
    def stubborn() -> Generator[int, None, None]:
        try:
            while True:
                yield 0
        finally:
            raise OSError("cannot close")

    items = prefetch(stubborn(), 1)
    next(items)
    items.close()


def test_an_error_of_an_exhausted_source_is_raised() -> None:
    source = Source(2, OSError("cannot close"))
    items = prefetch(source.items(), 8)
    assert [next(items), next(items)] == [0, 1]
    with pytest.raises(OSError, match="cannot close"):
        next(items)


def test_garbage_collection_of_a_cycle_closes_the_source() -> None:
    """Only the garbage collector can delete an abandoned stream in a reference cycle."""
    source = Source()
    holder: dict[str, object] = {}
    items = nested(source.items())
    next(items)
    holder["items"], holder["self"] = items, holder
    del items, holder
    gc.collect()
    assert source.closed.is_set()


def test_the_producer_thread_may_collect_its_own_stream() -> None:
    """The garbage collector runs in any thread, also in the thread that reads the source."""
    holder: list[Generator[int, None, None]] = []
    taken, closed = threading.Event(), threading.Event()

    def releasing() -> Generator[int, None, None]:
        try:
            yield 0
            assert taken.wait(TIMEOUT)
            holder.clear()
            yield 1
        finally:
            closed.set()

    holder.append(prefetch(releasing(), 2))
    assert next(holder[0]) == 0
    taken.set()
    assert closed.wait(TIMEOUT)
    wait_until(lambda: not any(t.name == "whisperbatch-prefetch" for t in threading.enumerate()))


def test_another_thread_may_consume_the_items() -> None:
    items = map_ordered(double, range(50), workers=2, depth=3)
    received: list[int] = []
    thread = threading.Thread(target=lambda: received.extend(items))
    thread.start()
    thread.join(TIMEOUT)
    assert received == [2 * item for item in range(50)]


def test_many_streams_leave_no_threads() -> None:
    for _ in range(30):
        streams = [nested(Source().items()) for _ in range(3)]
        assert [next(stream) for stream in streams] == [0, 0, 0]
        for stream in streams:
            stream.close()


@pytest.mark.parametrize("left", ["stream", "None"])
def test_a_program_with_an_open_stream_ends(left: str) -> None:
    program = (
        "import itertools\n"
        "from whisperbatch.prefetch import map_ordered, prefetch\n"
        "source = (item for item in itertools.count())\n"
        "stream = map_ordered(abs, prefetch(source, 2), workers=2, depth=2)\n"
        "print(next(stream), next(stream))\n"
        f"stream = {left}\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=20, check=True
    )
    assert (result.stdout, result.stderr) == ("0 1\n", "")


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("left", ["stream", "None"])
def test_a_program_with_many_open_sources_ends(left: str, ordered: bool) -> None:
    program = (
        "import itertools\n"
        "from whisperbatch.prefetch import interleave\n"
        "sources = (itertools.repeat(n) for n in itertools.count())\n"
        f"stream = interleave(sources, at_once=4, depth=2, ordered={ordered})\n"
        "print(all(next(stream) in range(4) for _ in range(9)))\n"
        f"stream = {left}\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=20, check=True
    )
    assert (result.stdout, result.stderr) == ("True\n", "")
