"""Random rows, calls and ends of shares: `CallQueue` keeps its promises."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.examples import up_to
from tests.unit.scheduling.row_calls import row_call
from whisperbatch.scheduling.call_queue import MAX_PASSED_OVER, CallQueue, RunShare, WaitingRow


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
        taken = self._queue.take(limit)
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
            of_flow = [call.position for call in taken if call.run is run]
            others = [c.position for c in matching if c.run is run and c not in taken]
            assert of_flow == sorted(of_flow)
            assert not others or max(of_flow) <= min(others)

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


flow_numbers = st.integers(0, 2)
early = st.tuples(flow_numbers, st.integers(0, 9), st.sampled_from("xyz"))
late = st.tuples(flow_numbers, st.integers(10, 99), st.sampled_from("aaax"))
added = st.lists(late, min_size=2, max_size=12)
taken = st.tuples(st.just("take"), st.sampled_from([None, None, None, 1, 2]))
removed = st.tuples(st.just("remove"), flow_numbers)
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
