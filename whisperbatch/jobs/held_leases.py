"""The leases that this process holds on recordings of a directory.

Leases save work, and protect nothing: outputs are written completely or not at all. If the ledger
cannot be written, recordings are therefore transcribed without leases.

The leases in a ledger: the store of `Leases` for processes of one machine.

Each call opens the file, which takes a fraction of a millisecond. Thus a signal handler can give up
leases while a thread uses the ledger, and leases do not depend on the state of the ledger.
"""

import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from whisperbatch.errors import WriteError
from whisperbatch.jobs.leases import (
    LEASES,
    MAX_LEFT,
    RENEWALS,
    Lease,
    Leases,
    has_ended,
    is_lease_name,
    parse_lease,
    process_name,
)
from whisperbatch.threads import in_background

LOCK_TIMEOUT: Final = 30.0  # seconds to wait while another process writes
LAST: Final = "\U0010ffff"  # comes after all characters of a name
TODAY: Final = "CAST(julianday('now') AS INTEGER)"


class LeaseTable:
    """See `leases.LeaseStore`. Thread-safe.

    Args:
        path: absolute path of the ledger, which must exist. It is never created here: the ledger
            would not notice that it was deleted.
        timeout: seconds to wait while another process or thread writes.

    All methods raise WriteError if the file cannot be read or written.
    """

    def __init__(self, path: Path, timeout: float = LOCK_TIMEOUT) -> None:
        self._path, self._timeout = path, timeout

    def read(self, name: str) -> bytes | None:
        """See `LeaseStore`."""
        rows, _ = self._execute("SELECT data FROM leases WHERE name = ?", name)
        return _data(rows[0][0]) if rows else None

    def exists(self, name: str) -> bool:
        """See `LeaseStore`."""
        rows, _ = self._execute("SELECT 1 FROM leases WHERE name = ?", name)
        return bool(rows)

    def write(self, name: str, data: bytes) -> None:
        """See `LeaseStore`."""
        self._execute(f"INSERT OR REPLACE INTO leases VALUES (?, ?, {TODAY})", name, data)  # noqa: S608 - a constant

    def create(self, name: str, data: bytes) -> bool:
        """See `LeaseStore`."""
        _, count = self._execute(
            f"INSERT OR IGNORE INTO leases VALUES (?, ?, {TODAY})",  # noqa: S608 - a constant
            name,
            data,
        )
        return count == 1

    def delete(self, name: str) -> None:
        """See `LeaseStore`."""
        self._execute("DELETE FROM leases WHERE name = ?", name)

    def names(self, folder: str) -> frozenset[str]:
        """See `LeaseStore`."""
        return frozenset(name.removeprefix(f"{folder}/") for name in self.items(f"{folder}/"))

    def items(self, prefix: str) -> dict[str, bytes]:
        """Return all objects whose names begin with a prefix, in one query."""
        rows, _ = self._execute(
            "SELECT name, data FROM leases WHERE name >= ? AND name < ?", prefix, f"{prefix}{LAST}"
        )
        return {str(name): _data(data) for name, data in rows}

    def _execute(self, statement: str, *values: object) -> tuple[list[Any], int]:
        """Run a statement; return its rows, and the number of rows that it changed."""
        try:
            uri = f"{self._path.as_uri()}?mode=rw"
            with closing(
                sqlite3.connect(uri, uri=True, timeout=self._timeout, isolation_level=None)
            ) as database:
                database.execute("PRAGMA synchronous=NORMAL")  # as the ledger
                cursor = database.execute(statement, values)
                return cursor.fetchall(), cursor.rowcount
        except sqlite3.Error as error:
            raise WriteError(f"{self._path}: the leases cannot be used: {error}") from error


def _data(value: object) -> bytes:
    """Return the content of a row; nothing if the row is damaged."""
    return value if isinstance(value, bytes) else b""


DURATION: Final = 120.0  # seconds of a lease: an extension takes a fraction of a millisecond
PROCESSES: Final = "processes"  # a row for each process that works on the directory

STOP_TIMEOUT: Final = 3.0  # seconds that a stop waits for the ledger, and for a thread that uses it

log = logging.getLogger(__name__)


class HeldLeases:
    """The leases of this process, by the keys of recordings. Thread-safe.

    Attributes:
        duration: of a lease, in seconds.

    Args:
        path: absolute path of the ledger.
        duration: of a lease, in seconds.
    """

    def __init__(self, path: Path, duration: float = DURATION) -> None:
        self._name, self.duration = process_name(), duration
        self._table, self._table_at_stop = LeaseTable(path), LeaseTable(path, STOP_TIMEOUT)
        self._leases, self._leases_at_stop = (
            Leases(table, self._name, duration=duration, has_ended=has_ended)
            for table in (self._table, self._table_at_stop)
        )
        self._held: dict[str, Lease] = {}
        self._left: dict[str, Lease] = {}  # given up, by name: these do not change
        self._lock = threading.RLock()  # a signal handler may interrupt its owner
        self._warned = self._stopped = False

    def register(self) -> None:
        """Let other processes know that this process will take recordings, or still does."""
        row = f"{PROCESSES}/{self._name}"
        try:
            self._table.write(row, str(time.time() + self.duration).encode())
        except WriteError as error:
            self._warn(error)

    def processes(self) -> int:
        """Return the number of processes that take recordings, with this one."""
        count = 1
        try:
            for row, expires in self._table.items(f"{PROCESSES}/").items():
                name = row.partition("/")[2]
                if has_ended(name) or not self._is_running(expires):
                    self._table.delete(row)
                elif name != self._name:
                    count += 1
        except WriteError as error:
            self._warn(error)
        return count

    def _is_running(self, expires: bytes) -> bool:
        """Return whether a process has extended its row in time; a damaged row has no process."""
        try:
            return 0 <= float(expires) - time.time() <= MAX_LEFT
        except ValueError:
            return False

    def newest(self, key: str | None = None) -> dict[str, Lease]:
        """Return the newest lease of each key that has one; those that ended early, too.

        Args:
            key: only of this key; None for all.
        """
        leases: dict[str, Lease] = {}
        try:
            prefix = f"{LEASES}/" if key is None else f"{LEASES}/{key}."
            for name, data in self._table.items(prefix).items():
                if not is_lease_name(name):
                    continue
                lease = self._left.get(name) or parse_lease(name, data)
                if not lease.expires:
                    self._left[name] = lease
                before = leases.get(lease.task)
                if before is None or before.generation < lease.generation:
                    leases[lease.task] = lease
        except WriteError as error:
            self._warn(error)
        return leases

    def is_held(self, lease: Lease) -> bool:
        """Return whether a lease keeps this run from a recording."""
        return self._leases.is_held(lease)

    def acquire(self, key: str, before: Lease | None) -> bool:
        """Take a lease; return False if another process was faster.

        Args:
            key: of the recording.
            before: the newest lease, which is not held; None if there is none.
        """
        with self._lock:
            if self._stopped:
                return False
            try:
                lease = self._leases.acquire(key, before)
            except WriteError as error:
                self._warn(error)
                return True
            if lease:
                self._held[key] = lease
            return lease is not None

    def finish(self, key: str) -> None:
        """Delete the lease of a recording that needs no more work."""
        with self._lock:
            if lease := self._held.pop(key, None):
                self._attempt(self._leases.finish, lease)

    def delete(self, lease: Lease) -> None:
        """Delete the lease of another process on a recording that is finished."""
        self._attempt(self._leases.finish, lease)

    def leave(self, key: str) -> None:
        """Let others take a recording at once, as if this process had not taken it."""
        with self._lock:
            if lease := self._held.pop(key, None):
                self._attempt(self._leave_lease, lease)

    def _leave_lease(self, lease: Lease, leases: Leases | None = None) -> None:
        """Delete a lease; if a process died at the recording, remember this."""
        leases = leases or self._leases
        (leases.give_up if lease.generation else leases.finish)(replace(lease, error=""))

    def give_up(self, key: str, error: str = "") -> None:
        """Let others take a recording last; with an error, let others know that it failed."""
        with self._lock:
            if lease := self._held.pop(key, None):
                self._attempt(self._leases.give_up, replace(lease, error=error))

    def give_up_all(self) -> None:
        """Let others take all recordings at once. A signal handler may call this.

        Nothing is taken afterwards.
        """
        self._stopped = True
        locked = self._lock.acquire(timeout=STOP_TIMEOUT)
        try:
            self._unregister(self._table_at_stop)
            with suppress(WriteError):  # once: each attempt may wait for the ledger
                for lease in list(self._held.values()):
                    self._leave_lease(lease, self._leases_at_stop)
            self._held.clear()
        finally:
            if locked:
                self._lock.release()

    @contextmanager
    def renewing(self) -> Generator[None, None, None]:
        """Be registered, and extend the leases, until the end of a `with` block."""
        self.register()
        stopping = threading.Event()

        def renew() -> None:
            while not stopping.wait(self._leases.duration / RENEWALS):
                self.renew()

        thread = in_background(renew, "whisperbatch-leases")
        try:
            yield
        finally:
            stopping.set()
            thread.join()
            self._unregister(self._table)

    def renew(self) -> None:
        """Extend all leases, and forget those that other processes have taken."""
        self.register()
        for key in list(self._held):
            with self._lock:
                if (lease := self._held.get(key)) is None:
                    continue
                try:
                    renewed = self._leases.renew(lease)
                except WriteError as error:
                    self._warn(error)
                    continue
                if renewed:
                    self._held[key] = renewed
                else:
                    del self._held[key]
                    log.warning("another process has taken a recording of this process")

    def _unregister(self, table: LeaseTable) -> None:
        with suppress(WriteError):  # other processes see the end of this one, or the row expires
            table.delete(f"{PROCESSES}/{self._name}")

    def _attempt(self, change: Callable[[Lease], None], lease: Lease) -> None:
        try:
            change(lease)
        except WriteError as error:
            self._warn(error)

    def _warn(self, error: WriteError) -> None:
        """Log the first error."""
        if not self._warned:
            self._warned = True
            log.warning("%s; other processes may transcribe the same recordings", error)
