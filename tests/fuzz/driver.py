"""Executes cases in worker processes; a crash or a hang ends only its worker."""

import os
import queue
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

from tests.fuzz.cases import Case, Record
from tests.fuzz.leaks import slowness
from tests.fuzz.worker import STACKS

RUNNER: Final = "tests.fuzz.run:run"
LIMIT: Final = 60.0  # seconds of a case on a quiet machine; the longest takes about a tenth
DUMP_TIME: Final = 2.0  # seconds for the traceback of a process that hangs
ROOT: Final = Path(__file__).parents[2]
SHOWN: Final = 4000  # bytes of the stacks that are shown
MALLOC: Final = {"MALLOC_ARENA_MAX": "1", "MALLOC_MMAP_THRESHOLD_": str(512 << 10)}
"""With these settings, glibc's heap hardly fragments, so that memory grows by leaks only."""


@dataclass(frozen=True)
class Settings:
    """How cases are executed."""

    runner: str = RUNNER  # module:function
    limit: float = LIMIT
    workers: int = 2
    engine: str = ""


class Worker:
    """A worker process, which is started again after a crash or a hang."""

    def __init__(self, settings: Settings, folder: Path, core: int) -> None:
        self._settings, self._folder, self._core = settings, folder, core
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection[Any, Any] | None = None

    def run(self, case: Case) -> Record:
        """Execute a case."""
        if self._connection is None:
            self._start()
        assert self._connection is not None
        notes: list[str] = []
        start = time.monotonic()
        try:
            self._connection.send(case)
            while self._connection.poll(self._remaining(start)):
                item = self._connection.recv()
                if isinstance(item, Record):
                    return item
                notes.append(item)
            verdict, message = "hang", self._end_hanging()
        except (EOFError, OSError):
            verdict, message = "crash", self._end_crashed()
        seconds = time.monotonic() - start
        return Record(case.name, verdict, message, failed=True, notes=tuple(notes), seconds=seconds)

    def close(self) -> None:
        """End the process."""
        if self._connection is not None:
            self._connection.close()
        if self._process is not None:
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._process = self._connection = None

    def _start(self) -> None:
        ours, theirs = socket.socketpair()
        attempt = tempfile.mkdtemp(dir=self._folder)
        self._home = Path(attempt)
        (self._home / "temporary").mkdir()
        settings = self._settings
        arguments = [theirs.fileno(), self._core, attempt, settings.runner]
        arguments += [settings.limit / 12, settings.engine]
        environment = {
            **os.environ,
            **MALLOC,
            "HF_HUB_OFFLINE": "1",
            "OMP_NUM_THREADS": "1",
            "PYTHONHASHSEED": "0",
            "PYTHONPATH": str(ROOT),
            "PYTHONUNBUFFERED": "1",
        }
        with (self._home / "out").open("w+b") as out, (self._home / "err").open("w+b") as err:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.fuzz.worker", *map(str, arguments)],
                cwd=ROOT,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                pass_fds=[theirs.fileno()],
            )
        theirs.close()
        self._connection = Connection(ours.detach())

    def _remaining(self, start: float) -> float:
        """Return the seconds until a case hangs; a busy machine needs more time."""
        return max(self._settings.limit * slowness() - (time.monotonic() - start), 0.0)

    def _end_hanging(self) -> str:
        assert self._process is not None
        self._process.send_signal(signal.SIGUSR1)  # writes the traceback of each thread
        time.sleep(DUMP_TIME)
        self._process.kill()
        self._process.wait()
        return f"no result in {self._settings.limit:.0f} s\n{self._left()}"

    def _end_crashed(self) -> str:
        assert self._process is not None
        status = self._process.wait()
        name = signal.Signals(-status).name if status < 0 else f"exit status {status}"
        return f"{name}\n{self._left()}"

    def _left(self) -> str:
        """Forget the process, and return the end of its text on stderr, and the stacks."""
        assert self._connection is not None
        self._connection.close()
        self._process = self._connection = None
        return _end(self._home / "err", SHOWN // 4) + _end(self._home / STACKS, SHOWN)


def _end(path: Path, length: int) -> str:
    """Return the end of a file, which may be long: a hanging case may print all the time."""
    if not path.exists():
        return ""
    with path.open("rb") as file:
        file.seek(max(path.stat().st_size - length, 0))
        return file.read().decode("utf-8", "replace")


def run(
    cases: Sequence[Case], settings: Settings, show: Callable[[Record], None] = lambda _: None
) -> list[Record]:
    """Execute cases, and return their records in the order of the cases."""
    waiting: queue.SimpleQueue[Case] = queue.SimpleQueue()
    for case in cases:
        waiting.put(case)
    records: dict[str, Record] = {}

    def work(core: int) -> None:
        with tempfile.TemporaryDirectory(prefix="whisperbatch-fuzz-") as folder:
            worker = Worker(settings, Path(folder), core)
            try:
                for case in _drain(waiting):
                    record = worker.run(case)
                    records[case.name] = record
                    show(record)
            finally:
                worker.close()

    threads = [threading.Thread(target=work, args=(core,)) for core in range(settings.workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [records[case.name] for case in cases]


def _drain(waiting: "queue.SimpleQueue[Case]") -> Iterator[Case]:
    while True:
        try:
            yield waiting.get_nowait()
        except queue.Empty:
            return
