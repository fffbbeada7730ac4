"""Rows of many threads are computed together, and each thread gets its own results or errors."""

import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import ExitStack

import pytest

from tests.unit.counting_source import TIMEOUT, wait_until
from tests.unit.fakes import EncodedRow, worker_threads
from tests.unit.scheduling.row_calls import (
    CountedScheduler,
    GatedEngine,
    level_of,
    levels,
    row_call,
)
from whisperbatch.errors import ClosedError, EngineError
from whisperbatch.scheduling import RunShare, Scheduler

pytestmark = pytest.mark.usefixtures("no_threads_left", "rare_checks")


def test_rows_of_several_threads_share_a_call_and_each_thread_gets_its_results() -> None:
    engine, run, other = GatedEngine(), RunShare(), RunShare()
    scheduler = CountedScheduler(engine)
    with scheduler.running(run), scheduler.running(other):
        first = scheduler.hold(run)
        callers = [
            scheduler.start(run, 1.0, 2.0),
            scheduler.start(other, 3.0),
            scheduler.start(run, 4.0, 5.0, 6.0),
        ]
        engine.gate.set()
        assert first.result() == [0]
        assert [caller.result() for caller in callers] == [[1, 2], [3], [4, 5, 6]]
    assert engine.batch_sizes["detect_language"] == [1, 6]
    assert engine.batch_sizes["encode"] == [1, 6]


def test_results_are_in_order_if_the_rows_need_several_calls() -> None:
    engine, run = GatedEngine(workers=2), RunShare()
    engine.gate.set()
    scheduler = CountedScheduler(engine)
    rows = [float(level) for level in range(11)]
    with scheduler.running(run):
        calls = [
            row_call(run, -index, index % 2, level=level, max_rows=3)
            for index, level in enumerate(rows)
        ]
        assert levels(scheduler.compute(calls)) == rows
    # two free workers may share the last two rows
    assert sorted(engine.attempts) in ([2, 3, 3, 3], [1, 1, 3, 3, 3])


def test_only_the_threads_whose_rows_fail_again_get_the_error() -> None:
    # call 1 is the shared call; then the rows of each thread
    engine, run = GatedEngine(failing={"detect_language": {1, 3}}), RunShare()
    scheduler = CountedScheduler(engine)
    with scheduler.running(run):
        scheduler.hold(run)
        callers = [scheduler.start(run, level, -level) for level in (1.0, 2.0, 3.0)]
        engine.gate.set()
        assert callers[0].result() == [1, -1]
        with pytest.raises(EngineError, match="fake: detect_language failed"):
            callers[1].result()
        assert callers[2].result() == [3, -3]
        assert engine.attempts == [1, 6, 2, 2, 2]
        assert scheduler.start(run, 4.0).result() == [4]  # the scheduler goes on


def test_an_error_of_encode_reaches_only_the_threads_whose_rows_fail_again() -> None:
    engine, run = GatedEngine(failing={"encode": {1, 2}}), RunShare()
    scheduler = CountedScheduler(engine)
    with scheduler.running(run):
        scheduler.hold(run)
        callers = [scheduler.start(run, level) for level in (1.0, 2.0)]
        engine.gate.set()
        with pytest.raises(EngineError, match="fake: encode failed"):
            callers[0].result()
        assert callers[1].result() == [2]


def test_a_failed_call_with_rows_of_one_thread_is_not_repeated() -> None:
    engine, run = GatedEngine(failing={"detect_language": {0}}), RunShare()
    engine.gate.set()
    scheduler = CountedScheduler(engine)
    with scheduler.running(run):
        with pytest.raises(EngineError):
            scheduler.start(run, 1.0, 2.0).result()
        assert engine.attempts == [2]


def test_a_closed_engine_is_not_called_again() -> None:
    engine = GatedEngine(failing={"detect_language": {1}}, error=ClosedError)
    run = RunShare()
    scheduler = CountedScheduler(engine)
    with scheduler.running(run):
        scheduler.hold(run)
        callers = [scheduler.start(run, level) for level in (1.0, 2.0, 3.0)]
        engine.gate.set()
        for caller in callers:
            with pytest.raises(ClosedError, match="fake: detect_language failed"):
                caller.result()
    assert engine.attempts == [1, 3]


def test_an_exception_that_ends_programs_reaches_the_thread_that_waits() -> None:
    def exit_once(rows: int) -> None:
        engine.fail = lambda rows: None
        raise SystemExit(3)

    engine, run = GatedEngine(), RunShare()
    engine.gate.set()
    engine.fail = exit_once
    scheduler = CountedScheduler(engine)
    with scheduler.running(run):
        with pytest.raises(SystemExit, match="3"):
            scheduler.start(run, 1.0).result()
        assert scheduler.start(run, 2.0).result() == [2]  # by the same thread


@pytest.mark.parametrize("results", [[], [{"level": 1.0}], [{"level": 1.0}] * 3])
def test_a_wrong_number_of_results_is_an_error(
    monkeypatch: pytest.MonkeyPatch, results: Sequence[dict[str, float]]
) -> None:
    engine, run = GatedEngine(), RunShare()
    engine.gate.set()
    scheduler = CountedScheduler(engine)
    with scheduler.running(run):
        with monkeypatch.context() as patch:
            patch.setattr(engine, "detect_language", lambda encoded: results)
            caller = scheduler.start(run, 1.0, 2.0)
            with pytest.raises(Exception, match=r".") as caught:
                caller.result()
        assert not isinstance(caught.value, AssertionError)  # the thread still waits
        assert scheduler.start(run, 3.0).result() == [3]


def test_two_workers_compute_the_rows_of_two_threads_at_the_same_time() -> None:
    engine, run = GatedEngine(workers=2), RunShare()
    scheduler = CountedScheduler(engine)
    with scheduler.running(run):
        scheduler.wait_for_idle()
        callers = [scheduler.start(run, 1.0, max_rows=1), scheduler.start(run, 2.0)]
        engine.wait_for_call()
        engine.wait_for_call()
        engine.gate.set()
        assert [caller.result() for caller in callers] == [[1], [2]]


def test_two_workers_compute_two_calls_of_one_thread_at_the_same_time() -> None:
    engine, run = GatedEngine(workers=2), RunShare()
    scheduler = CountedScheduler(engine)
    with scheduler.running(run):
        scheduler.wait_for_idle()
        caller = scheduler.start(run, 1.0, 2.0, max_rows=1)
        engine.wait_for_call()
        try:
            engine.wait_for_call()
        finally:
            engine.gate.set()
        assert caller.result() == [1, 2]


def test_free_workers_share_the_rows_of_one_thread() -> None:
    engine, run = GatedEngine(workers=2), RunShare()
    scheduler = CountedScheduler(engine)
    with scheduler.running(run):
        scheduler.wait_for_idle()
        caller = scheduler.start(run, 1.0, 2.0, 3.0, max_rows=4)
        engine.wait_for_call()
        try:
            engine.wait_for_call()
        finally:
            engine.gate.set()
        assert caller.result() == [1, 2, 3]
    assert scheduler.activity.calls == 2


def test_abandoned_threads_get_an_error_and_other_flows_go_on() -> None:
    engine, run, other = GatedEngine(), RunShare(), RunShare()
    scheduler = CountedScheduler(engine)
    with scheduler.running(run), scheduler.running(other):
        scheduler.hold(other)
        abandoned = [scheduler.start(run, level) for level in (1.0, 2.0)]
        waiting = scheduler.start(other, 3.0)
        scheduler.abandon(run)
        scheduler.abandon(run)
        for caller in abandoned:
            with pytest.raises(ClosedError, match="the run has ended"):  # before the call ends
                caller.result()
        engine.gate.set()
        assert waiting.result() == [3]
    assert engine.attempts == [1, 1]


def test_a_flow_may_be_abandoned_during_its_call() -> None:
    engine, run = GatedEngine(), RunShare()
    scheduler = CountedScheduler(engine)
    with scheduler.running(run):
        caller = scheduler.hold(run)
        waiting = scheduler.start(run, 1.0)
        scheduler.abandon(run)
        with pytest.raises(ClosedError):
            waiting.result()
        engine.gate.set()
        assert caller.result() == [0]
    assert engine.attempts == [1]


def test_an_abandoned_flow_computes_nothing() -> None:
    engine, run, other = GatedEngine(), RunShare(), RunShare()
    scheduler = CountedScheduler(engine)
    with scheduler.running(run), scheduler.running(other):
        scheduler.abandon(run)
        with pytest.raises(ClosedError, match="the run has ended"):
            scheduler.compute([row_call(run)])
    with pytest.raises(ClosedError):
        scheduler.compute([row_call(other)])
    assert engine.attempts == []


def test_the_threads_run_until_the_end_of_the_last_flow_and_start_again() -> None:
    engine = GatedEngine(workers=3)
    engine.gate.set()
    scheduler = CountedScheduler(engine)
    assert worker_threads() == set()
    for level in (1.0, 2.0):
        run, other = RunShare(), RunShare()
        with scheduler.running(run):
            assert count_threads() == 3
            with scheduler.running(other):
                assert count_threads() == 3
                assert scheduler.start(other, level).result() == [level]
            assert count_threads() == 3
            assert scheduler.start(run, -level).result() == [-level]
        assert count_threads() == 0


def count_threads() -> int:
    return sum(thread.name == "whisperbatch-engine" for thread in threading.enumerate())


def test_the_end_of_a_flow_does_not_wait_for_the_calls_of_other_runs() -> None:
    engine, run, other = GatedEngine(), RunShare(), RunShare()
    scheduler = CountedScheduler(engine)
    with scheduler.running(other):
        with scheduler.running(run):
            caller = scheduler.hold(other)
        engine.gate.set()
        assert caller.result() == [0]


def test_a_flow_that_begins_during_the_last_call_of_another_has_all_threads() -> None:
    engine, run, other = GatedEngine(workers=2), RunShare(), RunShare()
    scheduler = CountedScheduler(engine)
    with scheduler.running(run), ExitStack() as opened:
        opened.callback(engine.gate.set)
        caller = scheduler.hold(run)
        scheduler.abandon(run)  # one thread ends; the other ends after this call
        wait_until(lambda: count_threads() == 1)
        with scheduler.running(other):
            assert count_threads() == 2
            waiting = scheduler.start(other, 1.0)
            engine.wait_for_call()
            engine.gate.set()
            assert waiting.result() == [1]
            assert caller.result() == [0]
            assert count_threads() == 2


def test_a_thread_of_the_scheduler_may_end_the_flow() -> None:
    """The garbage collector runs in any thread, and closes unused streams."""

    def detect(row: EncodedRow) -> dict[str, float]:
        running.close()
        return level_of(row)

    engine, run, running = GatedEngine(detect=detect), RunShare(), ExitStack()
    engine.gate.set()
    scheduler = CountedScheduler(engine)
    running.enter_context(Scheduler.running(scheduler, run))
    threads = [thread for thread in threading.enumerate() if "engine" in thread.name]
    assert scheduler.start(run, 1.0).result() == [1]
    for thread in threads:
        thread.join(TIMEOUT)


def test_the_threads_end_with_the_program_after_the_work_of_other_threads() -> None:
    program = """
import threading
from tests.unit.scheduling.row_calls import GatedEngine, row_call
from whisperbatch.scheduling import RunShare, Scheduler

engine, share = GatedEngine(workers=2), RunShare()
scheduler = Scheduler(engine)

def compute():
    print(len(scheduler.compute([row_call(share)])))

def open_gate():
    threading.main_thread().join()
    engine.gate.set()

running = scheduler.running(share)
running.__enter__()
threading.Thread(target=compute).start()
engine.wait_for_call()
threading.Thread(target=open_gate).start()
"""
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=True
    )
    assert (result.stdout, result.stderr) == ("1\n", "")
