"""`prefetch`, `map_ordered`, `interleave` stop threads and close sources, however they end."""

import gc
import logging
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Generator
from contextlib import closing

import pytest

from tests.unit.counting_source import (
    TIMEOUT,
    Reader,
    Source,
    double,
    nested,
    readers,
    wait_until,
)
from whisperbatch import prefetch as prefetch_module
from whisperbatch.prefetch import map_ordered, prefetch

pytestmark = pytest.mark.usefixtures("no_threads_added")


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
