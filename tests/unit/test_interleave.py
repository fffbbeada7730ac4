"""`interleave`: the items of many sources, which are read together."""

import threading
import time
from collections.abc import Generator
from contextlib import closing
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.counting_source import TIMEOUT, wait_until
from tests.unit.recorded_sources import Item, Recorder, both_orders, counted, in_background
from whisperbatch import prefetch as prefetch_module
from whisperbatch.prefetch import interleave

pytestmark = pytest.mark.usefixtures("no_threads_added")


@given(st.lists(st.integers(0, 6), max_size=8), st.integers(1, 4), st.integers(1, 3), st.booleans())
def test_no_item_is_lost(counts: list[int], at_once: int, depth: int, ordered: bool) -> None:
    names = [str(number) for number in range(len(counts))]
    sources = (counted(name, count) for name, count in zip(names, counts, strict=True))
    received = list(interleave(sources, at_once=at_once, depth=depth, ordered=ordered))
    for name, count in zip(names, counts, strict=True):
        assert [number for source, number in received if source == name] == list(range(count))
    assert len(received) == sum(counts)
    if ordered:
        assert [int(name) for name, _ in received] == sorted(int(name) for name, _ in received)


def test_a_slow_source_does_not_delay_the_others() -> None:
    unblock = threading.Event()

    def slow() -> Generator[Item, None, None]:
        yield "slow", 0
        assert unblock.wait(TIMEOUT)
        yield "slow", 1

    fast = (counted(name, 3) for name in "abc")
    items = interleave(chain([slow()], fast), at_once=2, depth=1, ordered=False)
    received = [next(items) for _ in range(10)]
    assert received.count(("slow", 0)) == 1
    received.remove(("slow", 0))
    assert received == [(name, number) for name in "abc" for number in range(3)]
    unblock.set()
    assert list(items) == [("slow", 1)]


def test_a_slow_source_is_not_waited_for_before_each_item() -> None:
    unblock = threading.Event()

    def slow() -> Generator[Item, None, None]:
        assert unblock.wait(TIMEOUT)
        yield "slow", 0

    sources = chain([slow()], [counted("a", 100)])
    with closing(interleave(sources, at_once=2, depth=1, ordered=False)) as items:
        started = time.monotonic()
        received = [next(items) for _ in range(100)]
        assert time.monotonic() - started < 50 * prefetch_module.CHECK_INTERVAL
        unblock.set()
    assert received == [("a", number) for number in range(100)]


def test_items_of_earlier_sources_come_first() -> None:
    recorder = Recorder()
    items = interleave(recorder.sources([4, 4]), at_once=2, depth=5, ordered=False)
    taken = [next(items)]
    wait_until(lambda: recorder.taken == 2)
    taken.append(next(items))  # the second source has been started before this item is taken
    wait_until(lambda: recorder.ended == {"0", "1"})
    everything = [(name, number) for name in "01" for number in range(4)]
    assert list(items) == [item for item in everything if item not in taken]


@pytest.mark.parametrize("at_once", [1, 2, 3])
def test_a_slow_source_does_not_stop_the_reading_of_the_others(at_once: int) -> None:
    """The others are read to their end, but at most four times as many sources are held."""
    recorder, gate = Recorder(), threading.Event()
    sources = recorder.sources([1] + [2] * 20, {"0": gate})
    items = interleave(sources, at_once=at_once, depth=4, ordered=True)
    received: list[Item] = []
    consumer = in_background(lambda: received.extend(items))
    held = 0 if at_once == 1 else 4 * at_once - 1
    wait_until(lambda: recorder.taken == held + 2)  # the slow source, and one in advance
    wait_until(lambda: recorder.ended == {str(number) for number in range(1, held + 1)})
    time.sleep(0.05)
    assert recorder.taken == held + 2
    assert recorder.read == {"0": 0} | {str(number): 2 for number in range(1, held + 1)}
    assert received == []
    gate.set()
    consumer.join(TIMEOUT)
    assert received == [("0", 0)] + [(str(n), item) for n in range(1, 21) for item in range(2)]


def test_behind_a_slow_source_each_source_is_read_depth_items_ahead() -> None:
    recorder, gate = Recorder(), threading.Event()
    sources = recorder.sources([1] + [100] * 5, {"0": gate})
    items = interleave(sources, at_once=3, depth=4, ordered=True)
    received: list[Item] = []
    consumer = in_background(lambda: received.extend(items))
    expected = {"0": 0, "1": 4, "2": 4}
    wait_until(lambda: recorder.read == expected)
    time.sleep(0.05)
    assert recorder.read == expected
    assert (received, recorder.taken) == ([], 4)
    gate.set()
    consumer.join(TIMEOUT)
    assert received == [("0", 0)] + [(str(n), item) for n in range(1, 6) for item in range(100)]


@both_orders
@pytest.mark.parametrize("at_once", [1, 2, 3])
def test_at_most_this_number_of_sources_is_read_at_a_time(at_once: int, ordered: bool) -> None:
    recorder = Recorder()
    gates = {str(number): threading.Event() for number in range(9)}
    items = interleave(recorder.sources([3] * 9, gates), at_once=at_once, depth=2, ordered=ordered)
    received: list[Item] = []
    consumer = in_background(lambda: received.extend(items))
    for number in range(9):  # each place that becomes free is taken by the next source
        recorder.wait_for_open(*(str(n) for n in range(number, min(number + at_once, 9))))
        gates[str(number)].set()
    consumer.join(TIMEOUT)
    assert recorder.most == at_once
    assert sorted(received) == [(str(n), item) for n in range(9) for item in range(3)]


@both_orders
def test_items_come_before_the_error_of_the_iteration_over_sources(ordered: bool) -> None:
    def sources() -> Generator[Generator[Item, None, None], None, None]:
        yield counted("a", 3)
        yield counted("b", 2)
        raise OSError("no more")

    items = interleave(sources(), at_once=4, depth=1, ordered=ordered)
    received = [next(items) for _ in range(5)]
    assert sorted(received) == [*(("a", n) for n in range(3)), ("b", 0), ("b", 1)]
    with pytest.raises(OSError, match="no more"):
        next(items)


@both_orders
def test_at_most_one_source_is_taken_in_advance(ordered: bool) -> None:
    recorder, unblock = Recorder(), threading.Event()
    gates = {str(number): unblock for number in range(6)}
    sources = recorder.sources([1] * 6, gates)
    with closing(interleave(sources, at_once=2, depth=1, ordered=ordered)) as items:
        consumer = in_background(lambda: next(items))
        wait_until(lambda: recorder.taken == 3)  # two active sources and the next
        time.sleep(0.05)
        assert recorder.taken == 3
        unblock.set()
        consumer.join(TIMEOUT)
    assert recorder.taken <= 5


@both_orders
def test_a_late_source_does_not_delay_the_others(ordered: bool) -> None:
    unblock = threading.Event()

    def sources() -> Generator[Generator[Item, None, None], None, None]:
        yield counted("early", 2)
        assert unblock.wait(TIMEOUT)
        yield counted("late", 1)

    items = interleave(sources(), at_once=2, depth=1, ordered=ordered)
    assert [next(items) for _ in range(2)] == [("early", 0), ("early", 1)]
    unblock.set()
    assert list(items) == [("late", 0)]


@both_orders
def test_an_error_of_a_source_is_raised_and_all_sources_are_closed(ordered: bool) -> None:
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
        list(interleave([broken(), endless("b")], at_once=3, depth=1, ordered=ordered))
    assert closed == opened


def test_the_error_of_a_later_source_comes_after_the_items_of_earlier_sources() -> None:
    recorder = Recorder()

    def broken() -> Generator[Item, None, None]:
        yield "broken", 0
        raise ValueError("broken")

    sources = [recorder.source("a", 5), broken(), recorder.source("c", 5)]
    received: list[Item] = []
    with pytest.raises(ValueError, match="broken"):
        received.extend(interleave(sources, at_once=3, depth=2, ordered=True))
    assert received == [*(("a", number) for number in range(5)), ("broken", 0)]
    assert recorder.open == set()
