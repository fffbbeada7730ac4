"""The choice of tasks: which task a worker takes next.

task without a lease       taken, one of the first by chance: workers rarely meet
lease expired or given up  taken when no other task is left
lease of another worker    left alone
"""

import random
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from whisperbatch.jobs.leases import HeldLeases, Lease, Leases
from whisperbatch.jobs.plans.format import PlannedSpan, Task
from whisperbatch.jobs.workers.results import Results

LISTING_SHARE: Final = 0.1  # of the time that may be spent on listing results


@dataclass(slots=True, eq=False)
class ClaimedTask:
    """A task that this worker has taken.

    Attributes:
        task: the task.
        remaining: the spans that have no result yet.
        alone: whether the spans must be transcribed one at a time, because a worker died while it
            transcribed this task.
        error: why a span has ended without a result; None if none has.
    """

    task: Task
    remaining: tuple[PlannedSpan, ...]
    alone: bool
    error: str | None = None
    _ended: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def end_span(self) -> bool:
        """Note that a span has ended in this worker; return whether it was the last."""
        with self._lock:
            self._ended += 1
            return self._ended == len(self.remaining)


class TaskQueue:
    """The unfinished tasks of a plan, as one worker sees them. Not thread-safe.

    Args:
        tasks: of this worker, the longest first.
        leases: of the store.
        results: of the store.
        lists: whether to list the results of the store, which are those of all tasks of the plan.
            Without the list, a task that is complete is noticed when it is claimed.

    Attributes:
        held: the leases of the tasks that this worker holds.
    """

    def __init__(
        self, tasks: Sequence[Task], leases: Leases, results: Results, *, lists: bool = True
    ) -> None:
        self._unfinished = {task.id: task for task in tasks}
        self._leases, self._results = leases, results
        self._done: set[str] = set()
        self._given_up: set[str] = set()
        self.held = HeldLeases(leases)
        self._claimed: set[str] = set()  # also if the lease is lost, until all spans have ended
        self._random = random.Random()  # noqa: S311 - spreads workers, is no secret
        self._lists = lists
        self._list_again = 0.0  # monotonic time
        self.refresh()

    def refresh(self) -> None:
        """List the results and forget finished tasks, unless they were listed a moment ago.

        Their leases are deleted: a worker may have died between its last result and this.
        """
        start = time.monotonic()
        if not self._lists or start < self._list_again:
            return
        self._done |= self._results.ids()
        finished = [
            task
            for task in self._unfinished.values()
            if all(span.id in self._done for span in task.spans)
        ]
        generations = self._leases.generations() if finished else {}
        for task in finished:
            del self._unfinished[task.id]
            if task.id in generations and task.id not in self._claimed:
                self._leases.delete(task.id, generations[task.id])
        now = time.monotonic()
        self._list_again = now + (now - start) / LISTING_SHARE

    def has_ended(self) -> bool:
        """Return whether no task is left that this worker could take, now or later."""
        return self._unfinished.keys() <= self._given_up | self._claimed

    def claim(self) -> ClaimedTask | None:
        """Take a task; None if no task is free now."""
        generations = self._leases.generations()
        free = [task for task in self._candidates() if task.id not in generations]
        while free:
            # the others have just begun with one of the first, too
            task = free.pop(self._random.randrange(min(len(generations) + 1, len(free))))
            if claim := self._take(task, None):
                return claim
        for task in self._candidates():
            if task.id in generations:
                lease = self._leases.read(task.id, generations[task.id])
                if lease and not self._leases.is_held(lease) and (claim := self._take(task, lease)):
                    return claim
        return None

    def end(self, claim: ClaimedTask) -> None:
        """End a task whose spans have ended in this worker, and its lease, unless that is lost."""
        task = claim.task.id
        if self.held.get(task) is None:
            pass
        elif claim.error is None:
            self.held.finish(task)
            self._unfinished.pop(task, None)
        else:
            self.held.give_up(task, claim.error)
            self._given_up.add(task)
        self._claimed.discard(task)

    def _candidates(self) -> list[Task]:
        skipped = self._given_up | self._claimed
        return [task for task in self._unfinished.values() if task.id not in skipped]

    def _take(self, task: Task, before: Lease | None) -> ClaimedTask | None:
        """Try to take a task; None if another worker was faster, or the task is complete."""
        spans = self.held.claim(task.id, before, partial(self._remaining, task, before))
        if spans is None:
            if task.id not in self._unfinished:  # others have been busy
                self.refresh()
            return None
        self._claimed.add(task.id)
        lease = self.held.get(task.id)
        died = before is not None and (before.expires > 0 or before.alone is not None)
        return ClaimedTask(task, spans, alone=died or bool(lease and lease.attempts))

    def _remaining(self, task: Task, before: Lease | None) -> tuple[PlannedSpan, ...] | None:
        """Return the spans of a task that have no result; None if all have.

        With a list, only the results of the last moments are unknown: a task without a lease is
        then complete or as listed, and one result tells which of the two.
        """
        spans = [span for span in task.spans if span.id not in self._done]
        looked_up = spans[:1] if self._lists else spans
        if before or any(self._results.exists(span.id) for span in looked_up):
            spans = [span for span in spans if not self._results.exists(span.id)]
        if spans:
            return tuple(spans)
        self._unfinished.pop(task.id, None)
        return None
