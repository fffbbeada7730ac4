"""What a job has done, on disk: finished recordings, and the journal of unfinished ones.

One SQLite file. A process that is killed leaves it as it was after the last chunk; when the machine
itself fails, the last chunks may be missing, never half there.
"""

import sqlite3
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from whisperbatch.errors import WriteError

NAME: Final = ".whisperbatch.db"
VERSION: Final = 1  # of the tables
PATIENCE: Final = 30.0  # seconds to wait for another process that writes
AT_ONCE: Final = 500  # keys asked for at a time: SQLite takes 999 in older versions

TABLES: Final = """
CREATE TABLE IF NOT EXISTS finished (
    recording TEXT PRIMARY KEY, -- its path, from the ledger's directory where it lies in it
    state     TEXT NOT NULL     -- of the file, the model and the options it was finished with
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS journal (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    key    BLOB NOT NULL UNIQUE,
    value  BLOB NOT NULL
);
"""


class Ledger:
    """The file of a job's directory. A context manager; thread-safe.

    It is the store of a `RememberingEngine`.

    Args:
        directory: it lies there as `NAME`.

    Raises:
        WriteError: it cannot be opened or made, or is something else than a ledger.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory.absolute()
        self.path = self._directory / NAME
        self._lock = threading.Lock()
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
            raise self._failure(error) from error

    def _open(self) -> None:
        self._base.execute("PRAGMA journal_mode=WAL")
        self._base.execute("PRAGMA synchronous=NORMAL")
        [(version,)] = self._base.execute("PRAGMA user_version")
        if version not in (0, VERSION):
            raise WriteError(
                f"{self.path}: was written by another version of whisperbatch; delete it to begin "
                "anew"
            )
        self._base.executescript(f"{TABLES} PRAGMA user_version={VERSION};")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def state(self, recording: Path) -> str | None:
        """What a recording was finished with; None where it was not."""
        rows = self._ask("SELECT state FROM finished WHERE recording = ?", self._name(recording))
        return str(rows[0][0]) if rows else None

    def finish(self, recording: Path, state: str) -> None:
        """A recording is finished."""
        self._ask("INSERT OR REPLACE INTO finished VALUES (?, ?)", self._name(recording), state)

    def find(self, keys: Sequence[bytes]) -> Mapping[bytes, bytes]:
        """See `engines.remembering.Store`."""
        found: dict[bytes, bytes] = {}
        for start in range(0, len(keys), AT_ONCE):
            some = keys[start : start + AT_ONCE]
            marks = ", ".join("?" * len(some))
            question = f"SELECT key, value FROM journal WHERE key IN ({marks})"  # noqa: S608 - "?"
            found |= dict(self._ask(question, *some))
        return found

    def keep(self, values: Mapping[bytes, bytes]) -> None:
        """See `engines.remembering.Store`."""
        with self._lock:
            try:
                self._base.execute("BEGIN IMMEDIATE")
                try:
                    self._base.executemany(
                        "INSERT OR IGNORE INTO journal (key, value) VALUES (?, ?)", values.items()
                    )
                except BaseException:
                    self._base.execute("ROLLBACK")
                    raise
                self._base.execute("COMMIT")
            except sqlite3.Error as error:
                raise self._failure(error) from error

    def mark(self) -> int:
        """The number that the journal's next entry will have."""
        [(last,)] = self._ask("SELECT coalesce(max(seq), 0) FROM sqlite_sequence")
        return int(last) + 1

    def forget(self, start: int = 0, end: int | None = None) -> None:
        """Delete the journal's entries from one mark up to another, or all that follow."""
        until = self.mark() if end is None else end
        self._ask("DELETE FROM journal WHERE number >= ? AND number < ?", start, until)

    def count(self) -> int:
        """How many entries the journal has."""
        [(entries,)] = self._ask("SELECT count(*) FROM journal")
        return int(entries)

    def close(self) -> None:
        """Close the file. Safe to call twice."""
        with self._lock:
            self._base.close()

    def _name(self, recording: Path) -> str:
        path = recording.absolute()
        inside = path.is_relative_to(self._directory)
        return (path.relative_to(self._directory) if inside else path).as_posix()

    def _ask(self, question: str, *values: object) -> list[Any]:
        with self._lock:
            try:
                return self._base.execute(question, values).fetchall()
            except sqlite3.Error as error:
                raise self._failure(error) from error

    def _failure(self, error: sqlite3.Error) -> WriteError:
        return WriteError(f"{self.path}: the ledger of the job cannot be used: {error}")
