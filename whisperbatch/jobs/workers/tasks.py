"""The choice of tasks: which task a worker takes next.

task without a lease       taken, one of the first by chance: workers rarely meet
lease expired or given up  taken when no other task is left
lease of another worker    left alone

The tasks that a worker holds, and their leases.
"""

import errno
import logging
import random
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final, Literal, TypeAlias

from whisperbatch.errors import WhisperBatchError, WriteError
from whisperbatch.jobs.leases import Lease, Leases
from whisperbatch.jobs.plans.format import PlannedSpan, Task
from whisperbatch.jobs.workers.results import Results

End: TypeAlias = Literal["complete", "given up", "lost"]
"""All spans have results; this worker tries no more; another worker has taken the task."""

LISTING_SHARE: Final = 0.1  # of the time that may be spent on listing results


@dataclass(slots=True)
class Claim:
    """A task that this worker holds.

    Attributes:
        task: the task.
        lease: its lease; None after another worker has taken the task.
        remaining: the spans that have no result yet.
        alone: whether the spans must be transcribed one at a time, because a worker died while it
            transcribed this task.
        open: ids of the spans that have not ended in this worker.
        given_up: whether a span has ended without a result.
    """

    task: Task
    lease: Lease | None
    remaining: tuple[PlannedSpan, ...]
    alone: bool
    open: set[str] = field(default_factory=set)
    given_up: bool = False


class TaskQueue:
    """The unfinished tasks of a plan, as one worker sees them. Not thread-safe.

    Args:
        tasks: of this worker, the longest first.
        leases: of the store.
        results: of the store.
        lists: whether to list the results of the store, which are those of all tasks of the plan.
            Without the list, a task that is complete is noticed when it is claimed.
    """

    def __init__(
        self, tasks: Sequence[Task], leases: Leases, results: Results, *, lists: bool = True
    ) -> None:
        self._unfinished = {task.id: task for task in tasks}
        self._leases, self._results = leases, results
        self._done: set[str] = set()
        self._given_up: set[str] = set()
        self._held: set[str] = set()
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
            if task.id in generations and task.id not in self._held:
                self._leases.delete(task.id, generations[task.id])
        now = time.monotonic()
        self._list_again = now + (now - start) / LISTING_SHARE

    def has_ended(self) -> bool:
        """Return whether no task is left that this worker could take, now or later."""
        return self._unfinished.keys() <= self._given_up | self._held

    def claim(self) -> Claim | None:
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

    def end(self, task: Task, end: End) -> None:
        """Note how this worker has ended a task."""
        self._held.discard(task.id)
        if end == "complete":
            self._unfinished.pop(task.id, None)
        elif end == "given up":
            self._given_up.add(task.id)

    def _candidates(self) -> list[Task]:
        skipped = self._given_up | self._held
        return [task for task in self._unfinished.values() if task.id not in skipped]

    def _take(self, task: Task, before: Lease | None) -> Claim | None:
        """Try to take a task; None if another worker was faster, or the task is complete."""
        lease = self._leases.acquire(task.id, before)
        if lease is None:
            return None
        spans = [span for span in task.spans if span.id not in self._done]
        # With a list, only the results of the last moments are unknown: a task without a lease is
        # then complete or as listed, and one result tells which of the two.
        looked_up = spans[:1] if self._lists else spans
        if before or any(self._results.exists(span.id) for span in looked_up):
            spans = [span for span in spans if not self._results.exists(span.id)]
        if not spans:
            self._leases.finish(lease)
            self._unfinished.pop(task.id, None)
            self.refresh()
            return None
        self._held.add(task.id)
        died = before is not None and (before.expires > 0 or before.alone is not None)
        return Claim(
            task,
            lease,
            tuple(spans),
            alone=died or bool(lease.attempts),
            open={span.id for span in spans},
        )


LOCK_TIMEOUT: Final = 3.0  # seconds that a stop waits for an access to the store

FULL: Final = (errno.ENOSPC, errno.EDQUOT)

log = logging.getLogger(__name__)


class HeldTasks:
    """The claims of a worker. Thread-safe.

    Args:
        leases: of the store.
    """

    def __init__(self, leases: Leases) -> None:
        self._leases = leases
        self._claims: dict[str, Claim] = {}
        self._lock = threading.RLock()  # a signal handler may interrupt its owner
        self._stopped = False

    def __len__(self) -> int:
        return len(self._claims)

    def add(self, claim: Claim) -> bool:
        """Hold a task that was claimed; after `give_up_all`, give it up and return False."""
        with self._lock:
            if not self._stopped:
                self._claims[claim.task.id] = claim
                return True
            if claim.lease:
                self._leases.give_up(claim.lease)
            return False

    def holds(self, claim: Claim) -> bool:
        """Return whether this worker still holds a task."""
        return claim.lease is not None and not self._stopped

    def note_alone(self, claim: Claim, span: PlannedSpan) -> None:
        """Write which span is transcribed alone, in case that this worker dies at it."""
        with self._lock:
            if claim.lease:
                claim.lease = replace(claim.lease, alone=span.id)
                self._leases.write(claim.lease)

    def count_attempt(self, claim: Claim, span: PlannedSpan, message: str) -> int:
        """Note that an attempt failed, and return the number of attempts of all workers."""
        with self._lock:
            if claim.lease is None:
                return 0
            attempts = claim.lease.attempts.get(span.id, 0) + 1
            counts = {**claim.lease.attempts, span.id: attempts}
            claim.lease = replace(claim.lease, attempts=counts, error=message)
            self._leases.write(claim.lease)
            return attempts

    def leave(self, claim: Claim, message: str) -> None:
        """Note that a span of the task is left to other workers."""
        with self._lock:
            claim.given_up = True
            if claim.lease:
                claim.lease = replace(claim.lease, error=message)

    def close(self, claim: Claim, span: PlannedSpan) -> End | None:
        """End the work on a span; with the last span, end the task and return how it ended."""
        with self._lock:
            claim.open.discard(span.id)
            if claim.open or self._stopped:
                return None
            lease, claim.lease = claim.lease, None
            self._claims.pop(claim.task.id, None)
            if lease is None:
                return "lost"
            if claim.given_up:
                self._leases.give_up(lease)
                return "given up"
            self._leases.finish(lease)
            return "complete"

    def renew(self) -> list[Claim]:
        """Extend all leases, and return the tasks that other workers have taken."""
        lost = []
        for claim in list(self._claims.values()):
            try:
                with self._lock:
                    if claim.lease is None:
                        continue
                    claim.lease = self._leases.renew(claim.lease)
                    if claim.lease is None:
                        self._claims.pop(claim.task.id, None)
                        lost.append(claim)
            except WhisperBatchError as error:
                log.warning("a lease cannot be extended: %s", error)
        return lost

    def give_up_all(self) -> None:
        """Let other workers take all tasks at once. Nothing is held afterwards."""
        self._stopped = True
        locked = self._lock.acquire(timeout=LOCK_TIMEOUT)
        try:
            for claim in list(self._claims.values()):
                if claim.lease:
                    self._give_up(claim.lease)
                claim.lease = None
            self._claims.clear()
        finally:
            if locked:
                self._lock.release()

    def _give_up(self, lease: Lease) -> None:
        """Give a lease up; on a full disk, where it cannot be rewritten, delete it."""
        with suppress(WriteError):
            try:
                self._leases.give_up(lease)
            except WriteError as error:
                if getattr(error.__cause__, "errno", None) not in FULL:
                    raise
                self._leases.finish(lease)
