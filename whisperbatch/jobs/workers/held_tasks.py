"""The tasks that a worker holds, and their leases."""

import errno
import logging
import threading
from contextlib import suppress
from dataclasses import replace
from typing import Final

from whisperbatch.errors import WhisperBatchError, WriteError
from whisperbatch.jobs.plans.format import PlannedSpan
from whisperbatch.jobs.workers.leases import Lease, Leases
from whisperbatch.jobs.workers.task_queue import Claim, End

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
                    claim.lease = self._leases.renewed(claim.lease)
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
