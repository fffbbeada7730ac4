"""What a job has done, on disk: the files it has finished, and the journal of what it has begun.

One SQLite file. A process that is killed leaves it as it was after the last chunk; when the machine
itself fails, the last chunks may be missing, never half there. Several processes may share one.
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
from typing import Any, Final, Self

from whisperbatch.errors import WriteError

NAME: Final = ".whisperbatch.db"
VERSION: Final = 1  # of the tables
PATIENCE: Final = 30.0  # seconds to wait for another process that writes
AT_ONCE: Final = 500  # keys asked for at a time: SQLite takes 999 in older versions
KEPT_DAYS: Final = 30  # that what nobody asks for stays in the journal

TABLES: Final = """
CREATE TABLE IF NOT EXISTS finished (
    output BLOB PRIMARY KEY, -- its path, from the ledger's directory where it lies in it
    made   TEXT NOT NULL,    -- of what: the recording, the model and the options
    stamp  TEXT NOT NULL     -- the file's size and time, as it was written
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS journal (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    key    BLOB NOT NULL UNIQUE,
    value  BLOB NOT NULL,
    run    INTEGER NOT NULL, -- that wrote it, or was the last to ask for it
    day    INTEGER NOT NULL  -- when
);
"""
TODAY: Final = "CAST(julianday('now') AS INTEGER)"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Entry:
    """A file that was finished.

    Attributes:
        made: of what.
        untouched: whether the file is as it was written.
    """

    made: str
    untouched: bool


class Ledger:
    """The file of a job's directory. A context manager; thread-safe.

    It is the store of a `RememberingEngine`. Where it cannot be written any more there is one
    warning, and the job goes on without.

    Args:
        directory: it lies there as `NAME`.

    Raises:
        WriteError: it cannot be opened or made, or is something else than a ledger.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory.absolute()
        self.path = self._directory / NAME
        self._lock = threading.Lock()
        self._run = secrets.randbits(62)
        self._broken = False
        try:
            self._base = sqlite3.connect(
                self.path, timeout=PATIENCE, check_same_thread=False, isolation_level=None
            )
            try:
                self._open()
            except BaseException:
                self._base.close()
                raise
        except sqlite3.Error as error:
            raise WriteError(
                f"{self.path}: the ledger of the job cannot be used: {error}"
            ) from error

    def _open(self) -> None:
        self._base.execute(f"PRAGMA busy_timeout={round(PATIENCE * 1000)}")
        self._base.execute("PRAGMA journal_mode=WAL")
        self._base.execute("PRAGMA synchronous=NORMAL")
        [(version,)] = self._base.execute("PRAGMA user_version")
        if version not in (0, VERSION):
            raise WriteError(
                f"{self.path}: was written by another version of whisperbatch; delete it to begin "
                "anew"
            )
        self._base.executescript(f"{TABLES} PRAGMA user_version={VERSION};")
        self._base.execute(f"DELETE FROM journal WHERE day < {TODAY} - {KEPT_DAYS}")  # noqa: S608 - constants

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
        """What is known of a file; None where it was never finished."""
        rows = self._ask("SELECT made, stamp FROM finished WHERE output = ?", self._name(output))
        return Entry(rows[0][0], rows[0][1] == _stamp(output)) if rows else None

    def begin(self, output: Path) -> None:
        """A file is about to be written: what was known of it is no longer so."""
        self._tell("DELETE FROM finished WHERE output = ?", self._name(output))

    def finish(self, output: Path, made: str) -> None:
        """A file is written."""
        values = (self._name(output), made, _stamp(output))
        self._tell("INSERT OR REPLACE INTO finished VALUES (?, ?, ?)", *values)

    def find(self, keys: Sequence[bytes]) -> Mapping[bytes, bytes]:
        """See `engines.remembering.Store`."""
        found: dict[bytes, bytes] = {}
        for start in range(0, len(keys), AT_ONCE):
            some = keys[start : start + AT_ONCE]
            wanted = f"key IN ({', '.join('?' * len(some))})"
            found |= dict(self._ask(f"SELECT key, value FROM journal WHERE {wanted}", *some))  # noqa: S608 - question marks
            if found:  # most of a first run finds nothing
                self._tell(
                    f"UPDATE journal SET run = ?, day = {TODAY} WHERE run != ? AND {wanted}",  # noqa: S608 - likewise
                    *(self._run, self._run, *some),
                )
        return found

    def keep(self, values: Mapping[bytes, bytes]) -> None:
        """See `engines.remembering.Store`."""
        rows = [(key, value, self._run) for key, value in values.items()]
        self._tell(
            f"INSERT OR IGNORE INTO journal (key, value, run, day) VALUES (?, ?, ?, {TODAY})",  # noqa: S608 - a constant
            many=rows,
        )

    def mark(self) -> int:
        """The number that the journal's next entry will have."""
        [(last,)] = self._ask("SELECT coalesce(max(seq), 0) FROM sqlite_sequence")
        return int(last) + 1

    def forget(self, start: int = 0, end: int | None = None) -> None:
        """Delete this run's entries in the journal, from one mark up to another or to the last."""
        until = self.mark() if end is None else end
        self._tell(
            "DELETE FROM journal WHERE run = ? AND number >= ? AND number < ?",
            *(self._run, start, until),
        )

    def count(self) -> int:
        """How many entries the journal has."""
        [(entries,)] = self._ask("SELECT count(*) FROM journal")
        return int(entries)

    def close(self) -> None:
        """Close the file. Safe to call twice."""
        with self._lock:
            self._base.close()

    def _name(self, output: Path) -> bytes:
        path = output.absolute()
        inside = path.is_relative_to(self._directory)
        return os.fsencode((path.relative_to(self._directory) if inside else path).as_posix())

    def _ask(self, question: str, *values: object) -> list[Any]:
        with self._lock:
            try:
                return self._base.execute(question, values).fetchall()
            except sqlite3.Error as error:
                raise WriteError(f"{self.path}: the ledger cannot be read: {error}") from error

    def _tell(
        self, statement: str, *values: object, many: Sequence[tuple[object, ...]] = ()
    ) -> None:
        """All that a statement changes, or nothing."""
        with self._lock:
            if self._broken:
                return
            try:
                self._base.execute("BEGIN IMMEDIATE")
                try:
                    self._base.executemany(statement, many or [values])
                    self._base.execute("COMMIT")
                except BaseException:
                    self._base.execute("ROLLBACK")
                    raise
            except sqlite3.Error as error:
                self._broken = True
                log.warning(
                    "%s: %s; from here on nothing is kept for going on later", self.path, error
                )


def _stamp(output: Path) -> str:
    try:
        found = output.stat()
    except OSError:
        return ""
    return f"{found.st_size} {found.st_mtime_ns}"
