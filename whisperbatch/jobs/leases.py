"""Leases: a process holds a task for a limited time, which it extends while it works.

A task is a task of a plan, or a recording of a directory. `Leases` reads and writes the leases of a
store. `HeldLeases` holds those of this process: it extends them, notices their loss, and gives them
up.

    leases/77aa....0.json    generation 0: created by the first worker of the task
    leases/77aa....1.json    generation 1: created by another worker after generation 0 expired

A generation is created only if it does not exist, so one of several workers gets the task. Only
its owner rewrites it, to extend it. The leases of a task are deleted when all of its spans have
results. Until then they remember how often workers died and what failed.

The owner of a lease is named so that other processes see whether it has ended:

    host,boot,namespace-4711-183240-c0ffee
                        |    |      random
                        |    start time of the process; two processes may have the same id in turn
                        id of the process

The boot of the machine is in the name, because machines with the same name may share a folder, and
the namespace, because a container does not see the processes of other containers.
"""

import errno
import hashlib
import json
import logging
import os
import re
import secrets
import socket
import threading
import time
import uuid
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Final, Protocol, TypeVar

from whisperbatch.errors import OptionError, WriteError
from whisperbatch.threads import in_background
from whisperbatch.types import build, parse_json

T = TypeVar("T")

PROC: Final = Path("/proc")
STATE: Final = 0  # fields of /proc/PID/stat, after the name of the program
START: Final = 19
ENDED: Final = "ZX"  # states: the parent process has not noticed the end yet; ending


def process_name() -> str:
    """Return a name of this process. Each call returns another name."""
    pid = os.getpid()
    return f"{','.join(_machine())}-{pid}-{_start(pid) or ''}-{secrets.token_hex(3)}"


def has_ended(name: str) -> bool:
    """Return whether the process with this name has certainly ended.

    False for processes of other machines and containers, and from before a restart. Without /proc
    (macOS), a new process with the same id hides the end of the old one. On Windows, no end is
    seen.
    """
    machine, _, process = name.rpartition("-")[0].rpartition("-")[0].rpartition("-")
    started = name.rpartition("-")[0].rpartition("-")[2]
    if not process.isdigit() or os.name != "posix":
        return False
    return machine == ",".join(_machine()) and not _is_running(int(process), started)


def _is_running(pid: int, started: str) -> bool:
    """Return whether a process with this id and start time may be running."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):  # it belongs to another user
        pass
    start = _start(pid)
    return start is None or (start != "" and started in ("", start))


def _start(pid: int) -> str | None:
    """Return when a process started; "" if it has ended, None if this cannot be read."""
    try:
        text = (PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return "" if fields[STATE] in ENDED else fields[START]


def _machine() -> tuple[str, str, str]:
    """Return the name of this machine, a hash of its boot, and the namespace of its processes."""
    try:
        boot = (PROC / "sys/kernel/random/boot_id").read_bytes()
    except OSError:
        boot = uuid.getnode().to_bytes(8, "big")  # by chance, if the machine has no address
    try:
        namespace = str((PROC / "self/ns/pid").readlink())
    except OSError:
        namespace = ""
    host = socket.gethostname().replace(",", "_")
    return host, hashlib.blake2b(boot, digest_size=4).hexdigest(), namespace.strip("pid:[]")


LEASES: Final = "leases"
NAME: Final = re.compile(r"(.*)\.([0-9]{1,9})\.json")  # of the object of a lease, in its folder
MANY: Final = 20  # generations: to list those that exist is then faster than to delete each
DURATION: Final = 600.0  # seconds
MAX_DURATION: Final = 86_400.0
MAX_LEFT: Final = 2 * MAX_DURATION  # a lease that ends later than this is damaged
RENEWALS: Final = 5  # a lease is extended after this fraction of its duration: every 2 minutes
STOP_TIMEOUT: Final = 3.0  # seconds that a stop waits for a thread that uses the store
FULL: Final = (errno.ENOSPC, errno.EDQUOT)

log = logging.getLogger(__name__)


class LeaseStore(Protocol):
    """Stores objects by name, as `plans.stores.Store` does. Thread-safe."""

    def read(self, name: str) -> bytes | None:
        """Return the content of an object; None if there is no such object."""
        ...

    def exists(self, name: str) -> bool:
        """Return whether there is such an object."""
        ...

    def write(self, name: str, data: bytes) -> None:
        """Write an object; an object of this name is replaced."""
        ...

    def create(self, name: str, data: bytes) -> bool:
        """Write an object if there is none of this name. Return whether it was written."""
        ...

    def delete(self, name: str) -> None:
        """Delete an object. An object that does not exist is not an error."""
        ...

    def names(self, folder: str) -> frozenset[str]:
        """Return the names of all objects in a folder, without the folder."""
        ...


@dataclass(frozen=True, slots=True)
class Lease:
    """A generation of a task's lease.

    Attributes:
        task: id of the task.
        generation: number, from 0.
        worker: name of the owner.
        group: workers with the same name of a group replace each other: a shard that starts again
            takes its own leases at once. Empty for no group.
        expires: when others may take the task, in seconds since 1970; 0 after it was given up.
        alone: id of the span that the owner transcribes with nothing else; None if it transcribes
            several spans at a time.
        attempts: for each span, how often it failed or its worker died.
        error: the last error, as text; empty if there was none.
    """

    task: str
    generation: int
    worker: str
    group: str
    expires: float
    alone: str | None = None
    attempts: Mapping[str, int] = field(default_factory=dict)
    error: str = ""

    @property
    def name(self) -> str:
        """Name of the object."""
        return lease_name(self.task, self.generation)


class Leases:
    """The leases in a store, as one worker sees them. Thread-safe.

    Clocks of machines may differ by much less than the duration.

    Args:
        store: of the job.
        worker: name of this worker.
        group: see `Lease.group`.
        duration: of a lease, in seconds.
        clock: returns seconds since 1970.
        has_ended: returns whether the worker with a name has certainly ended. Its leases can then
            be taken at once.
    """

    def __init__(
        self,
        store: LeaseStore,
        worker: str,
        *,
        group: str = "",
        duration: float = DURATION,
        clock: Callable[[], float] = time.time,
        has_ended: Callable[[str], bool] = lambda _: False,
    ) -> None:
        self._store, self._worker, self._group = store, worker, group
        self.duration = duration
        self._clock, self._has_ended = clock, has_ended
        self._lost: set[str] = set()  # tasks that others have taken from this worker

    def generations(self) -> dict[str, int]:
        """Return the newest generation of each task that has a lease."""
        newest: dict[str, int] = {}
        for name in self._store.names(LEASES):
            if found := NAME.fullmatch(name):
                newest[found[1]] = max(newest.get(found[1], 0), int(found[2]))
        return newest

    def read(self, task: str, generation: int) -> Lease | None:
        """Return a generation; None if it does not exist."""
        name = lease_name(task, generation)
        data = self._store.read(name)
        return None if data is None else parse_lease(name, data)

    def is_held(self, lease: Lease) -> bool:
        """Return whether a lease keeps this worker from its task.

        A worker that has lost a task to another one of its group does not take it back at once:
        otherwise two that live would take a task from each other, again and again.
        """
        if self._group and lease.group == self._group and lease.task not in self._lost:
            return False
        left = lease.expires - self._clock()
        return 0 < left <= MAX_LEFT and not self._has_ended(lease.worker)

    def acquire(self, task: str, before: Lease | None = None) -> Lease | None:
        """Create the next generation of a task's lease; None if another worker was faster.

        Args:
            task: id of the task.
            before: the newest generation, which is not held; None if there is none. If its owner
                died while it transcribed a span alone, this counts as an attempt at this span.
        """
        attempts = dict(before.attempts) if before else {}
        if before and before.alone and before.expires:
            attempts[before.alone] = attempts.get(before.alone, 0) + 1
        lease = Lease(
            task,
            before.generation + 1 if before else 0,
            self._worker,
            self._group,
            self._clock() + self.duration,
            attempts=attempts,
            error=before.error if before else "",
        )
        return lease if self._store.create(lease.name, _encode(lease)) else None

    def renew(self, lease: Lease) -> Lease | None:
        """Extend a lease of this worker; None if another worker has taken the task."""
        if self._store.exists(replace(lease, generation=lease.generation + 1).name):
            self._lost.add(lease.task)
            return None
        lease = replace(lease, expires=self._clock() + self.duration)
        self.write(lease)
        return lease

    def write(self, lease: Lease) -> None:
        """Rewrite a lease of this worker."""
        self._store.write(lease.name, _encode(lease))

    def give_up(self, lease: Lease) -> None:
        """Let others take the task at once. What the lease remembers stays."""
        self.write(replace(lease, expires=0.0, alone=None))

    def finish(self, lease: Lease) -> None:
        """Delete the leases of a task whose spans all have results."""
        self.delete(lease.task, lease.generation)

    def delete(self, task: str, newest: int) -> None:
        """Delete all generations of a task, the newest last, so that no worker takes the task."""
        generations: Iterable[int] = range(newest + 1)
        if newest > MANY:
            found = [NAME.fullmatch(name) for name in self._store.names(LEASES)]
            generations = sorted(int(name[2]) for name in found if name and name[1] == task)
        for generation in generations:
            self._store.delete(lease_name(task, generation))


def lease_name(task: str, generation: int) -> str:
    """Return the name of the object of a lease."""
    return f"{LEASES}/{task}.{generation}.json"


def is_lease_name(name: str) -> bool:
    """Return whether an object of this name is a lease."""
    return bool(NAME.fullmatch(name.removeprefix(f"{LEASES}/")))


def _encode(lease: Lease) -> bytes:
    return (json.dumps(asdict(lease)) + "\n").encode()


def parse_lease(name: str, data: bytes) -> Lease:
    """Return the lease that an object contains.

    A damaged lease is one that has ended, because leases protect nothing: its task is free.

    Args:
        name: of the object, as `lease_name` makes it.
        data: its content.
    """
    task, _, generation = name.removeprefix(f"{LEASES}/").removesuffix(".json").rpartition(".")
    lease = Lease(task, int(generation), "", "", 0.0)
    with suppress(OptionError):
        found = build(Lease, parse_json(data))
        lease = replace(found, task=lease.task, generation=lease.generation)
    return lease


class HeldLeases:
    """The leases that this process holds, by the ids of their tasks. Thread-safe.

    If the store fails, a method raises WriteError, unless a derived class decides otherwise.

    Args:
        leases: of the store.
        at_stop: the same leases for `give_up_all`, where the store must not be waited for.
    """

    def __init__(self, leases: Leases, at_stop: Leases | None = None) -> None:
        self._leases, self._leases_at_stop = leases, at_stop or leases
        self.duration = leases.duration
        self._held: dict[str, Lease] = {}
        self._lock = threading.RLock()  # a signal handler may interrupt its owner
        self._stopped = False

    def count(self) -> int:
        """Return the number of tasks that are held."""
        return len(self._held)

    def get(self, task: str) -> Lease | None:
        """Return the lease of a task; None if it is lost or ended, and after `give_up_all`."""
        return None if self._stopped else self._held.get(task)

    def acquire(self, task: str, before: Lease | None = None) -> bool:
        """Take a task; return False if another process was faster, and after `give_up_all`.

        Args:
            task: its id.
            before: the newest lease, which is not held; None if there is none.
        """
        with self._lock:
            if self._stopped:
                return False
            try:
                lease = self._leases.acquire(task, before)
            except WriteError as error:
                self._fail(error)
                return True
            if lease and self._stopped:  # `give_up_all` did not wait for the store
                self._change(self._leave, lease)
                return False
            if lease:
                self._held[task] = lease
            return lease is not None

    def claim(self, task: str, before: Lease | None, look: Callable[[], T | None]) -> T | None:
        """Take a task, and look then at what is left to do: another process may have finished it.

        Args:
            task: see `acquire`.
            before: see `acquire`.
            look: returns what is left to do; None if nothing is, and the leases are deleted.

        Returns:
            What is left to do; None if the task is not taken.
        """
        if not self.acquire(task, before):
            return None
        try:
            left = look()
        except BaseException:
            self.leave(task)
            raise
        if left is None:
            self.finish(task)
        return left

    def note_alone(self, task: str, span: str) -> None:
        """Write which span is transcribed alone, in case that this process dies at it."""
        with self._lock:
            if lease := self.get(task):
                self._write(replace(lease, alone=span))

    def count_attempt(self, task: str, span: str, error: str) -> int:
        """Note that an attempt at a span failed; return the number of attempts of all workers."""
        with self._lock:
            if (lease := self.get(task)) is None:
                return 0
            attempts = lease.attempts.get(span, 0) + 1
            self._write(replace(lease, attempts={**lease.attempts, span: attempts}, error=error))
            return attempts

    def finish(self, task: str) -> None:
        """Delete the leases of a task that needs no more work."""
        self._end(task, Leases.finish)

    def leave(self, task: str) -> None:
        """Let others take a task at once, as if this process had not taken it."""
        self._end(task, self._leave)

    def give_up(self, task: str, error: str = "") -> None:
        """Let others take a task last; with an error, let others know that it failed."""
        self._end(task, lambda leases, lease: leases.give_up(replace(lease, error=error)))

    def give_up_all(self) -> None:
        """Let others take all tasks at once. A signal handler may call this.

        Nothing is taken afterwards.
        """
        self._stopped = True
        locked = self._lock.acquire(timeout=STOP_TIMEOUT)
        try:
            with suppress(WriteError):  # once: each attempt may wait for the store
                for lease in list(self._held.values()):
                    self._leave(self._leases_at_stop, lease)
            self._held.clear()
        finally:
            if locked:
                self._lock.release()

    @contextmanager
    def renewing(self, on_lost: Callable[[str], object]) -> Generator[None, None, None]:
        """Extend the leases until the end of a `with` block.

        Args:
            on_lost: called with each task that another process has taken, in another thread.
        """
        stopping = threading.Event()

        def renew() -> None:
            while not stopping.wait(self.duration / RENEWALS):
                for task in self.renew():
                    on_lost(task)

        thread = in_background(renew, "whisperbatch-leases")
        try:
            yield
        finally:
            stopping.set()
            thread.join()

    def renew(self) -> list[str]:
        """Extend all leases; forget and return the tasks that other processes have taken."""
        lost = []
        for task in list(self._held):
            with self._lock:
                if (lease := self._held.get(task)) is None:
                    continue
                try:
                    renewed = self._leases.renew(lease)
                except WriteError as error:
                    self._warn(error)
                    continue
                if renewed:
                    self._held[task] = renewed
                else:
                    del self._held[task]
                    lost.append(task)
        return lost

    def _write(self, lease: Lease) -> None:
        self._held[lease.task] = lease
        self._leases.write(lease)

    def _end(self, task: str, change: Callable[[Leases, Lease], None]) -> None:
        with self._lock:
            if lease := self._held.pop(task, None):
                self._change(change, lease)

    def _change(self, change: Callable[[Leases, Lease], None], lease: Lease) -> None:
        try:
            change(self._leases, lease)
        except WriteError as error:
            self._fail(error)

    def _leave(self, leases: Leases, lease: Lease) -> None:
        """Give a lease up; on a full disk, where it cannot be rewritten, delete it."""
        try:
            leases.give_up(lease)
        except WriteError as error:
            if getattr(error.__cause__, "errno", None) not in FULL:
                raise
            leases.finish(lease)

    def _fail(self, error: WriteError) -> None:
        """Decide what an error of the store means."""
        raise error

    def _warn(self, error: WriteError) -> None:
        """Log that a lease cannot be extended."""
        log.warning("a lease cannot be extended: %s", error)
