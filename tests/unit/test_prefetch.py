"""`prefetch` and `map_ordered`: order, bounds and errors."""

import threading
import time
from collections.abc import Generator
from contextlib import closing
from typing import Any

import pytest

from tests.unit.counting_source import (
    TIMEOUT,
    Reader,
    Source,
    double,
    readers,
    wait_for_reads,
    wait_until,
)
from whisperbatch.prefetch import map_ordered, prefetch

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
