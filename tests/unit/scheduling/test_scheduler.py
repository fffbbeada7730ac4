"""Rows of many threads share calls; urgent rows; calls for which the memory is too small."""

import gc
import logging
import re
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial

import numpy as np
import numpy.typing as npt
import pytest

from tests.unit.counting_source import TIMEOUT, wait_until
from tests.unit.fakes import EncodedRow, FakeEncoded, FakeEngine, worker_threads
from tests.unit.scheduling.row_calls import (
    Caller,
    CountedScheduler,
    GatedEngine,
    at_most,
    level_of,
    levels,
    row_call,
)
from whisperbatch.engines.calls import Calls, check_encoded
from whisperbatch.errors import BrokenDeviceError, ClosedError, EngineError, WhisperBatchError
from whisperbatch.options import SearchOptions
from whisperbatch.protocols import Decoded, DecodeRequest, Encoded
from whisperbatch.scheduling import READING, RunShare, Scheduler
from whisperbatch.scheduling.call_queue import CallQueue, WaitingRow

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


def test_rows_that_are_computed_alone_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    engine, run = GatedEngine(failing={"detect_language": {1}}), RunShare()
    scheduler = CountedScheduler(engine)
    with scheduler.running(run), caplog.at_level(logging.WARNING):
        scheduler.hold(run)
        callers = [scheduler.start(run, level, -level) for level in (1.0, 2.0, 3.0)]
        engine.gate.set()
        for caller in callers:
            caller.wait()
    [message] = caplog.messages
    assert message.startswith("a call with 6 rows failed; the rows of each of its 3 threads are")
    assert message.endswith(" now alone: fake: detect_language failed")


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


@pytest.mark.parametrize("error", [ClosedError, BrokenDeviceError])
def test_a_closed_or_broken_engine_is_not_called_again(
    error: type[WhisperBatchError], caplog: pytest.LogCaptureFixture
) -> None:
    engine, run = GatedEngine(failing={"detect_language": {1}}, error=error), RunShare()
    scheduler = CountedScheduler(engine)
    with scheduler.running(run):
        scheduler.hold(run)
        callers = [scheduler.start(run, level) for level in (1.0, 2.0, 3.0)]
        engine.gate.set()
        for caller in callers:
            with pytest.raises(error, match="fake: detect_language failed"):
                caller.result()
    assert engine.attempts == [1, 3]
    assert caplog.messages == []


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


def test_abandoned_threads_get_an_error_and_other_runs_go_on() -> None:
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


def test_a_run_may_be_abandoned_during_its_call() -> None:
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


def test_an_abandoned_run_computes_nothing() -> None:
    engine, run, other = GatedEngine(), RunShare(), RunShare()
    scheduler = CountedScheduler(engine)
    with scheduler.running(run), scheduler.running(other):
        scheduler.abandon(run)
        with pytest.raises(ClosedError, match="the run has ended"):
            scheduler.compute([row_call(run)])
    with pytest.raises(ClosedError):
        scheduler.compute([row_call(other)])
    assert engine.attempts == []


def test_the_threads_run_until_the_end_of_the_last_run_and_start_again() -> None:
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


def test_the_end_of_a_run_does_not_wait_for_the_calls_of_other_runs() -> None:
    engine, run, other = GatedEngine(), RunShare(), RunShare()
    scheduler = CountedScheduler(engine)
    with scheduler.running(other):
        with scheduler.running(run):
            caller = scheduler.hold(other)
        engine.gate.set()
        assert caller.result() == [0]


def test_a_run_that_begins_during_the_last_call_of_another_has_all_threads() -> None:
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


def test_a_thread_of_the_scheduler_may_end_the_run() -> None:
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


def take(queue: CallQueue, *runs: RunShare) -> list[WaitingRow]:
    """Return the urgent rows while a call of these shares is prepared."""
    return queue.take_urgent([row_call(run) for run in runs])


def test_rows_of_a_run_that_has_had_less_are_urgent() -> None:
    queue, run, other, same = (
        CallQueue(),
        RunShare(virtual_time=4),
        RunShare(virtual_time=2),
        RunShare(),
    )
    same.virtual_time = 4
    row = row_call(other)
    queue.add([row, row_call(run), row_call(same)])
    assert take(queue, run) == [row]
    assert take(queue, run) == []
    assert len(queue.take()) == 2


def test_the_run_must_have_had_less_than_all_runs_of_the_call() -> None:
    queue, least, most = CallQueue(), RunShare(virtual_time=2), RunShare(virtual_time=9)
    queue.add([row_call(RunShare(virtual_time=3))])
    assert take(queue, least, most) == []
    assert len(take(queue, most)) == 1


def test_the_run_that_has_had_least_leads_the_urgent_rows() -> None:
    queue, run = CallQueue(), RunShare(virtual_time=9)
    runs = [RunShare(virtual_time=time) for time in (3, 1, 2)]
    rows = [row_call(other, key=other.virtual_time) for other in runs]
    queue.add(rows)
    assert [take(queue, run) for _ in rows] == [[rows[1]], [rows[2]], [rows[0]]]


def test_urgent_rows_have_one_key_and_respect_the_limits() -> None:
    queue, run, one, other = (
        CallQueue(),
        RunShare(virtual_time=9),
        RunShare(),
        RunShare(virtual_time=1),
    )
    queue.add(row_call(one, start, "ab"[start % 2], max_rows=9) for start in range(4))
    queue.add(row_call(other, start, "a", max_rows=9) for start in range(4))
    queue.add(row_call(run, start, "a") for start in range(4))
    taken = queue.take_urgent([row_call(run)], at_most(5))
    assert {call.key for call in taken} == {"a"}
    assert {call.run for call in taken} == {one, other}
    assert len(taken) == 5


@pytest.mark.parametrize(("start", "rows", "urgent"), [(1, 8, [0, 1]), (0, 8, [0]), (1, 9, [])])
def test_the_first_chunks_of_a_run_are_urgent(start: int, rows: int, urgent: list[int]) -> None:
    queue, run = CallQueue(), RunShare(rows=rows)
    queue.add(row_call(run, position) for position in (3, 1, 0, 2))
    prepared = [row_call(run, 7), row_call(run, start + 1), row_call(run, 9)]
    assert [call.position[1] for call in queue.take_urgent(prepared)] == urgent


def test_only_rows_of_interactive_runs_interrupt_a_step() -> None:
    queue, run = CallQueue(), RunShare(virtual_time=9)
    other, person = RunShare(), RunShare(virtual_time=1, interactive=True)
    queue.add([row_call(other), asked := row_call(person)])
    assert queue.take_urgent([row_call(run)], only_interactive=True) == [asked]
    assert queue.take_urgent([row_call(run)], only_interactive=True) == []
    assert len(queue) == 1


def test_rows_that_the_reading_waits_for_are_urgent() -> None:
    queue, run = CallQueue(), RunShare(rows=1000)
    [row, read] = [row_call(run, 0), row_call(run, 9, "other key")]
    read.position = READING
    queue.add([row, read])
    assert queue.take_urgent([row_call(run, 3)]) == [read]
    queue.add([read])
    assert queue.take_urgent([read]) == []


def test_rows_that_the_reading_waits_for_are_never_passed_over() -> None:
    queue, run = CallQueue(), RunShare(rows=1000)
    read = row_call(run, 9, "other key")
    read.position = READING
    queue.add([row_call(run, position) for position in range(8)])
    queue.add([read])
    assert queue.take() == [read]


class OneByOneEngine(GatedEngine):
    """An engine whose encoder is as fast with single rows as with several rows.

    Attributes:
        events: the level of each row that was encoded, and of each row with a result.
        broken: levels of the rows that cannot be encoded.
    """

    encodes_rows_alone = True

    def __init__(self) -> None:
        super().__init__(detect=self._result)
        self.gate.set()
        self.events: list[tuple[str, float]] = []
        self.broken: set[float] = set()
        self._actions: dict[float, Callable[[], object]] = {}

    def after_encoding(self, level: float, action: Callable[[], object]) -> None:
        """Call a function once, after the row with this level is encoded."""
        self._actions[level] = action

    def encode(self, features: npt.NDArray[np.float32]) -> FakeEncoded:
        encoded = super().encode(features)
        for row in encoded.items:
            if row.level in self.broken:
                raise EngineError("broken")
            self.events.append(("encoded", row.level))
            self._actions.pop(row.level, lambda: None)()
        return encoded

    def _result(self, row: EncodedRow) -> dict[str, float]:
        self.events.append(("result", row.level))
        return level_of(row)


def encoded(*levels: float) -> list[tuple[str, float]]:
    return [("encoded", level) for level in levels]


def results(*levels: float) -> list[tuple[str, float]]:
    return [("result", level) for level in levels]


def compute_beside(
    engine: OneByOneEngine, late: RunShare, run: RunShare, after: float = 1
) -> tuple[Caller[list[float]], Caller[list[float]]]:
    """Compute rows 1, 2 and 3 of a share. Row 9 of share `late` comes when a row is encoded."""
    scheduler = CountedScheduler(engine)
    late_callers: list[Caller[list[float]]] = []
    engine.after_encoding(after, lambda: late_callers.append(scheduler.start(late, 9)))
    with scheduler.running(run), scheduler.running(late):
        caller = scheduler.start(run, 1, 2, 3)
        caller.wait()
        late_callers[0].wait()
    return caller, late_callers[0]


@pytest.mark.parametrize("after", [1, 2])
def test_a_row_of_another_run_is_computed_between_two_rows(after: int) -> None:
    engine = OneByOneEngine()
    caller, late = compute_beside(engine, RunShare(), RunShare(), after)
    assert (caller.result(), late.result()) == ([1, 2, 3], [9])
    before = [1, 2, 3][:after]
    assert engine.events == [
        *encoded(*before, 9),
        *results(9),
        *encoded(*[1, 2, 3][after:]),
        *results(1, 2, 3),
    ]
    assert engine.attempts == [1, 3]


def test_a_later_row_of_the_same_run_is_computed_after_the_call() -> None:
    engine, run = OneByOneEngine(), RunShare()
    caller, late = compute_beside(engine, run, run)
    assert (caller.result(), late.result()) == ([1, 2, 3], [9])
    assert engine.events == [*encoded(1, 2, 3), *results(1, 2, 3), *encoded(9), *results(9)]


def test_an_engine_that_encodes_faster_in_batches_is_not_interrupted() -> None:
    engine = OneByOneEngine()
    engine.encodes_rows_alone = False
    caller, late = compute_beside(engine, RunShare(), RunShare())
    assert (caller.result(), late.result()) == ([1, 2, 3], [9])
    assert engine.batch_sizes["encode"] == [3, 1]
    assert engine.attempts == [3, 1]


def test_an_error_of_an_urgent_row_reaches_only_its_thread() -> None:
    engine = OneByOneEngine()
    engine.broken = {9}
    caller, late = compute_beside(engine, RunShare(), RunShare())
    assert caller.result() == [1, 2, 3]
    with pytest.raises(EngineError, match="broken"):
        late.result()


SEARCH = SearchOptions()


class PausingEngine(OneByOneEngine):
    """An engine whose decoding has three steps. Tests add actions to the pauses before them."""

    def __init__(self) -> None:
        super().__init__()
        self.pauses: list[Callable[[], object]] = []

    def decode(
        self, encoded: Encoded, requests: Sequence[DecodeRequest], options: SearchOptions
    ) -> list[Decoded]:
        decoded = super().decode(encoded, requests, options)
        self.events += results(*(row.level for row in check_encoded(encoded, FakeEncoded).items))
        return decoded

    def decode_with_pauses(
        self,
        encoded: Encoded,
        requests: Sequence[DecodeRequest],
        options: SearchOptions,
        pause: Callable[[], None],
    ) -> list[Decoded]:
        for _ in range(3):
            if self.pauses:
                self.pauses.pop(0)()
            pause()
            self.events.append(("step", len(requests)))
        return self.decode(encoded, requests, options)


def decoded_row(run: RunShare, level: float) -> WaitingRow:
    """Return a row that is decoded, at the position of its level."""
    call = row_call(run, int(level), level=level, group=object())
    return replace(call, request=DecodeRequest((1, 2), (1,), (), 2), search=SEARCH)


def decode_beside(
    engine: PausingEngine, late: RunShare, run: RunShare, *levels: float
) -> list[Caller[list[Decoded]]]:
    """Decode rows 1 and 2 of a share. The rows of share `late` come before the second step."""
    scheduler = CountedScheduler(engine)
    callers: list[Caller[list[Decoded]]] = []

    def start(share: RunShare, *given: float) -> None:
        rows = [decoded_row(share, level) for level in given]
        callers.append(Caller(lambda: scheduler.compute(rows)))
        scheduler.wait_for_rows(len(rows))

    engine.pauses = [lambda: None, *(partial(start, late, level) for level in levels)]
    with scheduler.running(run), scheduler.running(late):
        start(run, 1, 2)
        callers[0].wait()
        for caller in callers[1:]:
            caller.wait()
    return callers


def test_a_row_of_an_interactive_run_is_decoded_between_two_steps() -> None:
    engine = PausingEngine()
    file, spoken = decode_beside(engine, RunShare(interactive=True), RunShare(), 9)
    assert (len(file.result()), len(spoken.result())) == (2, 1)
    assert engine.events == [
        *encoded(1, 2),
        ("step", 2),
        *encoded(9),
        *results(9),  # without pauses
        *[("step", 2)] * 2,
        *results(1, 2),
    ]


def test_rows_of_other_runs_wait_for_the_end_of_the_call() -> None:
    engine = PausingEngine()
    file, other = decode_beside(engine, RunShare(), RunShare(), 9)
    assert (len(file.result()), len(other.result())) == (2, 1)
    assert engine.events[:6] == [*encoded(1, 2), *[("step", 2)] * 3, ("result", 1)]


def test_an_interactive_run_that_has_had_its_share_does_not_interrupt() -> None:
    engine, had = PausingEngine(), RunShare(virtual_time=1000, interactive=True)
    file, spoken = decode_beside(engine, had, RunShare(), 9)
    assert (len(file.result()), len(spoken.result())) == (2, 1)
    assert engine.events.index(("encoded", 9)) > engine.events.index(("result", 2))


def test_each_pause_computes_all_interactive_rows_that_wait() -> None:
    engine = PausingEngine()
    callers = decode_beside(engine, RunShare(interactive=True), RunShare(), 8, 9)
    assert [len(caller.result()) for caller in callers] == [2, 1, 1]
    steps = [name for name, _ in engine.events if name == "step"]
    assert len(steps) == 3
    assert engine.events.index(("result", 9)) < engine.events.index(("result", 1))


def test_a_call_whose_runs_have_all_ended_stops_at_the_next_step() -> None:
    engine, run = PausingEngine(), RunShare()
    scheduler = CountedScheduler(engine)
    engine.pauses = [lambda: None, lambda: scheduler.abandon(run)]
    with scheduler.running(run):
        rows = [decoded_row(run, 1), decoded_row(run, 2)]
        with pytest.raises(ClosedError, match="the run has ended"):
            Caller(lambda: scheduler.compute(rows)).result()
    assert engine.events == [*encoded(1, 2), ("step", 2)]


def test_rows_of_recordings_do_not_interrupt_an_interactive_call() -> None:
    engine, person = OneByOneEngine(), RunShare(virtual_time=1000, interactive=True)
    caller, late = compute_beside(engine, RunShare(), person)
    assert (caller.result(), late.result()) == ([1, 2, 3], [9])
    assert engine.events == [*encoded(1, 2, 3), *results(1, 2, 3), *encoded(9), *results(9)]


@pytest.mark.parametrize("broken", [1, 2, 3])
def test_an_error_of_a_single_row_reaches_only_its_thread(broken: int) -> None:
    engine, run = OneByOneEngine(), RunShare()
    engine.broken = {broken}
    engine.gate.clear()
    scheduler = CountedScheduler(engine)
    with scheduler.running(run):
        scheduler.hold(run)
        callers = {level: scheduler.start(run, level) for level in (1, 2, 3)}
        engine.gate.set()
        with pytest.raises(EngineError, match="broken"):
            callers.pop(broken).result()
        assert [caller.result() for caller in callers.values()] == [[level] for level in callers]


ERRORS = [
    MemoryError(),
    EngineError("CUDA out of memory"),
    EngineError("fake: CUDA failed with error out of memory"),
    RuntimeError("std::bad_alloc"),
]


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


def limits_of(caplog: pytest.LogCaptureFixture) -> list[tuple[int, int]]:
    """The rows of each call that ran out of memory, and the limit of later calls, of the log."""
    message = r"out of memory \(\w+, (\d+) rows\).* at most (\d+) rows: "
    found = [re.search(message, line) for line in caplog.messages]
    return [(int(match[1]), int(match[2])) for match in found if match]


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
    assert limits_of(caplog) == [(8, 4)]
    assert str(error) in caplog.text


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
    assert limits_of(caplog) == [(7, 3), (3, 1), (4, 1)]  # each division is logged


def test_a_later_failure_with_more_rows_does_not_raise_the_limit(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Calls that are in progress when the limit is set may fail later, with more rows."""
    engine, scheduler = out_of_memory(2)
    scheduler._limits.lower("detect_language", [row_call(RunShare())] * 2)  # at most one row
    with scheduler.running(run := RunShare()), caplog.at_level(logging.WARNING):
        calls = [row_call(run, level=level) for level in range(1, 9)]
        scheduler._run(calls)  # a call that began before
        assert engine.attempts == [8, 4, 2, 2, 4, 2, 2]
        assert limits_of(caplog) == [(8, 1), (4, 1), (4, 1)]
        engine.attempts.clear()
        scheduler.start(run, 1, 2).result()
    assert engine.attempts == [1, 1]


def test_the_arrays_of_a_failed_call_are_freed_before_its_halves_are_computed() -> None:
    """Otherwise the halves have less memory than the call."""

    class Arrays:
        pass

    held: list[weakref.ref[Arrays]] = []
    alive: list[int] = []
    engine, scheduler = out_of_memory(4)

    def fail_with_arrays(rows: int) -> None:
        alive.append(sum(reference() is not None for reference in held))
        arrays = Arrays()
        held.append(weakref.ref(arrays))
        if rows > 1:
            with Calls("fake")():
                raise RuntimeError("CUDA failed with error out of memory")

    engine.fail = fail_with_arrays
    gc.disable()  # cycles would be freed at any time
    try:
        with scheduler.running(run := RunShare()):
            assert scheduler.start(run, 1, 2, 3, 4).result() == [1, 2, 3, 4]
    finally:
        gc.enable()
    assert engine.attempts == [4, 2, 1, 1, 2, 1, 1]
    assert alive == [0] * 7


def test_an_error_that_reaches_its_thread_holds_no_encoder_output(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Output(FakeEncoded):
        pass

    held: list[weakref.ref[Output]] = []
    engine, scheduler = out_of_memory(0, EngineError("broken"))

    def encode(features: npt.NDArray[np.float32]) -> Output:
        output = Output(FakeEngine.encode(engine, features).items)
        held.append(weakref.ref(output))
        return output

    monkeypatch.setattr(engine, "encode", encode)
    with scheduler.running(run := RunShare()):
        with pytest.raises(EngineError) as caught:
            scheduler.start(run, 1).result()
        assert caught.value.__traceback__
        assert [reference() for reference in held] == [None]


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
        assert limits_of(caplog) == [(2, 1)]
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


@pytest.mark.parametrize("after", [1, 2])
def test_rows_of_a_run_that_has_ended_are_not_computed(after: int) -> None:
    """A call that has begun goes on with the rows of other runs only."""
    engine, run, other = OneByOneEngine(), RunShare(), RunShare()
    engine.gate.clear()
    scheduler = CountedScheduler(engine)
    engine.after_encoding(after, lambda: scheduler.abandon(run))
    with scheduler.running(run), scheduler.running(other):
        scheduler.hold(run)
        ended = [scheduler.start(run, level) for level in (1, 2, 3)]
        goes_on = scheduler.start(other, 4)
        engine.gate.set()
        for caller in ended:
            with pytest.raises(ClosedError):
                caller.result()
        assert goes_on.result() == [4]
    assert [level for kind, level in engine.events if kind == "result"] == [0, 4]
    assert [level for kind, level in engine.events if kind == "encoded" and 0 < level < 4] == (
        [1, 2, 3][:after]
    )
