"""The leases in a ledger: the store of `Leases` for processes of one machine.

Each call opens the file, which takes a fraction of a millisecond. Thus a signal handler can give up
leases while a thread uses the ledger, and leases do not depend on the state of the ledger.
"""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from whisperbatch.errors import WriteError

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
