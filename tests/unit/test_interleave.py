"""`interleave`: the items of many sources, which are read together; how it starts and stops."""

import logging
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
from whisperbatch.pipeline_run import in_sequence
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


@both_orders
def test_close_stops_and_closes_all_sources(ordered: bool) -> None:
    recorder = Recorder()
    items = interleave(recorder.sources([10**9] * 9), at_once=3, depth=2, ordered=ordered)
    received = [next(items)[0] for _ in range(20)]
    items.close()
    assert recorder.open == set()
    assert recorder.ended == recorder.read.keys() <= {"0", "1", "2"}
    assert recorder.taken <= 4
    for name, read in recorder.read.items():
        assert read <= received.count(name) + 2
    read_before = dict(recorder.read)
    time.sleep(0.01)
    assert recorder.read == read_before


def test_close_waits_for_all_blocked_sources_together(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(prefetch_module, "JOIN_TIMEOUT", 0.5)
    recorder, unblock = Recorder(), threading.Event()

    def first() -> Generator[Item, None, None]:
        wait_until(lambda: len(recorder.open) == 8)
        yield "first", 0

    blocked = recorder.sources([1] * 8, {str(number): unblock for number in range(8)})
    items = interleave(chain([first()], blocked), at_once=9, depth=1, ordered=False)
    assert next(items) == ("first", 0)
    started = time.monotonic()
    with caplog.at_level(logging.WARNING):
        items.close()
    assert 0.5 <= time.monotonic() - started < 2.0
    assert caplog.text.count("a source did not stop within 0.5 s") == 8
    threads = threading.active_count()
    assert recorder.ended == set()
    unblock.set()
    wait_until(lambda: len(recorder.ended) == 8)
    wait_until(lambda: threading.active_count() == threads - 8)


def test_close_stops_all_sources_at_the_same_time() -> None:
    recorder = Recorder()

    def first() -> Generator[Item, None, None]:
        wait_until(lambda: len(recorder.open) == 8)
        yield "first", 0

    def slow(number: int) -> Generator[Item, None, None]:
        for item in recorder.source(str(number), 10**9):
            yield item
            time.sleep(0.3)

    sources = chain([first()], (slow(number) for number in range(8)))
    items = interleave(sources, at_once=9, depth=100, ordered=True)
    assert next(items) == ("first", 0)
    started = time.monotonic()
    items.close()
    assert time.monotonic() - started < 1.2  # one after the other: 2.4 s
    wait_until(lambda: recorder.open == set())


@both_orders
def test_no_thread_starts_before_the_first_item_is_requested(ordered: bool) -> None:
    before = threading.active_count()
    recorder = Recorder()
    items = interleave(recorder.sources([1]), at_once=2, depth=2, ordered=ordered)
    assert threading.active_count() == before
    items.close()
    assert recorder.taken == 0


def test_without_permission_one_source_is_read_after_the_other() -> None:
    recorder = Recorder()
    items = interleave(
        recorder.sources([3] * 5), at_once=4, depth=8, ordered=False, may_start=lambda: False
    )
    assert list(items) == [(str(number), item) for number in range(5) for item in range(3)]
    assert recorder.most == 1


@both_orders
def test_a_source_starts_when_it_is_permitted(
    ordered: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The notification suffices: the condition is not checked at intervals."""
    monkeypatch.setattr(prefetch_module, "CHECK_INTERVAL", 10 * TIMEOUT)
    recorder, gate = Recorder(), threading.Event()
    gates = {str(number): gate for number in range(4)}
    changed, permitted = threading.Condition(), threading.Event()
    items = interleave(
        recorder.sources([2] * 4, gates),
        at_once=3,
        depth=2,
        ordered=ordered,
        may_start=permitted.is_set,
        changed=changed,
    )
    received: list[Item] = []
    consumer = in_background(lambda: received.extend(items))
    wait_until(lambda: recorder.taken == 2)  # the first is read, the second is ready
    time.sleep(0.05)
    assert (recorder.taken, recorder.open) == (2, {"0"})
    with changed:
        permitted.set()
        changed.notify_all()
    recorder.wait_for_open("0", "1", "2")
    gate.set()
    consumer.join(TIMEOUT)
    assert sorted(received) == [(str(number), item) for number in range(4) for item in range(2)]


def test_a_permission_that_depends_on_time_needs_no_notification() -> None:
    recorder, gate = Recorder(), threading.Event()
    permitted = threading.Event()
    items = interleave(
        recorder.sources([1] * 2, {"0": gate, "1": gate}),
        at_once=2,
        depth=1,
        ordered=True,
        may_start=permitted.is_set,
    )
    received: list[Item] = []
    consumer = in_background(lambda: received.extend(items))
    recorder.wait_for_open("0")
    permitted.set()
    recorder.wait_for_open("0", "1")
    gate.set()
    consumer.join(TIMEOUT)
    assert received == [("0", 0), ("1", 0)]


def test_a_permission_may_be_withdrawn() -> None:
    """A waiting source takes the permission away, as a recording that waits for the engine does."""
    recorder, gate = Recorder(), threading.Event()
    changed = threading.Condition()

    def may_start() -> bool:
        with changed:
            return len(recorder.read) < 2

    items = interleave(
        recorder.sources([2] * 6, {"1": gate}),
        at_once=6,
        depth=4,
        ordered=True,
        may_start=may_start,
        changed=changed,
    )
    assert [next(items) for _ in range(2)] == [("0", 0), ("0", 1)]
    received: list[Item] = []
    consumer = in_background(lambda: received.extend(items))
    recorder.wait_for_open("1")
    time.sleep(0.05)
    assert recorder.read.keys() == {"0", "1"}
    gate.set()
    consumer.join(TIMEOUT)
    assert received == [(str(number), item) for number in range(1, 6) for item in range(2)]


def closing_items(number: int, count: int, closed: list[int]) -> Generator[str, None, None]:
    try:
        for item in range(count):
            yield f"{number}{item}"
    finally:
        closed.append(number)


def test_in_sequence_closes_a_source_before_the_next_is_taken() -> None:
    closed: list[int] = []
    taken: list[list[int]] = []  # for each source, the sources that were closed before

    def sources() -> Generator[Generator[str, None, None], None, None]:
        for number in range(3):
            taken.append([*closed])
            yield closing_items(number, 2, closed)

    result = in_sequence(sources())
    assert [next(result) for _ in range(3)] == ["00", "01", "10"]
    assert closed == [0]
    assert taken == [[], [0]]
    assert list(result) == ["11", "20", "21"]
    assert closed == [0, 1, 2]
    assert taken == [[], [0], [0, 1]]


def test_in_sequence_accepts_lists() -> None:
    assert list(in_sequence([["a"], [], ["b", "c"]])) == ["a", "b", "c"]


def test_closing_in_sequence_closes_the_current_source() -> None:
    closed: list[int] = []
    started = in_sequence(closing_items(number, 5, closed) for number in range(9))
    assert next(started) == "00"
    started.close()
    assert closed == [0]


def test_an_error_ends_in_sequence_and_closes_the_source() -> None:
    closed: list[int] = []

    def broken() -> Generator[str, None, None]:
        yield from closing_items(1, 1, closed)
        raise ValueError("broken")

    sources = [closing_items(0, 1, closed), broken(), closing_items(2, 1, closed)]
    result = in_sequence(sources)
    assert [next(result) for _ in range(2)] == ["00", "10"]
    with pytest.raises(ValueError, match="broken"):
        next(result)
    assert closed == [0, 1]
    with pytest.raises(StopIteration):
        next(result)


def test_in_sequence_starts_no_thread() -> None:
    before = threading.active_count()
    items = in_sequence([counted("a", 2)])
    next(items)
    assert threading.active_count() == before
    items.close()
