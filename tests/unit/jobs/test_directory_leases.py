"""Leases of processes on recordings of a directory, and the ends of these processes."""

import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from whisperbatch.jobs.leases import has_ended, process_name
from whisperbatch.jobs.ledger import DirectoryLeases, Ledger


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger(tmp_path) as opened:
        yield opened


def test_a_process_that_has_ended_gets_no_share(ledger: Ledger) -> None:
    machine = process_name().rsplit("-", 3)[0]
    ledger.leases._table.write(f"processes/{machine}-999999999-1-ab", b"9e9")
    ledger.leases._table.write("processes/other-host", b"1.0")  # it has expired
    assert ledger.leases.processes() == 1
    assert ledger.leases._table.names("processes") == frozenset()


def test_a_lease_that_is_not_extended_is_taken_over(ledger: Ledger) -> None:
    slow = DirectoryLeases(ledger.path, duration=0.0)
    assert slow.acquire("key", None)
    other = DirectoryLeases(ledger.path)
    lease = other.newest()["key"]
    assert not other.is_held(lease)
    assert other.acquire("key", lease)
    slow.renew()  # it was asleep, and notices
    slow.finish("key")
    assert other.is_held(other.newest()["key"])
    other.finish("key")
    assert other.newest() == {}


def test_the_leases_of_a_process_that_has_ended_are_free(ledger: Ledger) -> None:
    program = (
        "import sys; from pathlib import Path\n"
        "from whisperbatch.jobs.ledger import DirectoryLeases\n"
        "DirectoryLeases(Path(sys.argv[1])).acquire('key', None)\n"
        "print(flush=True); sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(ledger.path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
    ) as child:
        assert child.stdout
        child.stdout.readline()
        leases = DirectoryLeases(ledger.path)
        lease = leases.newest()["key"]
        assert leases.is_held(lease)
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # a zombie has ended, too
        assert not leases.is_held(lease)
        child.wait()
        assert not leases.is_held(lease)


def test_only_the_end_of_a_process_is_seen() -> None:
    name = process_name()
    machine, pid, start, rest = name.rsplit("-", 3)
    host, boot, namespace = machine.split(",")

    def changed(*parts: str) -> bool:
        return has_ended("-".join(parts))

    assert not has_ended(name)
    assert changed(machine, pid, f"{start}1", rest)  # another process has the id now
    assert not changed(machine, pid, "", rest)  # its start time was not known
    assert changed(machine, "999999999", start, rest)
    # before a restart, or another machine with the same name
    assert not changed(f"{host},00,{namespace}", "999999999", start, rest)
    assert not changed(f"other,{boot},{namespace}", "999999999", start, rest)
    assert not changed(f"{host},{boot},1", "999999999", start, rest)  # in another container
    assert not any(has_ended(text) for text in ("", "host-1-abc", "a-b-c-d", "-----"))


@pytest.mark.parametrize(
    "data", [b"", b"null", b"{", b"\xff", None, 7, "text", 2.5, b'{"expires": "soon"}'], ids=repr
)
def test_damaged_rows_hold_nothing(ledger: Ledger, data: object) -> None:
    with closing(sqlite3.connect(ledger.path, isolation_level=None)) as database:
        database.execute("PRAGMA ignore_check_constraints=1")
        rows = ("leases/key.0.json", "leases/strange", "processes/other-host", "processes/")
        database.execute("ALTER TABLE leases RENAME TO old")
        database.execute("CREATE TABLE leases (name TEXT PRIMARY KEY, data, day INTEGER)")
        for row in rows:
            database.execute("INSERT INTO leases VALUES (?, ?, 3000000)", (row, data))
    assert ledger.leases.processes() == 1
    lease = ledger.leases.newest()["key"]
    assert not ledger.leases.is_held(lease)
    assert ledger.leases.acquire("key", lease)
    assert ledger.leases.newest("key")["key"].generation == 1
    ledger.leases.finish("key")
    assert ledger.leases.newest("key") == {}
