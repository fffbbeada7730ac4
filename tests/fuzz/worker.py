"""A process that executes cases.

    python -m tests.fuzz.worker SOCKET CORE FOLDER RUNNER PATIENCE ENGINE

The driver sends cases over the socket; the worker answers with notes, then with the record of the
case. If the process ends without a record, the case crashed it.
"""

import faulthandler
import importlib
import logging
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

from tests.fuzz.cases import Case, Environment, Failure, Record, Runner, check
from tests.fuzz.leaks import State, check_leaks, memory, peak, reset_peak

MAX_ADDRESSES: Final = 32 * 2**30  # bytes: a request for more memory fails in this process only
MAX_PEAK: Final = 1500.0  # MiB that one case may use
TRACEBACK: Final = 3000  # characters
STACKS: Final = "stacks"  # the file with the stack of each thread at a crash or a hang


class FormatOnly(logging.Handler):
    """Formats each log record, as a handler of the caller would, and prints nothing."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self.format(record)
        except Exception:  # noqa: BLE001 - reported on stderr, which fails the case
            self.handleError(record)


def main() -> None:
    """Execute the cases that the driver sends, until it closes the socket."""
    descriptor, core, folder, runner, patience, engine = sys.argv[1:]
    connection: Connection[Any, Any] = Connection(int(descriptor))
    _prepare(Path(folder), int(core))
    module, _, function = runner.partition(":")
    worker = Worker(
        getattr(importlib.import_module(module), function),
        connection,
        Path(folder),
        float(patience),
        engine or None,
    )
    while True:
        try:
            case: Case = connection.recv()
        except EOFError:
            return
        connection.send(worker.execute(case))


def _prepare(folder: Path, core: int) -> None:
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[core % len(cores)]})
    resource.setrlimit(resource.RLIMIT_AS, (MAX_ADDRESSES, MAX_ADDRESSES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    stacks = (folder / STACKS).open("w")
    faulthandler.enable(stacks)
    faulthandler.register(signal.SIGUSR1, stacks)
    logging.basicConfig(level=logging.DEBUG, handlers=[FormatOnly()])
    tempfile.tempdir = str(folder / "temporary")
    os.environ["TMPDIR"] = tempfile.tempdir


@dataclass(frozen=True)
class Worker:
    """Executes cases, and checks what each leaves behind."""

    runner: Runner
    connection: Any  # receives the notes
    folder: Path
    patience: float  # seconds that a case may take to end its threads
    engine: str | None

    def execute(self, case: Case) -> Record:
        """Execute a case."""
        notes: list[str] = []

        def note(text: str) -> None:
            notes.append(ascii(text)[1:-1])
            self.connection.send(notes[-1])

        folder = self.folder / "case"
        folder.mkdir()
        before = Before()
        record = Record(case.name, "")
        try:
            self._run(case, Environment(folder, note, before.take, self.engine), before, record)
        except Failure as failure:
            record.verdict, record.message, record.failed = "FAILURE", str(failure), True
            if failure.__cause__ is not None:
                record.message += f"\n{_text(failure.__cause__)}"
        except Exception as error:  # noqa: BLE001 - reported, and the next case runs
            record.verdict, record.failed = "FAILURE", True
            record.message = f"the fuzz program has an error\n{_text(error)}"
        record.seconds = record.seconds or time.perf_counter() - before.time
        shutil.rmtree(folder, ignore_errors=True)
        record.memory, record.loading, record.process = memory(), before.loading, os.getpid()
        record.notes, record.frees_model = tuple(notes), before.frees_model
        return record

    def _run(self, case: Case, environment: Environment, before: "Before", record: Record) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            result = self.runner(case, environment)
        record.verdict, record.message = result.verdict, result.message
        record.container, record.audio_seconds = result.container, result.audio_seconds
        record.seconds = time.perf_counter() - before.time
        check_leaks(before.state, self.patience)
        record.peak = peak() - before.memory
        check(record.peak <= MAX_PEAK, f"the case used {record.peak:.0f} MiB")


class Before:
    """The state before a case."""

    def __init__(self) -> None:
        self._first_memory = memory()
        self.loading = 0.0  # MiB
        self.frees_model = False
        self._take(State.now())

    def take(self, *, frees_model: bool = False) -> None:
        """Take the present state as the state before the case; what exists now is no leak.

        Args:
            frees_model: whether the case loads and frees a model. Each model with a key-value cache
                that OpenVINO 2026.4 loads leaves an idle native thread.
        """
        self.loading, self.frees_model = memory() - self._first_memory, frees_model
        state = State.now()
        self._take(replace(state, native_threads=sys.maxsize) if frees_model else state)

    def _take(self, state: State) -> None:
        reset_peak()
        self.state, self.memory, self.time = state, peak(), time.perf_counter()


def _text(error: BaseException) -> str:
    """Return the end of an error's traceback, without the frames of this program."""
    lines = traceback.format_exception(type(error), error, error.__traceback__)
    return "".join(lines)[-TRACEBACK:]


if __name__ == "__main__":
    main()
