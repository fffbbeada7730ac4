"""`interleave`: many sources, of which a slow one does not delay the others."""

import threading
import time
from collections.abc import Generator
from contextlib import closing
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.counting_source import (
    TIMEOUT,
    wait_until,
)
from whisperbatch import prefetch as prefetch_module
from whisperbatch.prefetch import interleave

pytestmark = pytest.mark.usefixtures("no_threads_added")


def counted(name: str, count: int) -> Generator[tuple[str, int], None, None]:
    for number in range(count):
        yield name, number


@given(st.lists(st.integers(0, 6), max_size=8), st.integers(1, 4), st.integers(1, 3))
def test_no_item_is_lost(counts: list[int], at_once: int, depth: int) -> None:
    names = [str(number) for number in range(len(counts))]
    sources = (counted(name, count) for name, count in zip(names, counts, strict=True))
    items = interleave(sources, at_once=at_once, depth=depth, idle=None)
    received = [item for item in items if item]
    for name, count in zip(names, counts, strict=True):
        assert [number for source, number in received if source == name] == list(range(count))
    assert len(received) == sum(counts)


def test_a_slow_source_does_not_delay_the_others() -> None:
    unblock = threading.Event()

    def slow() -> Generator[tuple[str, int], None, None]:
        yield "slow", 0
        assert unblock.wait(TIMEOUT)
        yield "slow", 1

    fast = (counted(name, 3) for name in "abc")
    items = interleave(chain([slow()], fast), at_once=2, depth=1, idle=None)
    received = [next(items) for _ in range(11)]
    assert received[0] == ("slow", 0)
    assert received[1:10] == [(name, number) for name in "abc" for number in range(3)]
    assert received[10] is None  # idle, yielded once
    unblock.set()
    assert list(items) == [("slow", 1)]


def test_a_slow_source_is_not_waited_for_before_each_item() -> None:
    unblock = threading.Event()

    def slow() -> Generator[tuple[str, int], None, None]:
        assert unblock.wait(TIMEOUT)
        yield "slow", 0

    with closing(
        interleave(chain([slow()], [counted("a", 100)]), at_once=2, depth=1, idle=None)
    ) as items:
        started = time.monotonic()
        received = [next(items) for _ in range(100)]
        assert time.monotonic() - started < 50 * prefetch_module.TURN_TIMEOUT
        unblock.set()
    assert [item for item in received if item] == [
        ("a", n) for n in range(len([*filter(None, received)]))
    ]


def test_items_come_before_the_error_of_the_iteration_over_sources() -> None:
    def sources() -> Generator[Generator[tuple[str, int], None, None], None, None]:
        yield counted("a", 3)
        yield counted("b", 2)
        raise OSError("no more")

    items = interleave(sources(), at_once=4, depth=1, idle=None)
    received = [next(items) for _ in range(5)]
    assert sorted(filter(None, received)) == [*(("a", n) for n in range(3)), ("b", 0), ("b", 1)]
    with pytest.raises(OSError, match="no more"):
        next(items)


def test_at_most_one_source_is_taken_in_advance() -> None:
    taken: list[int] = []
    unblock = threading.Event()

    def waiting() -> Generator[int, None, None]:
        assert unblock.wait(TIMEOUT)
        yield 0

    def sources() -> Generator[Generator[int, None, None], None, None]:
        for number in range(6):
            taken.append(number)
            yield waiting()

    with closing(interleave(sources(), at_once=2, depth=1, idle=None)) as items:
        thread = threading.Thread(target=next, args=(items,))
        thread.start()
        wait_until(lambda: len(taken) == 3)  # two active sources and the next
        time.sleep(0.05)
        assert taken == [0, 1, 2]
        unblock.set()
        thread.join(TIMEOUT)
    assert len(taken) <= 5


def test_a_late_source_does_not_delay_the_others() -> None:
    unblock = threading.Event()

    def sources() -> Generator[Generator[tuple[str, int], None, None], None, None]:
        yield counted("early", 2)
        assert unblock.wait(TIMEOUT)
        yield counted("late", 1)

    items = interleave(sources(), at_once=2, depth=1, idle=None)
    assert [next(items) for _ in range(2)] == [("early", 0), ("early", 1)]
    unblock.set()
    assert [item for item in items if item] == [("late", 0)]


def test_an_error_of_a_source_is_raised_and_all_sources_are_closed() -> None:
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
        list(interleave([broken(), endless("b")], at_once=3, depth=1, idle=None))
    assert closed == opened
