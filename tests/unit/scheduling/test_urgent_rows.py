"""Urgent rows are computed while the rows of a call are encoded one by one."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest

from tests.unit.fakes import EncodedRow, FakeEncoded
from tests.unit.scheduling.row_calls import (
    Caller,
    CountedScheduler,
    GatedEngine,
    level_of,
    row_call,
)
from whisperbatch.errors import ClosedError, EngineError
from whisperbatch.scheduling import READING, RunShare
from whisperbatch.scheduling.call_queue import CallQueue, WaitingRow

pytestmark = pytest.mark.usefixtures("no_threads_left", "rare_checks")


def take(queue: CallQueue, *runs: RunShare) -> list[WaitingRow]:
    """Return the urgent rows while a call of these shares is prepared."""
    return queue.take_urgent([row_call(run) for run in runs])


def test_rows_of_a_flow_that_has_had_less_are_urgent() -> None:
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


def test_the_flow_must_have_had_less_than_all_flows_of_the_call() -> None:
    queue, least, most = CallQueue(), RunShare(virtual_time=2), RunShare(virtual_time=9)
    queue.add([row_call(RunShare(virtual_time=3))])
    assert take(queue, least, most) == []
    assert len(take(queue, most)) == 1


def test_the_flow_that_has_had_least_leads_the_urgent_rows() -> None:
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
    taken = queue.take_urgent([row_call(run)], 5)
    assert {call.key for call in taken} == {"a"}
    assert {call.run for call in taken} == {one, other}
    assert len(taken) == 5


@pytest.mark.parametrize(("start", "rows", "urgent"), [(1, 8, [0, 1]), (0, 8, [0]), (1, 9, [])])
def test_the_first_chunks_of_a_flow_are_urgent(start: int, rows: int, urgent: list[int]) -> None:
    queue, run = CallQueue(), RunShare(rows=rows)
    queue.add(row_call(run, position) for position in (3, 1, 0, 2))
    prepared = [row_call(run, 7), row_call(run, start + 1), row_call(run, 9)]
    assert [call.position[1] for call in queue.take_urgent(prepared)] == urgent


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
def test_a_row_of_another_flow_is_computed_between_two_rows(after: int) -> None:
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


def test_a_later_row_of_the_same_flow_is_computed_after_the_call() -> None:
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
