"""Calls of a GPU wait for more rows, while the reading of their run brings more."""

from collections.abc import Iterable

import pytest

from tests.unit.scheduling.row_calls import row_call
from whisperbatch.scheduling import call_queue
from whisperbatch.scheduling.call_queue import (
    BURST,
    GROWTH,
    PATIENCE,
    CallQueue,
    RunShare,
    WaitingRow,
)

MAX_ROWS = 20


class Clock:
    """A clock that the test moves."""

    now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(call_queue, "time", clock)
    return clock


def reading() -> RunShare:
    """Return the share of a run that is being read."""
    return RunShare(expects_rows=lambda: True)


def first_rows(run: RunShare, starts: Iterable[int], key: str = "key") -> list[WaitingRow]:
    rows = [row_call(run, start, key, max_rows=MAX_ROWS) for start in starts]
    for row in rows:
        row.is_first = True
    return rows


def ready(queue: CallQueue) -> int:
    return sum(map(len, queue.ready().values()))


def test_each_call_waits_for_more_rows_than_its_run_had_before(clock: Clock) -> None:
    queue, run, sizes = CallQueue(fills_calls=True), reading(), []
    for start in range(100):
        queue.add(first_rows(run, [start]))
        if queue.ready():
            sizes.append(len(queue.take()))
    assert sizes[:4] == [1, GROWTH, GROWTH * (1 + GROWTH), MAX_ROWS]
    assert set(sizes[3:]) == {MAX_ROWS}


def test_the_first_row_does_not_wait(clock: Clock) -> None:
    queue = CallQueue(fills_calls=True)
    queue.add(first_rows(reading(), [0]))
    assert ready(queue) == 1


def test_without_new_rows_a_call_starts_after_a_while(clock: Clock) -> None:
    queue, run = CallQueue(fills_calls=True), reading()
    run.rows = 10
    queue.add(first_rows(run, [0, 1]))
    clock.now += 0.9 * PATIENCE
    assert not queue.ready()
    queue.add(first_rows(run, [2]))
    clock.now += 0.9 * PATIENCE
    assert not queue.ready()
    clock.now += 0.2 * PATIENCE
    assert len(queue.take()) == 3


def test_the_last_rows_of_a_run_wait_for_a_moment_only(clock: Clock) -> None:
    queue, run = CallQueue(fills_calls=True), RunShare(rows=10)
    queue.add(first_rows(run, [0]))
    assert not queue.ready()
    clock.now += 1.1 * BURST
    assert ready(queue) == 1


def test_retries_come_at_once_and_alone(clock: Clock) -> None:
    queue, run = CallQueue(fills_calls=True), reading()
    run.rows = 10
    queue.add([*first_rows(run, [0, 1]), row_call(run, 5, max_rows=MAX_ROWS)])
    [retry] = queue.take(free=2)
    assert not retry.is_first
    assert len(queue) == 2
    assert not queue.ready()


def test_a_run_that_waits_delays_no_other_run(clock: Clock) -> None:
    queue, run, other = CallQueue(fills_calls=True), reading(), reading()
    run.rows = 10
    queue.add([*first_rows(run, [0, 1]), *first_rows(other, [0])])
    [row] = queue.take()
    assert row.run is other


def test_workers_share_the_rows_only_at_the_end(clock: Clock) -> None:
    """While more rows come, the other worker waits for the next call."""
    queue, is_reading = CallQueue(fills_calls=True), [True]
    run = RunShare(expects_rows=lambda: is_reading[0])
    queue.add(first_rows(run, range(10)))
    assert queue.expects_rows()
    assert len(queue.take(free=1)) == 10
    is_reading[0] = False
    queue.add(first_rows(run, range(10)))
    clock.now += 2 * BURST
    assert not queue.expects_rows()
    assert len(queue.take(free=2)) == 5


def test_rows_of_another_length_wait_for_a_fuller_call(clock: Clock) -> None:
    """A row whose window has another length is passed over from the second call on."""
    queue, run = CallQueue(fills_calls=True), RunShare(rows=10)
    queue.add([*first_rows(run, [0], "short"), *first_rows(run, range(1, 8))])
    clock.now += 2 * BURST
    assert {row.key for row in queue.take()} == {"key"}


def test_on_a_cpu_no_row_waits(clock: Clock) -> None:
    queue, run = CallQueue(), reading()
    run.rows = 10
    queue.add(first_rows(run, [0]))
    assert ready(queue) == 1
    assert not queue.expects_rows()
