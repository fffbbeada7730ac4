"""The file of a directory job: finished outputs, the journal, and leases of recordings.

An SQLite file. If a process is killed, the file holds everything up to the last decoded chunk. If
the machine fails, the last chunks may be missing, but no entry is incomplete. Several processes
may use one file.
"""

import logging
import os
import secrets
import sqlite3
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeAlias

from typing_extensions import Self

from whisperbatch.errors import WriteError
from whisperbatch.jobs.inputs import LEDGER_NAME
from whisperbatch.jobs.leases import (
    LEASES,
    MAX_LEFT,
    STOP_TIMEOUT,
    HeldLeases,
    Lease,
    Leases,
    has_ended,
    is_lease_name,
    parse_lease,
    process_name,
)

VERSION: Final = 1  # of the tables
LOCK_TIMEOUT: Final = 30.0  # seconds to wait while another process writes
LOCK_POLL: Final = 0.02  # seconds
TODAY: Final = "CAST(julianday('now') AS INTEGER)"
KEYS_PER_QUERY: Final = 500  # older versions of SQLite take at most 999
ASIDE: Final = ".damaged"  # suffix of a ledger that cannot be used
JOURNAL_DAYS: Final = 30  # entries that no run has read for this long are deleted; leases, too

DURATION: Final = 120.0  # seconds of a lease: an extension takes a fraction of a millisecond
PROCESSES: Final = "processes"  # a row for each process that works on the directory
LAST: Final = "\U0010ffff"  # comes after all characters of a name

TABLES: Final = """
CREATE TABLE IF NOT EXISTS finished (
    output BLOB PRIMARY KEY, -- path of the file, relative to the ledger's directory if inside it
    made   TEXT NOT NULL,    -- fingerprint of the recording, the model and the options
    stamp  TEXT NOT NULL     -- size and time of the file after it was written; empty before
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS journal (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    key    BLOB NOT NULL UNIQUE,
    value  BLOB NOT NULL,
    run    INTEGER NOT NULL, -- the run that wrote the entry, or that was the last to read it
    day    INTEGER NOT NULL  -- the day when this run wrote or read it
);
CREATE TABLE IF NOT EXISTS leases (
    name TEXT PRIMARY KEY,
    data BLOB NOT NULL,
    day  INTEGER NOT NULL -- the day when it was written
) WITHOUT ROWID;
"""
Row: TypeAlias = tuple[object, ...]
_Statement: TypeAlias = tuple[str, Row]

log = logging.getLogger(__name__)


class LeaseTable:
    """The leases in a ledger: a `LeaseStore` for processes of one machine. Thread-safe.

    Each call opens the file, which takes a fraction of a millisecond. Thus a signal handler can
    give up leases while a thread uses the ledger, and leases do not depend on its state.

    Args:
        path: absolute path of the ledger, which must exist. It is never created here: the ledger
            would not notice that it was deleted.
        timeout: seconds to wait while another process or thread writes.

    All methods raise WriteError if the file cannot be read or written.
    """

    def __init__(self, path: Path, timeout: float = LOCK_TIMEOUT) -> None:
        self._path, self._timeout = path, timeout

    def read(self, name: str) -> bytes | None:
        """Return the content of a row; None if there is no such row."""
        rows, _ = self._execute("SELECT data FROM leases WHERE name = ?", name)
        return _data(rows[0][0]) if rows else None

    def exists(self, name: str) -> bool:
        """Return whether there is such a row."""
        rows, _ = self._execute("SELECT 1 FROM leases WHERE name = ?", name)
        return bool(rows)

    def write(self, name: str, data: bytes) -> None:
        """Write a row; a row of this name is replaced."""
        self._execute(f"INSERT OR REPLACE INTO leases VALUES (?, ?, {TODAY})", name, data)  # noqa: S608 - a constant

    def create(self, name: str, data: bytes) -> bool:
        """Write a row if there is none of this name. Return whether it was written."""
        _, count = self._execute(
            f"INSERT OR IGNORE INTO leases VALUES (?, ?, {TODAY})",  # noqa: S608 - a constant
            name,
            data,
        )
        return count == 1

    def delete(self, name: str) -> None:
        """Delete a row. A row that does not exist is not an error."""
        self._execute("DELETE FROM leases WHERE name = ?", name)

    def names(self, folder: str) -> frozenset[str]:
        """Return the names of all rows in a folder, without the folder."""
        return frozenset(name.removeprefix(f"{folder}/") for name in self.items(f"{folder}/"))

    def items(self, prefix: str) -> dict[str, bytes]:
        """Return all rows whose names begin with a prefix, in one query."""
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


class DirectoryLeases(HeldLeases):
    """The leases of this process on recordings of a directory, by the keys of recordings.

    Leases save work, and protect nothing: outputs are written completely or not at all. If the
    ledger cannot be written, recordings are therefore transcribed without leases.

    Args:
        path: absolute path of the ledger.
        duration: of a lease, in seconds.
    """

    def __init__(self, path: Path, duration: float = DURATION) -> None:
        self._name = process_name()
        self._table, self._table_at_stop = LeaseTable(path), LeaseTable(path, STOP_TIMEOUT)
        super().__init__(
            *(
                Leases(table, self._name, duration=duration, has_ended=has_ended)
                for table in (self._table, self._table_at_stop)
            )
        )
        self._left: dict[str, Lease] = {}  # given up, by name: these do not change
        self._warned = False

    def register(self) -> None:
        """Let other processes know that this process will take recordings, or still does."""
        row = f"{PROCESSES}/{self._name}"
        try:
            self._table.write(row, str(time.time() + self.duration).encode())
        except WriteError as error:
            self._fail(error)

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
            self._fail(error)
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
            self._fail(error)
        return leases

    def is_held(self, lease: Lease) -> bool:
        """Return whether a lease keeps this run from a recording."""
        return self._leases.is_held(lease)

    def delete(self, lease: Lease) -> None:
        """Delete the lease of another process on a recording that is finished."""
        self._change(Leases.finish, lease)

    @contextmanager
    def renewing(self, on_lost: Callable[[str], object]) -> Generator[None, None, None]:
        """Be registered, and extend the leases; see `HeldLeases`."""
        self.register()
        try:
            with super().renewing(on_lost):
                yield
        finally:
            self._unregister(self._table)

    def renew(self) -> list[str]:
        """Extend the leases and the registration; see `HeldLeases`."""
        self.register()
        return super().renew()

    def give_up_all(self) -> None:
        """Let others take all recordings, and their shares, at once; see `HeldLeases`."""
        self._unregister(self._table_at_stop)
        super().give_up_all()

    def _unregister(self, table: LeaseTable) -> None:
        with suppress(WriteError):  # other processes see the end of this one, or the row expires
            table.delete(f"{PROCESSES}/{self._name}")

    def _leave(self, leases: Leases, lease: Lease) -> None:
        """Delete a lease; if a process died at the recording, remember this."""
        (leases.give_up if lease.generation else leases.finish)(replace(lease, error=""))

    def _fail(self, error: WriteError) -> None:
        """Go on without leases, and log the first error."""
        if not self._warned:
            self._warned = True
            log.warning("%s; other processes may transcribe the same recordings", error)

    _warn = _fail


@dataclass(frozen=True, slots=True)
class Entry:
    """The ledger's entry for an output that is finished or was being written.

    Attributes:
        fingerprint: of the recording, the model and the options that the output was made with;
            empty if the process was killed while it wrote the output.
        unmodified: whether the file still has the size and time that it was written with, or was
            being written.
    """

    fingerprint: str
    unmodified: bool


class Ledger:
    """The ledger of a directory. A context manager; thread-safe.

    It is the store of a `Journal`. If the journal can no longer be written or read (full
    disk, I/O error), the ledger logs one warning, and the job continues without the journal. An
    output that cannot be listed is not written: the next run would take it for a file of other
    origin. A ledger that was deleted during the job is created again with the next output.

    Args:
        directory: contains the file `LEDGER_NAME`, which is created if necessary. If the directory
            is read-only, the ledger says which outputs are finished, and lists no more.
        lease_duration: seconds until other processes take over a recording, if this process does
            not extend its lease.
        start_again: put a file that is damaged, or of another version, aside (`ASIDE`), and create
            a new one.

    Attributes:
        path: of the file.
        leases: of this process on recordings of the directory.
        is_read_only: whether outputs cannot be listed.

    Raises:
        WriteError: the file cannot be opened or created, or is not a ledger.
    """

    def __init__(
        self, directory: Path, *, lease_duration: float = DURATION, start_again: bool = False
    ) -> None:
        self._directory = directory.absolute()
        self.path = self._directory / LEDGER_NAME
        self._lock = threading.RLock()
        self._run = secrets.randbits(62)
        self._broken = False
        self.is_read_only = os.path.exists(self.path) and not (  # noqa: PTH110 - Path.exists may raise
            os.access(self.path, os.W_OK) and os.access(self._directory, os.W_OK)
        )
        self._database = self._open(start_again=start_again)
        self.leases = DirectoryLeases(self.path, lease_duration)

    def _open(self, *, start_again: bool = False) -> sqlite3.Connection:
        uri = self.path.as_uri()
        if self.is_read_only:
            # without a log, SQLite needs no file for locks, which it could not create
            has_log = os.path.exists(f"{self.path}-wal")  # noqa: PTH110 - as above
            uri += "?mode=ro" if has_log else "?mode=ro&immutable=1"
        try:
            database = sqlite3.connect(
                uri, uri=True, timeout=LOCK_TIMEOUT, check_same_thread=False, isolation_level=None
            )
            try:
                self._prepare(database)
            except BaseException:
                database.close()
                raise
        except sqlite3.Error as error:
            if start_again and _is_damage(error) and not self.is_read_only:
                self._put_aside(error)
                return self._open()
            raise self._error("the ledger of the job cannot be used", error) from error
        return database

    def _put_aside(self, error: sqlite3.Error) -> None:
        """Give the file and its log another name."""
        log.warning("%s: %s; it is kept as %s", self.path, error, LEDGER_NAME + ASIDE)
        for suffix in ("", "-wal", "-shm"):
            with suppress(OSError):  # it does not exist
                Path(f"{self.path}{suffix}").replace(f"{self.path}{ASIDE}{suffix}")

    def _error(self, problem: str, error: sqlite3.Error) -> WriteError:
        """Return an error that says what to do."""
        remedy = ""
        if _is_damage(error):
            remedy = "; run once with --no-resume, which makes all files again"
        elif "lock" in str(error):
            remedy = (
                "; it needs a local disk: choose another --output-dir, or use whisperbatch plan, "
                "work and join"
            )
        return WriteError(f"{self.path}: {problem}: {error}{remedy}")

    def _prepare(self, database: sqlite3.Connection) -> None:
        database.execute(f"PRAGMA busy_timeout={round(LOCK_TIMEOUT * 1000)}")
        if not self.is_read_only:
            _use_write_ahead_log(database)
        database.execute("PRAGMA synchronous=NORMAL")
        [(version,)] = database.execute("PRAGMA user_version")
        if version not in (0, VERSION):
            raise sqlite3.DatabaseError("it was written by another version of whisperbatch")
        if self.is_read_only:
            return
        tables = f"{TABLES} PRAGMA user_version={VERSION};"
        database.executescript(f"BEGIN IMMEDIATE; {tables} COMMIT;")
        for table in ("journal", "leases"):
            database.execute(f"DELETE FROM {table} WHERE day < {TODAY} - {JOURNAL_DAYS}")  # noqa: S608 - constants

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def entry(self, output: Path) -> Entry | None:
        """Return the entry of an output; None if no run has written the output."""
        rows = self._read("SELECT made, stamp FROM finished WHERE output = ?", self._name(output))
        if not rows:
            return None
        [(made, stamp)] = rows
        fingerprint = made if isinstance(made, str) else ""  # a damaged entry: it is made again
        return Entry(fingerprint, not stamp or stamp == _stamp(output))

    def begin(self, output: Path) -> Row | None:
        """Note that an output is about to be written.

        If the process is killed before `finish`, or `finish` fails, a file of this name is not
        taken for a file of other origin: the next run makes it again.

        Returns:
            What the ledger said about the output before, for `undo`.

        Raises:
            WriteError: the ledger cannot be written; the output must not be written, either.
        """
        try:
            with self._lock:
                if not os.path.exists(self.path):  # noqa: PTH110 - Path.exists may raise
                    # deleted with its directory, which is created again for the output
                    deleted, self._database = self._database, self._open()
                    deleted.close()
                name = self._name(output)
                rows = self._query("SELECT * FROM finished WHERE output = ?", name)
                self._execute(("INSERT OR REPLACE INTO finished VALUES (?, '', '')", (name,)))
                return rows[0] if rows else None
        except sqlite3.Error as error:
            raise WriteError(f"{output}: cannot be listed in {self.path}: {error}") from error

    def undo(self, output: Path, before: Row | None) -> None:
        """Note that an output was not written: restore the entry of before `begin`."""
        if before is None:
            self._write(("DELETE FROM finished WHERE output = ?", (self._name(output),)))
        else:
            self._write(("INSERT OR REPLACE INTO finished VALUES (?, ?, ?)", before))

    def finish(self, output: Path, fingerprint: str | None) -> None:
        """List an output as finished. None deletes its entry: the output is made each time."""
        if fingerprint is None:
            self._write(("DELETE FROM finished WHERE output = ?", (self._name(output),)))
            return
        values = (self._name(output), fingerprint, _stamp(output))
        self._write(("INSERT OR REPLACE INTO finished VALUES (?, ?, ?)", values))

    def find(self, keys: Sequence[bytes]) -> Mapping[bytes, bytes]:
        """Return the stored values; keys without a value are left out."""
        values: dict[bytes, bytes] = {}
        for start in range(0, len(keys), KEYS_PER_QUERY):
            some = keys[start : start + KEYS_PER_QUERY]
            condition = f"key IN ({', '.join('?' * len(some))})"
            query = f"SELECT key, value FROM journal WHERE {condition}"  # noqa: S608 - question marks
            values |= dict(self._read_journal(query, *some))
            if values:  # in a first run most queries return nothing, and need no update
                update = f"UPDATE journal SET run = ?, day = {TODAY} WHERE run != ? AND {condition}"  # noqa: S608 - question marks
                self._write((update, (self._run, self._run, *some)))
        return values

    def keep(self, values: Mapping[bytes, bytes]) -> None:
        """Store all values, or none of them; a value replaces that of its key."""
        rows = [(key, value, self._run) for key, value in values.items()]
        statement = (
            f"INSERT INTO journal (key, value, run, day) VALUES (?, ?, ?, {TODAY}) "  # noqa: S608 - a constant
            "ON CONFLICT (key) DO UPDATE SET value = excluded.value"
        )
        self._write(*((statement, row) for row in rows))

    def mark(self) -> int:
        """Return the number that the journal's next entry will have; 0 if it cannot be read."""
        rows = self._read_journal("SELECT coalesce(max(seq), 0) FROM sqlite_sequence")
        return int(rows[0][0]) + 1 if rows else 0

    def forget(self, start: int = 0, end: int | None = None) -> None:
        """Delete journal entries that this run wrote or read.

        Args:
            start: the mark of the first entry.
            end: the mark after the last entry; None for all.
        """
        stop = self.mark() if end is None else end
        delete = "DELETE FROM journal WHERE run = ? AND number >= ? AND number < ?"
        self._write((delete, (self._run, start, stop)))

    def count(self) -> int:
        """Return the number of entries in the journal."""
        [(entries,)] = self._read("SELECT count(*) FROM journal")
        return int(entries)

    def close(self) -> None:
        """Give up the leases, and close the file. Safe to call twice."""
        self.leases.give_up_all()
        with self._lock:
            self._database.close()

    def _name(self, output: Path) -> bytes:
        """Return the path of an output, relative to the ledger's directory if inside it.

        A directory can then be moved together with its ledger.
        """
        path = output.absolute()
        inside = path.is_relative_to(self._directory)
        return os.fsencode((path.relative_to(self._directory) if inside else path).as_posix())

    def _query(self, query: str, *values: object) -> list[Any]:
        with self._lock:
            return self._database.execute(query, values).fetchall()

    def _read(self, query: str, *values: object) -> list[Any]:
        try:
            return self._query(query, *values)
        except sqlite3.Error as error:
            raise self._error("the ledger cannot be read", error) from error

    def _read_journal(self, query: str, *values: object) -> list[Any]:
        """Return the rows; none if the file cannot be read, because the job can do without."""
        try:
            return self._query(query, *values)
        except sqlite3.Error as error:
            self._warn(error)
            return []

    def _write(self, *statements: _Statement) -> None:
        """Run statements in one transaction; if this fails, log one warning."""
        try:
            self._execute(*statements)
        except sqlite3.Error as error:
            self._warn(error)

    def _execute(self, *statements: _Statement) -> None:
        """Run statements in one transaction.

        Raises:
            sqlite3.Error: the file cannot be written, and is unchanged.
        """
        with self._lock:
            self._database.execute("BEGIN IMMEDIATE")
            try:
                for statement, values in statements:
                    self._database.execute(statement, values)
                self._database.execute("COMMIT")
            except BaseException:
                if self._database.in_transaction:
                    self._database.execute("ROLLBACK")
                raise

    def _warn(self, error: sqlite3.Error) -> None:
        """Log the first error."""
        if not self._broken:
            self._broken = True
            log.warning(
                "%s: %s; the job continues, but its progress is not saved", self.path, error
            )


def _is_damage(error: sqlite3.Error) -> bool:
    """Return whether a file is no ledger; other errors have subclasses of their own."""
    return type(error) is sqlite3.DatabaseError


def _use_write_ahead_log(database: sqlite3.Connection) -> None:
    """Switch to the mode in which processes read while another one writes.

    SQLite does not wait here if several processes create the file at the same time.
    """
    deadline = time.monotonic() + LOCK_TIMEOUT
    while True:
        try:
            database.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(LOCK_POLL)
        else:
            return


def _stamp(output: Path) -> str:
    """Return the size and time of a file; empty if there is no file."""
    try:
        status = output.stat()
    except (OSError, ValueError):  # ValueError: a NUL in the path
        return ""
    return f"{status.st_size} {status.st_mtime_ns}"
