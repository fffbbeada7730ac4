"""A call for which the memory is too small is divided, and later calls are smaller."""

import logging
from collections.abc import Callable

import pytest

from tests.unit.scheduling.row_calls import CountedScheduler, GatedEngine
from whisperbatch.errors import EngineError
from whisperbatch.scheduling import RunShare

pytestmark = pytest.mark.usefixtures("no_threads_left", "rare_checks")

ERRORS = [
    MemoryError(),
    EngineError("CUDA out of memory"),
    EngineError("fake: CUDA failed with error out of memory"),
    RuntimeError("std::bad_alloc"),
    RuntimeError("Failed to allocate 5 GB"),
    OSError("[Errno 12] Cannot allocate memory"),
]
MESSAGE = "the device is out of memory; from now on, a call has at most {} rows"


def with_capacity(rows: int, error: Exception) -> Callable[[int], None]:
    """Return a check that raises this error if a call has more rows."""

    def check(count: int) -> None:
        if count > rows:
            raise error

    return check


def out_of_memory(
    capacity: int, error: Exception | None = None
) -> tuple[GatedEngine, CountedScheduler]:
    """Return an engine with memory for calls of this number of rows, and its scheduler."""
    engine = GatedEngine()
    engine.fail = with_capacity(capacity, error or MemoryError())
    engine.gate.set()
    return engine, CountedScheduler(engine)


@pytest.mark.parametrize("error", ERRORS, ids=str)
def test_a_call_is_divided_and_later_calls_have_at_most_half_the_rows(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    engine, scheduler = out_of_memory(4, error)
    run = RunShare()
    with scheduler.running(run), caplog.at_level(logging.WARNING):
        assert scheduler.start(run, 1, 2, 3, 4, 5, 6, 7, 8).result() == [1, 2, 3, 4, 5, 6, 7, 8]
        assert engine.attempts == [8, 4, 4]
        engine.attempts.clear()
        assert scheduler.start(run, 1, 2, 3, 4, 5, 6).result() == [1, 2, 3, 4, 5, 6]
    assert engine.attempts == [4, 2]
    assert caplog.messages == [MESSAGE.format(4)]


def test_the_limit_holds_for_all_later_runs() -> None:
    engine, scheduler = out_of_memory(4)
    for _ in range(2):
        with scheduler.running(run := RunShare()):
            scheduler.start(run, 1, 2, 3, 4, 5, 6).result()
    assert engine.attempts == [6, 3, 3, 3, 3]


def test_a_call_is_divided_until_the_memory_is_enough(caplog: pytest.LogCaptureFixture) -> None:
    engine, scheduler = out_of_memory(2)
    with scheduler.running(run := RunShare()), caplog.at_level(logging.WARNING):
        assert scheduler.start(run, 1, 2, 3, 4, 5, 6, 7).result() == [1, 2, 3, 4, 5, 6, 7]
        assert engine.attempts == [7, 3, 1, 2, 4, 2, 2]
        engine.attempts.clear()
        assert scheduler.start(run, 1, 2, 3).result() == [1, 2, 3]
    assert engine.attempts == [1, 1, 1]  # half of the failed call with 3 rows
    assert caplog.messages == [MESSAGE.format(3), MESSAGE.format(1)]


def test_the_limit_never_rises(caplog: pytest.LogCaptureFixture) -> None:
    """Calls that are in progress when the limit is set may fail later, with more rows."""
    engine, scheduler = out_of_memory(2)
    with scheduler.running(run := RunShare()), caplog.at_level(logging.WARNING):
        scheduler.start(run, 1, 2, 3).result()
        assert engine.attempts == [3, 1, 2]
        scheduler._max_rows = None  # as in a call that began before
        engine.attempts.clear()
        scheduler.start(run, *range(1, 9)).result()
    assert engine.attempts == [8, 4, 2, 2, 4, 2, 2]
    assert caplog.messages == [MESSAGE.format(1), MESSAGE.format(4), MESSAGE.format(2)]


def test_the_rows_of_all_threads_of_a_divided_call_are_computed() -> None:
    engine, scheduler = out_of_memory(3)
    engine.gate.clear()
    with scheduler.running(run := RunShare()):
        scheduler.hold(run)
        callers = [scheduler.start(run, level, -level) for level in (1.0, 2.0, 3.0)]
        engine.gate.set()
        assert [caller.result() for caller in callers] == [[1, -1], [2, -2], [3, -3]]
    assert engine.attempts == [1, 6, 3, 3]


def test_a_row_for_which_the_memory_is_too_small_fails(caplog: pytest.LogCaptureFixture) -> None:
    engine, scheduler = out_of_memory(0, EngineError("CUDA out of memory"))
    with scheduler.running(run := RunShare()), caplog.at_level(logging.WARNING):
        with pytest.raises(EngineError, match="CUDA out of memory"):
            scheduler.start(run, 1).result()
        assert engine.attempts == [1]
        assert caplog.messages == []
        with pytest.raises(EngineError, match="CUDA out of memory"):
            scheduler.start(run, 1, 2).result()
    assert engine.attempts == [1, 2, 1, 1]


def test_only_the_thread_with_a_row_that_is_too_large_gets_the_error() -> None:
    """The memory is enough for one call of two rows, but not for the rows of the second thread."""
    engine, scheduler = out_of_memory(2)
    sizes = [1, 4, 2, 2, 1, 1]
    engine.gate.clear()

    def fail(rows: int) -> None:
        number = len(engine.attempts) - 1
        assert rows == sizes[number]
        if number in {1, 3, 4}:
            raise MemoryError

    engine.fail = fail
    with scheduler.running(run := RunShare()):
        scheduler.hold(run)
        callers = [scheduler.start(run, level, -level) for level in (1.0, 2.0)]
        engine.gate.set()
        assert callers[0].result() == [1, -1]
        with pytest.raises(MemoryError):
            callers[1].result()
    assert engine.attempts == sizes


def test_the_rows_of_each_thread_are_computed_alone_if_a_part_fails_for_another_reason() -> None:
    engine, scheduler = out_of_memory(2)
    engine.gate.clear()
    errors = {1: MemoryError(), 2: EngineError("broken"), 4: EngineError("broken")}

    def fail(rows: int) -> None:
        if error := errors.get(len(engine.attempts) - 1):
            raise error

    engine.fail = fail
    with scheduler.running(run := RunShare()):
        scheduler.hold(run)
        callers = [scheduler.start(run, level) for level in (1.0, 2.0, 3.0, 4.0)]
        engine.gate.set()
        assert callers[0].result() == [1]
        with pytest.raises(EngineError, match="broken"):
            callers[1].result()
        assert [caller.result() for caller in callers[2:]] == [[3], [4]]
    assert engine.attempts == [1, 4, 2, 1, 1, 2]
