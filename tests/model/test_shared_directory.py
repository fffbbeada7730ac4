"""Two commands that transcribe one folder into one directory, with real weights and speech."""

import re
import signal
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from benchmarks import recordings
from tests.model.command_line import command, run
from whisperbatch.jobs import LEDGER_NAME
from whisperbatch.jobs.ledger import LeaseTable

COUNT = 12
ARGUMENTS = ("transcribe", "talks", "-o", "out", "-f", "txt,srt", "--model", "tiny.en")
OPTIONS = ("--beam-size", "1", "--batch-size", "1")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Recordings, of which some are longer than others, and a broken one."""
    folder = tmp_path_factory.mktemp("directory")
    (folder / "talks").mkdir()
    for number in range(COUNT):
        recording = recordings.prompts("en", duration=40 if number % 5 == 2 else 8, seed=number)
        recordings.write(recording, folder / f"talks/{number:02}.wav")
    return folder


@pytest.fixture(scope="module")
def expected(folder: Path) -> dict[str, str]:
    """The outputs of one process; no other file is left."""
    run(*ARGUMENTS, *OPTIONS, cwd=folder)
    return taken_outputs(folder)


@pytest.fixture
def processes() -> Iterator[list[subprocess.Popen[str]]]:
    """Started by the test, and killed after it."""
    started: list[subprocess.Popen[str]] = []
    yield started
    for process in started:
        process.kill()
        process.wait()


def taken_outputs(folder: Path) -> dict[str, str]:
    """Return the outputs, and delete them with the ledger."""
    found = {path.name: path for path in (folder / "out").iterdir()}
    ledger = [name for name in found if name.startswith(LEDGER_NAME)]
    texts = {name: path.read_text() for name, path in found.items() if name not in ledger}
    for path in found.values():
        path.unlink()
    return texts


def start(folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command(*ARGUMENTS, *OPTIONS), cwd=folder, stderr=subprocess.PIPE, text=True
    )


def wait_for_lease(folder: Path, pid: int) -> None:
    """Wait until a process works on a recording."""
    table = LeaseTable(folder / "out" / LEDGER_NAME)
    for _ in range(4000):
        with suppress(Exception):
            names = [f"leases/{name}" for name in table.names("leases")]
            if any(f"-{pid}-" in str(table.read(name)) for name in names):
                return
        time.sleep(0.01)
    pytest.fail("no recording was taken")


def counts(text: str) -> dict[str, int]:
    """Return the numbers of the last line of a process."""
    last = text.splitlines()[-1]
    pattern = r"(\d+) (transcribed|by other processes|failed|already done)"
    return {kind: int(count) for count, kind in re.findall(pattern, last)}


@pytest.mark.slow
def test_two_processes_share_a_directory(
    folder: Path, expected: dict[str, str], processes: list[subprocess.Popen[str]]
) -> None:
    broken = folder / "talks/00.mp3"
    broken.write_bytes(b"no media")
    try:
        processes += [start(folder) for _ in range(2)]
        ends = [counts(process.communicate(timeout=300)[1]) for process in processes]
    finally:
        broken.unlink()
    assert [process.returncode for process in processes] == [1, 1]
    assert all(end.get("failed") == 1 for end in ends)
    assert sum(end["transcribed"] for end in ends) == COUNT
    for end in ends:
        others = end.get("by other processes", 0) + end.get("already done", 0)
        assert end["transcribed"] + others == COUNT
    found = taken_outputs(folder)
    # with a second recording of this name, the first has its suffix in its outputs
    assert {name.replace("00.wav.", "00."): text for name, text in found.items()} == expected


@pytest.mark.slow
@pytest.mark.parametrize("kill", [signal.SIGKILL, signal.SIGINT])
def test_one_of_two_processes_ends_and_starts_again(
    folder: Path,
    expected: dict[str, str],
    processes: list[subprocess.Popen[str]],
    kill: signal.Signals,
) -> None:
    """The leases last ten minutes; no process waits for their end."""
    processes += [start(folder) for _ in range(2)]
    victim, other = processes
    wait_for_lease(folder, victim.pid)
    victim.send_signal(kill)
    _, stopped = victim.communicate()
    assert victim.returncode == (-kill if kill == signal.SIGKILL else 128 + kill)
    assert kill == signal.SIGKILL or "run the same command again to resume" in stopped
    again = start(folder)
    processes.append(again)
    ends = [counts(process.communicate(timeout=300)[1]) for process in (other, again)]
    assert (other.returncode, again.returncode) == (0, 0)
    for end in ends:
        assert sum(end.values()) == COUNT
    assert sum(end["transcribed"] for end in ends) <= COUNT
    with closing(sqlite3.connect(folder / "out" / LEDGER_NAME)) as database:
        assert list(database.execute("SELECT name FROM leases")) == []
    assert taken_outputs(folder) == expected
