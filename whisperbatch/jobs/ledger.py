"""The file that lists the finished outputs of a job and holds the journal of unfinished recordings.

An SQLite file. If a process is killed, the file holds everything up to the last decoded chunk. If
the machine fails, the last chunks may be missing, but no entry is incomplete. Several processes
may use one file.
"""

import logging
import os
import secrets
import sqlite3
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from typing_extensions import Self

from whisperbatch.errors import WriteError

LEDGER_NAME: Final = ".whisperbatch.db"
VERSION: Final = 1  # of the tables
LOCK_TIMEOUT: Final = 30.0  # seconds to wait while another process writes
KEYS_PER_QUERY: Final = 500  # older versions of SQLite take at most 999
JOURNAL_DAYS: Final = 30  # entries that no run has read for this long are deleted

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
"""
TODAY: Final = "CAST(julianday('now') AS INTEGER)"

log = logging.getLogger(__name__)


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

    It is the store of a `JournaledEngine`. If the file cannot be written any more (full disk), the
    ledger logs one warning and ignores later writes, so that the job continues.

    Args:
        directory: contains the file `LEDGER_NAME`, which is created if necessary.

    Raises:
        WriteError: the file cannot be opened or created, or is not a ledger.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory.absolute()
        self.path = self._directory / LEDGER_NAME
        self._lock = threading.Lock()
        self._run = secrets.randbits(62)
        self._broken = False
        try:
            self._database = sqlite3.connect(
                self.path, timeout=LOCK_TIMEOUT, check_same_thread=False, isolation_level=None
            )
            try:
                self._open()
            except BaseException:
                self._database.close()
                raise
        except sqlite3.Error as error:
            raise WriteError(
                f"{self.path}: the ledger of the job cannot be used: {error}"
            ) from error

    def _open(self) -> None:
        self._database.execute(f"PRAGMA busy_timeout={round(LOCK_TIMEOUT * 1000)}")
        self._database.execute("PRAGMA journal_mode=WAL")
        self._database.execute("PRAGMA synchronous=NORMAL")
        [(version,)] = self._database.execute("PRAGMA user_version")
        if version not in (0, VERSION):
            raise WriteError(
                f"{self.path}: the ledger was written by another version of whisperbatch; "
                "delete the file to start again"
            )
        self._database.executescript(f"{TABLES} PRAGMA user_version={VERSION};")
        self._database.execute(f"DELETE FROM journal WHERE day < {TODAY} - {JOURNAL_DAYS}")  # noqa: S608 - constants

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def entry(self, output: Path) -> Entry | None:
        """Return the entry of an output; None if no run has written the output."""
        rows = self._read("SELECT made, stamp FROM finished WHERE output = ?", self._name(output))
        if not rows:
            return None
        [(fingerprint, stamp)] = rows
        return Entry(fingerprint, not stamp or stamp == _stamp(output))

    def begin(self, output: Path) -> None:
        """Note that an output is about to be written.

        If the process is killed before `finish`, a file of this name is not taken for a file of
        other origin.
        """
        self._write("INSERT OR REPLACE INTO finished VALUES (?, '', '')", self._name(output))

    def finish(self, output: Path, fingerprint: str | None) -> None:
        """List an output as finished. None deletes its entry: the output is made each time."""
        if fingerprint is None:
            self._write("DELETE FROM finished WHERE output = ?", self._name(output))
            return
        values = (self._name(output), fingerprint, _stamp(output))
        self._write("INSERT OR REPLACE INTO finished VALUES (?, ?, ?)", *values)

    def find(self, keys: Sequence[bytes]) -> Mapping[bytes, bytes]:
        """Return the stored values. See `JournalStore`."""
        values: dict[bytes, bytes] = {}
        for start in range(0, len(keys), KEYS_PER_QUERY):
            some = keys[start : start + KEYS_PER_QUERY]
            condition = f"key IN ({', '.join('?' * len(some))})"
            values |= dict(self._read(f"SELECT key, value FROM journal WHERE {condition}", *some))  # noqa: S608 - question marks
            if values:  # in a first run most queries return nothing, and need no update
                self._write(
                    f"UPDATE journal SET run = ?, day = {TODAY} WHERE run != ? AND {condition}",  # noqa: S608 - question marks
                    *(self._run, self._run, *some),
                )
        return values

    def keep(self, values: Mapping[bytes, bytes]) -> None:
        """Store values. See `JournalStore`."""
        rows = [(key, value, self._run) for key, value in values.items()]
        self._write(
            f"INSERT OR IGNORE INTO journal (key, value, run, day) VALUES (?, ?, ?, {TODAY})",  # noqa: S608 - a constant
            many=rows,
        )

    def mark(self) -> int:
        """Return the number that the journal's next entry will have."""
        [(last,)] = self._read("SELECT coalesce(max(seq), 0) FROM sqlite_sequence")
        return int(last) + 1

    def forget(self, start: int = 0, end: int | None = None) -> None:
        """Delete journal entries that this run wrote or read.

        Args:
            start: the mark of the first entry.
            end: the mark after the last entry; None for all.
        """
        stop = self.mark() if end is None else end
        self._write(
            "DELETE FROM journal WHERE run = ? AND number >= ? AND number < ?",
            *(self._run, start, stop),
        )

    def count(self) -> int:
        """Return the number of entries in the journal."""
        [(entries,)] = self._read("SELECT count(*) FROM journal")
        return int(entries)

    def close(self) -> None:
        """Close the file. Safe to call twice."""
        with self._lock:
            self._database.close()

    def _name(self, output: Path) -> bytes:
        """Return the path of an output, relative to the ledger's directory if inside it.

        A directory can then be moved together with its ledger.
        """
        path = output.absolute()
        inside = path.is_relative_to(self._directory)
        return os.fsencode((path.relative_to(self._directory) if inside else path).as_posix())

    def _read(self, query: str, *values: object) -> list[Any]:
        with self._lock:
            try:
                return self._database.execute(query, values).fetchall()
            except sqlite3.Error as error:
                raise WriteError(f"{self.path}: the ledger cannot be read: {error}") from error

    def _write(
        self, statement: str, *values: object, many: Sequence[tuple[object, ...]] = ()
    ) -> None:
        """Run a statement in a transaction: with `values`, or once for each row of `many`."""
        with self._lock:
            if self._broken:
                return
            try:
                self._database.execute("BEGIN IMMEDIATE")
                try:
                    self._database.executemany(statement, many or [values])
                    self._database.execute("COMMIT")
                except BaseException:
                    self._database.execute("ROLLBACK")
                    raise
            except sqlite3.Error as error:
                self._broken = True
                log.warning(
                    "%s: %s; the job continues, but its progress is no longer saved",
                    self.path,
                    error,
                )


def _stamp(output: Path) -> str:
    """Return the size and time of a file; empty if there is no file."""
    try:
        status = output.stat()
    except OSError:
        return ""
    return f"{status.st_size} {status.st_mtime_ns}"
