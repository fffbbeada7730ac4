"""Threads: what is ahead is in order and has a bound, and nothing is left when it is abandoned."""

import gc
import logging
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from itertools import chain
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whisperbatch import prefetch as prefetch_module
from whisperbatch.prefetch import map_ordered, prefetch, side_by_side

LONG = 5.0  # seconds: a wait that only a failure uses up


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    before = threading.active_count()
    yield
    assert threading.active_count() == before, threading.enumerate()


class Source:
    """Counts up; knows how far it was read, by which thread, and whether it was closed."""

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


def ahead(source: Generator[int, None, None]) -> Generator[int, None, None]:
    return prefetch(source, 3)


def mapped(source: Generator[int, None, None]) -> Generator[int, None, None]:
    return map_ordered(lambda item: item, source, workers=2, depth=3)


def nested(source: Generator[int, None, None]) -> Generator[int, None, None]:
    return mapped(ahead(mapped(source)))


ways = pytest.mark.parametrize("way", [ahead, mapped, nested])
Way = Callable[[Generator[int, None, None]], Generator[int, None, None]]


def settle(condition: Callable[[], bool]) -> None:
    """Wait until it holds."""
    limit = time.monotonic() + LONG
    while not condition() and time.monotonic() < limit:
        time.sleep(0.001)
    assert condition()


def settle_at(source: Source, read: int) -> None:
    """Wait until this many items are read, and see that it stays there."""
    settle(lambda: source.read >= read)
    time.sleep(0.01)
    assert source.read == read


@ways
@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 100])
def test_everything_in_order(way: Way, count: int) -> None:
    source = Source(count)
    assert list(way(source.items())) == list(range(count))
    assert source.closed.is_set()


def test_results_are_in_order_however_long_each_takes() -> None:
    def slow(item: int) -> int:
        time.sleep(0.002 * (item % 5 == 0))
        return 2 * item

    found = map_ordered(slow, range(60), workers=4, depth=6)
    assert list(found) == [2 * item for item in range(60)]


@pytest.mark.parametrize("depth", [1, 2, 5])
def test_source_is_read_up_to_its_depth_ahead(depth: int) -> None:
    source = Source()
    with closing(prefetch(source.items(), depth)) as items:
        for number in range(4):
            assert next(items) == number
            settle_at(source, number + 1 + depth)
    assert source.closed.is_set()


@pytest.mark.parametrize("depth", [1, 2, 5])
def test_work_is_taken_up_to_its_depth_ahead(depth: int) -> None:
    source = Source()
    with closing(map_ordered(double, source.items(), workers=8, depth=depth)) as items:
        for number in range(4):
            assert next(items) == 2 * number
            settle_at(source, number + 1 + depth)
    assert source.closed.is_set()


def test_workers_work_at_the_same_time() -> None:
    together = threading.Barrier(3)

    def meet(item: int) -> int:
        together.wait(LONG)
        return item

    assert list(map_ordered(meet, range(9), workers=3, depth=3)) == list(range(9))


def test_a_slow_source_holds_up_no_result() -> None:
    more = threading.Event()

    def slow() -> Generator[int, None, None]:
        yield 1
        yield 2
        assert more.wait(LONG)
        yield 3

    items = map_ordered(double, slow(), workers=1, depth=4)
    assert [next(items), next(items)] == [2, 4]
    more.set()
    assert list(items) == [6]


def test_source_works_while_the_consumer_does() -> None:
    source = Source(3)
    items = prefetch(source.items(), 4)
    assert next(items) == 0
    settle(source.closed.is_set)  # nobody asked for the rest
    assert list(items) == [1, 2]
    assert source.thread is not threading.current_thread()


def test_nothing_starts_before_the_first_item_is_asked_for() -> None:
    before = threading.active_count()
    source = Source()
    items = map_ordered(double, source.items(), workers=2, depth=2)
    assert threading.active_count() == before
    items.close()
    assert source.read == 0


@ways
def test_an_error_comes_after_all_that_came_before_it(way: Way) -> None:
    source = Source(7, OSError("unplugged"))
    found: list[int] = []
    with pytest.raises(OSError, match="unplugged") as caught:
        found.extend(way(source.items()))  # extend keeps what came
    assert found == list(range(7))
    assert any(entry.name == "items" for entry in caught.traceback)  # where it happened


@ways
def test_an_error_is_raised_once_and_then_it_is_over(way: Way) -> None:
    items = way(Source(0, OSError("unplugged")).items())
    with pytest.raises(OSError, match="unplugged"):
        next(items)
    with pytest.raises(StopIteration):
        next(items)


def test_an_error_in_work_comes_at_its_place_and_stops_everything() -> None:
    def fail(item: int) -> int:
        if item == 3:
            raise ValueError("three")
        return item

    source = Source()
    found: list[int] = []
    with pytest.raises(ValueError, match="three"):
        found.extend(map_ordered(fail, source.items(), workers=4, depth=6))
    assert found == [0, 1, 2]
    assert source.closed.is_set()
    assert source.read <= 3 + 1 + 6


def test_the_first_error_in_order_counts() -> None:
    second = threading.Event()

    def fail(item: int) -> int:
        if item == 1:
            second.set()
            raise ValueError("second")
        assert second.wait(LONG)
        raise KeyError("first")

    with pytest.raises(KeyError, match="first"):
        next(map_ordered(fail, [0, 1], workers=2, depth=2))


def test_a_result_comes_before_the_sources_error() -> None:
    source = Source(2, OSError("unplugged"))
    items = map_ordered(double, source.items(), workers=2, depth=5)
    assert next(items) == 0
    settle(source.closed.is_set)
    assert next(items) == 2
    with pytest.raises(OSError, match="unplugged"):
        next(items)


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, MemoryError])
@ways
def test_whatever_the_source_raises_comes_through(way: Way, error: type[BaseException]) -> None:
    items = way(Source(1, error()).items())
    assert next(items) == 0
    with pytest.raises(error):
        next(items)


def test_stop_iteration_in_work_is_an_error_not_the_end() -> None:
    def stop(_item: int) -> int:
        return next(iter([]))

    with pytest.raises(RuntimeError, match="StopIteration"):
        list(map_ordered(stop, range(3), workers=1, depth=1))


def test_what_cannot_be_iterated_is_an_error() -> None:
    nothing: Any = None
    with pytest.raises(TypeError, match="not iterable"):
        list(prefetch(nothing, 2))


@ways
@pytest.mark.parametrize("taken", [1, 5])
def test_abandoned_by_close(way: Way, taken: int) -> None:
    source = Source()
    items = way(source.items())
    for _ in range(taken):
        next(items)
    items.close()
    assert source.closed.is_set()
    read = source.read
    time.sleep(0.01)
    assert source.read == read


@ways
def test_abandoned_by_break(way: Way) -> None:
    source = Source()
    for item in way(source.items()):
        if item == 3:
            break
    settle(source.closed.is_set)


@ways
def test_abandoned_by_an_error_of_the_consumer(way: Way) -> None:
    source = Source()
    with pytest.raises(KeyboardInterrupt), closing(way(source.items())) as items:  # noqa: PT012
        for item in items:
            if item == 3:
                raise KeyboardInterrupt
    assert source.closed.is_set()


@ways
@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_an_error_thrown_in_stops_it(way: Way, error: type[BaseException]) -> None:
    source = Source()
    items = way(source.items())
    next(items)
    with pytest.raises(error):
        items.throw(error())
    assert source.closed.is_set()


def test_interrupted_while_it_waits() -> None:
    """As Ctrl-C does: the error is raised inside the wait for the next item."""
    waiting = threading.Event()
    more = threading.Event()

    def slow() -> Generator[int, None, None]:
        yield 0
        waiting.set()
        more.wait(LONG)
        yield 1

    def interrupt() -> None:
        waiting.wait(LONG)
        time.sleep(0.05)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        time.sleep(0.05)
        more.set()

    # a shell that starts programs in the background has them ignore it
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


def test_a_waiting_source_is_closed_when_it_wakes(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A pipe that nobody writes to: not waited for without end, but closed in the end."""
    monkeypatch.setattr(prefetch_module, "PATIENCE", 0.05)
    more, closed, waiting = threading.Event(), threading.Event(), threading.Event()

    def slow() -> Generator[int, None, None]:
        try:
            yield 0
            waiting.set()
            more.wait(LONG)
            yield 1
        finally:
            closed.set()

    items = prefetch(slow(), 2)
    next(items)
    assert waiting.wait(LONG)
    with caplog.at_level(logging.WARNING):
        items.close()
    assert "a source did not stop within 0.05 s" in caplog.text
    assert not closed.is_set()
    before = threading.active_count()
    more.set()
    assert closed.wait(LONG)
    settle(lambda: threading.active_count() == before - 1)


def test_work_that_is_going_on_is_waited_for_and_the_rest_is_not_done() -> None:
    started, done = threading.Event(), []
    release = threading.Event()

    def work(item: int) -> int:
        if item:
            started.set()
            release.wait(LONG)
        done.append(item)
        return item

    items = map_ordered(work, range(100), workers=1, depth=10)
    assert next(items) == 0
    assert started.wait(LONG)
    threading.Timer(0.02, release.set).start()
    items.close()
    assert done == [0, 1]
    settle(lambda: not any(isinstance(t, threading.Timer) for t in threading.enumerate()))


def test_an_error_as_the_source_closes_does_not_replace_the_consumers() -> None:
    def stubborn() -> Generator[int, None, None]:
        try:
            while True:
                yield 0
        finally:
            raise OSError("cannot close")

    items = prefetch(stubborn(), 1)
    next(items)
    items.close()


def test_an_error_as_an_exhausted_source_closes_is_raised() -> None:
    source = Source(2, OSError("cannot close"))
    items = prefetch(source.items(), 8)
    assert [next(items), next(items)] == [0, 1]
    with pytest.raises(OSError, match="cannot close"):
        next(items)


def test_released_in_a_cycle() -> None:
    """An abandoned stream that only the garbage collector finds."""
    source = Source()
    holder: dict[str, object] = {}
    items = nested(source.items())
    next(items)
    holder["items"], holder["self"] = items, holder
    del items, holder
    gc.collect()
    assert source.closed.is_set()


def test_released_by_its_own_thread() -> None:
    """The garbage collector runs in any thread, the one that reads the source too."""
    holder: list[Generator[int, None, None]] = []
    taken, closed = threading.Event(), threading.Event()

    def releasing() -> Generator[int, None, None]:
        try:
            yield 0
            assert taken.wait(LONG)
            holder.clear()
            yield 1
        finally:
            closed.set()

    holder.append(prefetch(releasing(), 2))
    assert next(holder[0]) == 0
    taken.set()
    assert closed.wait(LONG)
    settle(lambda: not any(t.name == "whisperbatch-prefetch" for t in threading.enumerate()))


def test_consumed_by_another_thread_than_made_it() -> None:
    items = map_ordered(double, range(50), workers=2, depth=3)
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.extend(items))
    thread.start()
    thread.join(LONG)
    assert found == [2 * item for item in range(50)]


def test_many_streams_at_a_time_leave_nothing() -> None:
    for _ in range(30):
        streams = [nested(Source().items()) for _ in range(3)]
        assert [next(stream) for stream in streams] == [0, 0, 0]
        for stream in streams:
            stream.close()


@pytest.mark.parametrize("left", ["stream", "None"])
def test_a_program_ends_that_left_a_stream_open(left: str) -> None:
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


def counted(name: str, count: int) -> Generator[tuple[str, int], None, None]:
    for number in range(count):
        yield name, number


@given(st.lists(st.integers(0, 6), max_size=8), st.integers(1, 4), st.integers(1, 3))
def test_sources_side_by_side_lose_nothing(counts: list[int], at_once: int, depth: int) -> None:
    names = [str(number) for number in range(len(counts))]
    sources = (counted(name, count) for name, count in zip(names, counts, strict=True))
    items = side_by_side(sources, at_once=at_once, depth=depth, lull=None)
    found = [item for item in items if item]
    for name, count in zip(names, counts, strict=True):
        assert [number for other, number in found if other == name] == list(range(count))
    assert len(found) == sum(counts)


def test_a_slow_source_holds_up_no_other() -> None:
    go = threading.Event()

    def slow() -> Generator[tuple[str, int], None, None]:
        yield "slow", 0
        assert go.wait(LONG)
        yield "slow", 1

    others = (counted(name, 3) for name in "abc")
    items = side_by_side(chain([slow()], others), at_once=2, depth=1, lull=None)
    found = [next(items) for _ in range(11)]
    assert found[0] == ("slow", 0)
    assert found[1:10] == [(name, number) for name in "abc" for number in range(3)]
    assert found[10] is None  # what is held up is said once
    go.set()
    assert list(items) == [("slow", 1)]


def test_a_slow_source_is_not_waited_for_each_time() -> None:
    go = threading.Event()

    def slow() -> Generator[tuple[str, int], None, None]:
        assert go.wait(LONG)
        yield "slow", 0

    with closing(
        side_by_side(chain([slow()], [counted("a", 100)]), at_once=2, depth=1, lull=None)
    ) as items:
        started = time.monotonic()
        found = [next(items) for _ in range(100)]
        assert time.monotonic() - started < 50 * prefetch_module.MOMENT
        go.set()
    assert [item for item in found if item] == [
        ("a", n) for n in range(len([*filter(None, found)]))
    ]


def test_what_came_before_an_error_comes_first() -> None:
    def sources() -> Generator[Generator[tuple[str, int], None, None], None, None]:
        yield counted("a", 3)
        yield counted("b", 2)
        raise OSError("no more")

    items = side_by_side(sources(), at_once=4, depth=1, lull=None)
    found = [next(items) for _ in range(5)]
    assert sorted(filter(None, found)) == [*(("a", n) for n in range(3)), ("b", 0), ("b", 1)]
    with pytest.raises(OSError, match="no more"):
        next(items)


def test_no_more_sources_are_taken_than_are_read_at_a_time() -> None:
    taken: list[int] = []
    go = threading.Event()

    def waiting() -> Generator[int, None, None]:
        assert go.wait(LONG)
        yield 0

    def sources() -> Generator[Generator[int, None, None], None, None]:
        for number in range(6):
            taken.append(number)
            yield waiting()

    with closing(side_by_side(sources(), at_once=2, depth=1, lull=None)) as items:
        thread = threading.Thread(target=next, args=(items,))
        thread.start()
        settle(lambda: len(taken) == 3)  # two are read, one is at hand
        time.sleep(0.05)
        assert taken == [0, 1, 2]
        go.set()
        thread.join(LONG)
    assert len(taken) <= 5


def test_a_source_that_comes_late_holds_up_no_other() -> None:
    go = threading.Event()

    def sources() -> Generator[Generator[tuple[str, int], None, None], None, None]:
        yield counted("early", 2)
        assert go.wait(LONG)
        yield counted("late", 1)

    items = side_by_side(sources(), at_once=2, depth=1, lull=None)
    assert [next(items) for _ in range(2)] == [("early", 0), ("early", 1)]
    go.set()
    assert [item for item in items if item] == [("late", 0)]


def test_an_error_of_one_of_many_is_raised_and_all_are_closed() -> None:
    opened: list[str] = []
    closed: list[str] = []

    def endless(name: str) -> Generator[str, None, None]:
        opened.append(name)
        try:
            while True:
                yield name
        finally:
            closed.append(name)

    def broken() -> Generator[str, None, None]:
        yield "broken"
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        list(side_by_side([broken(), endless("b")], at_once=3, depth=1, lull=None))
    assert closed == opened
