"""The recordings of a run: each is taken when it begins, unless another process has it.

finished or failed elsewhere   an event, and nothing to do
without a lease                taken, in order
its process died or failed     taken when no other recording is left: it may kill processes
lease of another process       left alone until no other is left; then looked at every second

No process takes more than its share of the recordings that are left. Otherwise a process with many
cores, which reads many recordings at a time, would leave nothing to the others.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol, TypeAlias

from whisperbatch.errors import WhisperBatchError
from whisperbatch.jobs.inputs import WorkItem
from whisperbatch.jobs.leases import Lease
from whisperbatch.jobs.ledger import DirectoryLeases
from whisperbatch.types import DeferredSource, Segment, Transcript


@dataclass(frozen=True, slots=True)
class Finished:
    """All outputs of a recording are written."""

    item: WorkItem
    transcript: Transcript


@dataclass(frozen=True, slots=True)
class FinishedElsewhere:
    """Another process has written all outputs of a recording, after this run had begun."""

    item: WorkItem


@dataclass(frozen=True, slots=True)
class Failed:
    """A recording could not be transcribed, or its outputs could not be written.

    Another process that works on the same recordings may have found the error.
    """

    item: WorkItem
    error: WhisperBatchError


@dataclass(frozen=True, slots=True)
class SegmentReady:
    """The next segment of a recording is decoded."""

    item: WorkItem
    segment: Segment


Event: TypeAlias = SegmentReady | Finished | FinishedElsewhere | Failed


log = logging.getLogger(__name__)

POLL: Final = 1.0  # seconds between two looks at recordings that other processes hold


class Rules(Protocol):
    """The work for a recording; see `job.Job`."""

    def remaining(self, item: WorkItem) -> WorkItem | Failed | None:
        """Return the work item with its unfinished outputs only; None if all are finished."""
        ...

    def key(self, item: WorkItem) -> str | None:
        """Return what processes that do the same work have in common; None to share nothing."""
        ...


def has_failed(lease: Lease) -> bool:
    """Return whether a process gave a recording up because of an error."""
    return bool(lease.error) and not lease.expires


class NothingFreeError(WhisperBatchError):
    """The end of a source for which no recording was free. It is no failure of a recording."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A recording that this run transcribes.

    Attributes:
        item: the recording with its unfinished outputs.
        key: of its lease; None if it has none.
    """

    item: WorkItem
    key: str | None


class Claims:
    """The recordings of a run. Thread-safe.

    Args:
        items: the recordings, with all outputs.
        rules: of the job.
        leases: of this process; None shares nothing.
        begin: called with the number of a source and its recording, before it is read.
    """

    def __init__(
        self,
        items: Sequence[WorkItem],
        rules: Rules,
        leases: DirectoryLeases | None,
        begin: Callable[[int, WorkItem], None],
    ) -> None:
        self._undecided = dict(enumerate(items))
        self._untouched = deque(self._undecided)  # numbers of recordings that had no lease
        self._touched: list[int] = []  # numbers of the others
        self._keys: dict[int, str | None] = {}  # of the undecided recordings, as far as known
        self._rules, self._leases, self._begin = rules, leases, begin
        # a failure in an earlier run is no result; a failure from now on is the result of this run
        newest = leases.newest() if leases else {}
        self._earlier = {lease.name for lease in newest.values() if has_failed(lease)}
        self._claims: dict[int, Claim] = {}
        self._events: deque[Event] = deque()
        self._lock = threading.RLock()
        self._stopping = False
        self._changed = threading.Event()  # a recording of this run has ended, or the run stops

    def sources(self) -> Iterator[DeferredSource]:
        """Yield sources until no recording is left, which open the next recording that is free.

        The iterator waits while other processes hold all recordings that are left.
        """
        number = 0
        waits = False
        while not self._stopping and self._undecided:
            self._changed.clear()
            if self._has_news():
                yield DeferredSource(self._opener(number))
                number += 1
            elif not self._stopping:
                if not self._claims and not waits:
                    waits = True
                    log.warning(
                        "%d recordings are left, and other processes have them; waiting until they "
                        "end, or for at most %d s if they have died",
                        len(self._undecided),
                        self._leases.duration if self._leases else 0,
                    )
                self._changed.wait(POLL)

    def claim(self, number: int) -> Claim | None:
        """Return the recording that a source has opened; None if none was free."""
        return self._claims.get(number)

    def end(self, number: int, error: WhisperBatchError | None, *, is_final: bool) -> None:
        """Note that a recording has ended, so that other processes know it.

        Args:
            number: of the source.
            error: None if all outputs are written.
            is_final: whether the error is one that other processes would find, too.
        """
        with self._lock:
            claim = self._claims.pop(number)
        self._changed.set()
        if not self._leases or claim.key is None:
            return
        if error:
            self._leases.give_up(claim.key, str(error) if is_final else "")
        else:
            self._leases.finish(claim.key)

    def events(self) -> Iterator[Event]:
        """Yield the news of recordings of other processes since the last call."""
        while self._events:
            yield self._events.popleft()

    @contextmanager
    def leased(self) -> Generator[None, None, None]:
        """Extend the leases until the end of a `with` block, and give up those that are left."""
        if not self._leases:
            yield
            return
        warning = "another process has taken a recording of this process"
        with self._leases.renewing(lambda _: log.warning(warning)):
            try:
                yield
            finally:
                for claim in self._claims.values():
                    self._leave(claim)

    def stop(self) -> None:
        """End all waits, and take no more recordings."""
        with self._lock:
            self._stopping = True
        self._changed.set()

    def _opener(self, number: int) -> Callable[[], str]:
        def choose() -> str:
            with self._lock:
                claim = self._take()
                try:
                    self._begin(number, claim.item)
                except BaseException:
                    self._leave(claim)
                    raise
                self._claims[number] = claim
                return claim.item.source

        return choose

    def _take(self) -> Claim:
        """Take the next recording that is free."""
        for number, to_do, before in self._free():
            if self._stopping or not self._has_room():
                break
            key, left = self._key(number), to_do
            if self._leases and key is not None:
                checked = self._leases.claim(key, before, partial(self._check, number))
                if checked is None:
                    continue
                left = checked
            del self._undecided[number]
            self._keys.pop(number, None)
            return Claim(left, key)
        raise NothingFreeError("no recording is free")

    def _leave(self, claim: Claim) -> None:
        if self._leases and claim.key is not None:
            self._leases.leave(claim.key)

    def _has_news(self) -> bool:
        """Return whether a recording is free, or other processes have finished one."""
        with self._lock:
            is_free = next(self._free(), None) is not None
            return bool(self._events) or (is_free and self._has_room())

    def _has_room(self) -> bool:
        """Return whether this run has less than its share of the recordings that are left."""
        if not self._leases:
            return True
        share = -(-(len(self._undecided) + len(self._claims)) // self._leases.processes())
        return len(self._claims) < share

    def _free(self) -> Iterator[tuple[int, WorkItem, Lease | None]]:
        """Yield the recordings that no other process has, and the leases that ended early.

        Recordings without a lease come first, in order. Those with a lease are looked at again
        when no other recording is left.
        """
        while self._untouched:
            number = self._untouched[0]
            if number not in self._undecided:
                self._untouched.popleft()
            elif self._has_lease(number):
                self._touch()
            elif remaining := self._check(number):
                yield number, remaining, None
                if number in self._undecided:  # another process was faster
                    self._touch()
        yield from self._left()

    def _left(self) -> Iterator[tuple[int, WorkItem, Lease | None]]:
        """Yield the recordings that had a lease and are free now; those with an old lease last."""
        self._touched = [number for number in self._touched if number in self._undecided]
        newest = self._leases.newest() if self._leases and self._touched else {}
        ended: list[tuple[int, Lease]] = []
        for number in self._touched:
            lease = newest.get(self._keys[number] or "")
            if lease is None:
                if remaining := self._check(number):
                    yield number, remaining, None
            elif has_failed(lease) and lease.name not in self._earlier:
                self._decide(
                    number, Failed(self._undecided[number], WhisperBatchError(lease.error))
                )
            elif self._leases and not self._leases.is_held(lease):
                ended.append((number, lease))  # else its outputs may be incomplete now
        for number, lease in ended:
            if number not in self._undecided:
                continue
            if remaining := self._check(number):
                yield number, remaining, lease
            elif self._leases and isinstance(self._events[-1], FinishedElsewhere):
                self._leases.delete(lease)  # its process died after the outputs were written

    def _has_lease(self, number: int) -> bool:
        """Return whether a recording has a lease, held or not."""
        key = self._key(number)
        return bool(self._leases and key and self._leases.newest(key))

    def _touch(self) -> None:
        """Put the first recording behind all those that no process has taken yet."""
        self._touched.append(self._untouched.popleft())

    def _key(self, number: int) -> str | None:
        if self._leases is None:
            return None
        if number not in self._keys:
            self._keys[number] = self._rules.key(self._undecided[number])
        return self._keys[number]

    def _check(self, number: int) -> WorkItem | None:
        """Return the work for a recording; note an event if there is none."""
        item = self._undecided[number]
        remaining = self._rules.remaining(item)
        if isinstance(remaining, WorkItem):
            return remaining
        self._decide(number, remaining or FinishedElsewhere(item))
        return None

    def _decide(self, number: int, event: Event) -> None:
        del self._undecided[number]
        self._keys.pop(number, None)
        self._events.append(event)
