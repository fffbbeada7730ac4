"""`interleave` is closed, and starts sources when it may; `pipeline.in_sequence`."""

import logging
import threading
import time
from collections.abc import Generator
from itertools import chain

import pytest

from tests.unit.counting_source import TIMEOUT, wait_until
from tests.unit.recorded_sources import Item, Recorder, both_orders, counted, in_background
from whisperbatch import prefetch as prefetch_module
from whisperbatch.pipeline import in_sequence
from whisperbatch.prefetch import interleave

pytestmark = pytest.mark.usefixtures("no_threads_added")


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
