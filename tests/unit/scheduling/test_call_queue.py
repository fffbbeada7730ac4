"""Which of the waiting rows are computed next, and which of them share a call."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.examples import up_to
from tests.unit.scheduling.row_calls import at_most, row_call
from whisperbatch.scheduling.call_queue import MAX_PASSED_OVER, CallQueue, RunShare, WaitingRow

LATER = 10**6  # a position after all others


def take_all(queue: CallQueue, max_rows: int | None = None) -> list[list[WaitingRow]]:
    taken = []
    while queue:
        taken.append(queue.take(at_most(max_rows)))
    return taken


def starts(calls: Sequence[WaitingRow]) -> list[int]:
    return [call.position[1] for call in calls]


def experienced(calls: int = MAX_PASSED_OVER, max_rows: int = 4) -> RunShare:
    """Return a share for which this number of full calls was computed."""
    return RunShare(rows=calls * max_rows)


def test_the_first_row_in_the_order_of_the_results_leads() -> None:
    queue, run = CallQueue(), RunShare()
    queue.add(row_call(run, start, start) for start in (3, 1, 4, 0, 2))
    assert [starts(call) for call in take_all(queue)] == [[0], [1], [2], [3], [4]]


def test_a_row_that_is_added_later_may_lead() -> None:
    queue, run = CallQueue(), RunShare()
    queue.add([row_call(run, 1, "a"), row_call(run, 2, "a")])
    queue.add([row_call(run, 0, "b")])
    assert [starts(call) for call in take_all(queue)] == [[0], [1, 2]]


def test_recordings_come_before_positions_in_a_recording() -> None:
    queue, run = CallQueue(), RunShare()
    later, earlier = row_call(run, 0, "a"), row_call(run, 5, "b")
    later.position = (1, 0)
    queue.add([later, earlier])
    assert queue.take() == [earlier]


def test_rows_with_the_key_of_the_first_row_fill_the_call() -> None:
    queue, run = CallQueue(), RunShare()
    keys = "ababaaaab"
    queue.add(row_call(run, start, key, max_rows=4) for start, key in enumerate(keys))
    assert [starts(call) for call in take_all(queue)] == [[0, 2, 4, 5], [1, 3, 8], [6, 7]]


def test_rows_of_all_runs_share_a_call() -> None:
    queue, runs = CallQueue(), [RunShare(), RunShare(), RunShare()]
    for run in runs:
        queue.add(row_call(run, start, max_rows=9) for start in range(3))
    taken = queue.take()
    assert Counter(call.run for call in taken) == dict.fromkeys(runs, 3)
    assert not queue


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ([4, 4, 4, 4, 4], [4, 1]),
        ([4, 2, 4, 4, 4], [2, 3]),
        ([2, 4, 4, 4, 4], [2, 3]),
        ([4, 4, 4, 2, 4], [3, 2]),
        ([4, 4, 1, 4, 4], [2, 1, 2]),
        ([1, 1, 1, 1, 1], [1, 1, 1, 1, 1]),
    ],
)
def test_a_call_has_at_most_the_rows_that_each_of_its_rows_allows(
    limits: list[int], expected: list[int]
) -> None:
    queue, run = CallQueue(), RunShare()
    queue.add(row_call(run, start, max_rows=limit) for start, limit in enumerate(limits))
    taken = take_all(queue)
    assert list(map(len, taken)) == expected
    assert [start for call in taken for start in starts(call)] == [0, 1, 2, 3, 4]


def test_a_small_limit_of_one_run_does_not_limit_calls_without_its_rows() -> None:
    queue, small, large = CallQueue(), RunShare(), RunShare()
    queue.add(row_call(large, start, max_rows=8) for start in range(12))
    queue.add([row_call(small, max_rows=1)])
    assert list(map(len, take_all(queue))) == [8, 1, 4]


@pytest.mark.parametrize(("limit", "expected"), [(1, 1), (3, 3), (4, 4), (9, 4), (None, 4)])
def test_the_limit_of_all_calls_is_respected(limit: int | None, expected: int) -> None:
    queue, run = CallQueue(), RunShare()
    queue.add(row_call(run, start, max_rows=4) for start in range(12))
    assert len(queue.take(at_most(limit))) == expected


@pytest.mark.parametrize("same_key", [True, False])
@pytest.mark.parametrize(("weight", "frames"), [(1.0, 2), (3.0, 2), (0.5, 2), (1.0, 6), (2.0, 4)])
def test_runs_get_shares_of_the_frames_by_their_weights(
    weight: float, frames: int, same_key: bool
) -> None:
    queue, one, other = CallQueue(), RunShare(), RunShare(weight)
    queue.add(row_call(one, start, "a", frames=2, max_rows=2) for start in range(1000))
    key = "a" if same_key else "b"
    queue.add(row_call(other, start, key, frames=frames, max_rows=2) for start in range(1000))
    taken = [call for _ in range(120) for call in queue.take()]
    computed = {run: sum(c.row.frames for c in taken if c.run is run) for run in (one, other)}
    assert computed[other] / computed[one] == pytest.approx(weight, rel=0.1)


@pytest.mark.parametrize("key", ["a", "b"])
def test_a_run_with_one_row_is_not_delayed_by_a_run_with_a_thousand_rows(key: str) -> None:
    queue, long, short = CallQueue(), RunShare(), RunShare()
    queue.add(row_call(long, start, "a") for start in range(1000))
    for start in range(20):
        queue.take()
        row = row_call(short, LATER + start, key)
        queue.add([row])
        assert queue.take()[0] is row


def test_of_many_runs_with_one_row_each_none_waits_for_a_second_call_of_another() -> None:
    queue, long = CallQueue(), RunShare()
    queue.add(row_call(long, start, "a") for start in range(1000))
    queue.take()
    short = [row_call(RunShare(), key=number) for number in range(10)]
    queue.add(short)
    assert [call for _ in short for call in queue.take()] == short


def test_a_run_gets_no_credit_for_a_time_without_rows() -> None:
    queue, busy, idle = CallQueue(), RunShare(), RunShare()
    queue.add([row_call(idle, key="idle", max_rows=1)])
    queue.add(row_call(busy, start, "busy", max_rows=1) for start in range(1000))
    for _ in range(500):
        queue.take()
    queue.add(row_call(idle, start, "idle", max_rows=1) for start in range(100))
    runs = [queue.take()[0].run for _ in range(100)]
    assert 49 <= runs.count(busy) <= 51
    assert all(runs[index : index + 3].count(busy) >= 1 for index in range(98))


def test_a_run_that_was_alone_is_not_made_to_wait() -> None:
    queue, alone, new = CallQueue(), RunShare(), RunShare()
    queue.add(row_call(alone, start, "alone", max_rows=1) for start in range(1000))
    for _ in range(500):
        queue.take()
    queue.add(row_call(new, start, "new", max_rows=1) for start in range(100))
    runs = [queue.take()[0].run for _ in range(100)]
    assert 49 <= runs.count(alone) <= 51


def passed_over(run: RunShare) -> int:
    """Return the number of calls before a row whose key no other row has.

    Before each call, four rows of the same share with another key are added: they fill a call.
    """
    queue = CallQueue()
    rare = row_call(run, 0, "rare")
    queue.add([rare])
    for count in range(3 * MAX_PASSED_OVER):
        queue.add(row_call(run, 1 + start, "common") for start in range(4))
        if rare in queue.take():
            return count
    raise AssertionError("the row was never computed")


def test_a_row_is_passed_over_in_favour_of_fuller_calls_but_not_for_long() -> None:
    assert passed_over(experienced()) == MAX_PASSED_OVER
    assert passed_over(experienced(100)) == MAX_PASSED_OVER


@pytest.mark.parametrize("calls", range(MAX_PASSED_OVER + 1))
def test_a_row_of_a_new_run_is_passed_over_once_for_each_full_call_before(calls: int) -> None:
    queue, run = CallQueue(), experienced(calls, max_rows=8)
    queue.add([row_call(run, 0, "rare", max_rows=8)])
    # each of these rows fills a call, so the share hardly gets older
    queue.add(row_call(run, 1 + start, "common", max_rows=1) for start in range(99))
    taken = [starts(queue.take()) for _ in range(calls + 1)]
    assert taken == [*([1 + start] for start in range(calls)), [0]]


@pytest.mark.parametrize(("rows", "expected"), [(0, 0), (3, 0), (4, MAX_PASSED_OVER)])
def test_only_the_first_calls_of_a_run_are_not_filled(rows: int, expected: int) -> None:
    queue, run = CallQueue(), RunShare()
    queue.add(row_call(run, start) for start in range(rows))
    take_all(queue)  # a full call has four rows
    assert passed_over(run) == expected


def test_the_first_row_leads_if_the_other_call_is_not_fuller() -> None:
    queue, run = CallQueue(), experienced()
    queue.add(row_call(run, start, key) for start, key in enumerate("abba"))
    assert starts(queue.take()) == [0, 3]
    queue.add(row_call(run, 10 + start, "full") for start in range(4))
    queue.add(row_call(run, start, "b") for start in (20, 21))
    assert starts(queue.take()) == [1, 2, 20, 21]


def test_calls_that_are_full_are_equally_full() -> None:
    queue, run = CallQueue(), experienced()
    queue.add(row_call(run, start, "a") for start in range(4))
    queue.add(row_call(run, 10 + start, "b") for start in range(9))
    assert starts(queue.take()) == [0, 1, 2, 3]


def test_of_equally_full_calls_the_first_is_preferred() -> None:
    queue, run = CallQueue(), experienced()
    queue.add([row_call(run, 0, "rare")])
    for start in (11, 10, 13, 12):
        queue.add([row_call(run, start, start % 2)])
    assert starts(queue.take()) == [10, 12]


def test_a_call_is_as_full_as_its_own_limit_allows() -> None:
    queue, run = CallQueue(), experienced()
    queue.add(row_call(run, start, "half", max_rows=6) for start in range(3))
    queue.add(row_call(run, 10 + start, "full", max_rows=2) for start in range(2))
    assert starts(queue.take()) == [10, 11]


@pytest.mark.parametrize("limit", [1, 2])
def test_a_call_that_cannot_be_fuller_because_of_the_limit_is_not_preferred(limit: int) -> None:
    queue, run = CallQueue(), experienced()
    queue.add(row_call(run, start, "rare") for start in range(2))
    queue.add(row_call(run, 10 + start, "common") for start in range(4))
    assert starts(queue.take(at_most(limit))) == [0, 1][:limit]


def test_a_row_is_not_passed_over_in_favour_of_another_run() -> None:
    queue, run, other = CallQueue(), experienced(), RunShare(virtual_time=1.0)
    rare = row_call(run, 0, "rare")
    queue.add([rare])
    queue.add(row_call(other, start, "other") for start in range(4))
    assert queue.take() == [rare]


def test_rows_of_other_runs_count_for_a_fuller_call() -> None:
    queue, run, other = CallQueue(), experienced(), RunShare(virtual_time=1.0)
    rare, common = row_call(run, 0, "rare"), row_call(run, 1, "common")
    queue.add([rare, common])
    queue.add(row_call(other, start, "common") for start in range(3))
    taken = queue.take()
    assert taken[0] is common
    assert len(taken) == 4
    assert rare.passed_over == 1


@pytest.mark.parametrize(("rows", "expected"), [(1, 2), (2, 4), (5, 8), (7, 8)])
def test_runs_with_many_rows_get_at_most_half_of_a_call_that_another_run_leads(
    rows: int, expected: int
) -> None:
    queue, long, short = CallQueue(), RunShare(virtual_time=99.0), RunShare()
    queue.add(row_call(long, start, max_rows=8) for start in range(8))
    queue.add(row_call(short, start, max_rows=8) for start in range(rows))
    taken = queue.take()
    assert [call.run for call in taken] == [short] * rows + [long] * (expected - rows)


def test_runs_with_few_rows_fill_a_call_that_one_of_them_leads() -> None:
    queue, runs = CallQueue(), [RunShare() for _ in range(6)]
    for run in runs:
        queue.add(row_call(run, start, max_rows=8) for start in range(7))
    assert Counter(call.run for call in queue.take()) == Counter(runs[:2]) + Counter(runs)


def test_only_the_rows_that_may_be_in_the_call_count_for_a_fuller_call() -> None:
    queue, run, long = CallQueue(), experienced(), RunShare(virtual_time=1.0)
    queue.add(row_call(run, start, "rare") for start in range(2))
    queue.add([row_call(run, 2, "common")])
    queue.add(row_call(long, start, "common") for start in range(9))
    assert starts(queue.take()) == [0, 1]  # a call with the other key has two rows, too


def test_removed_rows_are_not_computed_and_others_are() -> None:
    queue, one, other = CallQueue(), RunShare(), RunShare()
    rows = [row_call(one, start) for start in range(3)]
    left = row_call(other)
    queue.add([*rows, left])
    assert queue.remove(one) == rows
    assert queue.remove(one) == []
    assert take_all(queue) == [[left]]


def test_a_queue_is_true_while_rows_wait() -> None:
    queue, run = CallQueue(), RunShare()
    assert not queue
    queue.add([])
    assert not queue
    queue.add([row_call(run), row_call(run, 1, "other")])
    assert queue
    queue.take()
    assert queue
    queue.take()
    assert not queue
    queue.add([row_call(run)])
    queue.remove(run)
    assert not queue


@pytest.mark.parametrize(
    ("rows", "free", "expected"),
    [
        ("a", 2, ["a"]),
        ("aaa", 2, ["aa", "a"]),
        ("aaaaa", 2, ["aaa", "aa"]),
        ("aaaaaaaa", 2, ["aaaa", "aaaa"]),
        ("aaaaaaaaa", 2, ["aaaa", "aaaa", "a"]),
        ("aaaab", 2, ["aaaa", "b"]),
        ("aaaab", 3, ["aa", "aa", "b"]),
        ("aaabbb", 3, ["aa", "a", "bbb"]),
    ],
)
def test_free_workers_share_the_rows(rows: str, free: int, expected: list[str]) -> None:
    queue, run = CallQueue(), RunShare()
    queue.add(row_call(run, start, key, max_rows=4) for start, key in enumerate(rows))
    taken = []
    while queue:
        taken.append("".join(str(call.key) for call in queue.take(free=max(free, 1))))
        free -= 1
    assert taken == expected


def test_the_share_of_a_free_worker_respects_the_limit_of_all_calls() -> None:
    queue, run = CallQueue(), RunShare()
    queue.add(row_call(run, start, max_rows=8) for start in range(12))
    assert [len(queue.take(at_most(rows), free=2)) for rows in (2, 8)] == [2, 5]


class CheckedQueue:
    """A queue that is compared with a list of the rows that wait.

    Attributes:
        waiting: the rows that were added, but neither taken nor removed.
    """

    def __init__(self) -> None:
        self.waiting: list[WaitingRow] = []
        self._queue = CallQueue()
        self._passed_over: Counter[WaitingRow] = Counter()

    def add(self, calls: Sequence[WaitingRow]) -> None:
        self._queue.add(calls)
        self.waiting += calls

    def remove(self, run: RunShare) -> None:
        removed = [call for call in self.waiting if call.run is run]
        assert set(self._queue.remove(run)) == set(removed)
        self.waiting = [call for call in self.waiting if call.run is not run]

    def take(self, limit: int | None) -> None:
        times = {call.run: call.run.virtual_time for call in self.waiting}
        rows = {run: run.rows for run in times}
        taken = self._queue.take(at_most(limit))
        run = taken[0].run
        assert times[run] == min(times.values())  # the share that has had least
        self._check_rows(taken, limit)
        leader = min(self._of(run), key=lambda call: call.position)
        if leader.key != taken[0].key:
            self._passed_over[leader] += 1
            allowed = min(MAX_PASSED_OVER, rows[run] // leader.max_rows)
            assert self._passed_over[leader] <= allowed
            assert self._filled(taken[0], limit) > self._filled(leader, limit)
        self.waiting = [call for call in self.waiting if call not in taken]
        assert bool(self._queue) == bool(self.waiting)

    def _check_rows(self, taken: Sequence[WaitingRow], limit: int | None) -> None:
        """Check that the rows of a call can share it, and that no further row fits."""
        assert len(taken) == len(set(taken))
        assert set(taken) <= set(self.waiting)
        assert len({call.key for call in taken}) == 1
        most = min(call.max_rows for call in taken)
        assert len(taken) <= min(most, limit or most)
        matching = [call for call in self.waiting if call.key == taken[0].key]
        if len({call.max_rows for call in matching}) == 1:
            assert len(taken) == self._rows(taken[0], limit)
        for run in {call.run for call in taken}:
            of_run = [call.position for call in taken if call.run is run]
            others = [c.position for c in matching if c.run is run and c not in taken]
            assert of_run == sorted(of_run)
            assert not others or max(of_run) <= min(others)

    def _of(self, run: RunShare) -> list[WaitingRow]:
        return [call for call in self.waiting if call.run is run]

    def _is_large(self, run: RunShare) -> bool:
        first = min(self._of(run), key=lambda call: call.position)
        return len(self._of(run)) >= first.max_rows

    def _rows(self, leader: WaitingRow, limit: int | None) -> int:
        """Return the number of rows of a call with the key of this row, whose share leads."""
        matching = [call for call in self.waiting if call.key == leader.key]
        most = min(leader.max_rows, limit or leader.max_rows)
        if not self._is_large(leader.run):
            most = min(most, 2 * sum(not self._is_large(call.run) for call in matching))
        return min(most, len(matching))

    def _filled(self, call: WaitingRow, limit: int | None) -> float:
        """Return how full a call with the key of this row would be."""
        return self._rows(call, limit) / min(call.max_rows, limit or call.max_rows)


run_numbers = st.integers(0, 2)
early = st.tuples(run_numbers, st.integers(0, 9), st.sampled_from("xyz"))
late = st.tuples(run_numbers, st.integers(10, 99), st.sampled_from("aaax"))
added = st.lists(late, min_size=2, max_size=12)
taken = st.tuples(st.just("take"), st.sampled_from([None, None, None, 1, 2]))
removed = st.tuples(st.just("remove"), run_numbers)
steps = st.lists(
    st.one_of(st.lists(early, min_size=1, max_size=2), *(added, taken) * 5, removed),
    min_size=10,
    max_size=40,
)
runs = st.builds(RunShare, st.sampled_from([0.5, 1.0, 3.0]), rows=st.sampled_from([0, 16]))


@settings(max_examples=up_to(300), phases=[Phase.generate])
@given(steps, st.tuples(runs, runs, runs), st.lists(st.integers(2, 5), min_size=3, max_size=3))
def test_every_row_is_taken_once_in_calls_that_respect_all_limits(
    steps: list[Any], runs: Sequence[RunShare], limits: Sequence[int]
) -> None:
    queue = CheckedQueue()
    for step in steps:
        if step[0] == "remove":
            queue.remove(runs[step[1]])
        elif step[0] == "take":
            if queue.waiting:
                queue.take(step[1])
        else:
            queue.add(
                [
                    row_call(
                        runs[number],
                        start,
                        key,
                        max_rows=limits[number] if key == "a" else 3,
                        frames=2 * (start + 1),
                    )
                    for number, start, key in step
                ]
            )
    while queue.waiting:
        queue.take(None)
