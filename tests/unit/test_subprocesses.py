"""Generators in other processes: items, errors and logs arrive; no process outlives its use."""

import gc
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from whisperbatch import subprocesses
from whisperbatch.errors import (
    AudioError,
    ClosedError,
    EngineError,
    InternalError,
    OptionError,
    WhisperBatchError,
)
from whisperbatch.runtimes.interpreter import how_ended
from whisperbatch.subprocesses import Subprocess, Subprocesses, check_interpreter

TASKS = "tests.unit.subprocess_tasks"
POSIX = pytest.mark.skipif(os.name != "posix", reason="signals and forks of POSIX")


@pytest.fixture(scope="module")
def shared() -> Iterator[Subprocess]:
    """A process that every test leaves in a usable state."""
    process = Subprocess()
    yield process
    assert process.is_usable
    assert list(process.items(f"{TASKS}:doubled", ("end",), [1])) == [1, 1, "end"]
    process.end()


@pytest.fixture
def process() -> Iterator[Subprocess]:
    process = Subprocess()
    yield process
    process.end()


def until(condition: Callable[[], bool]) -> bool:
    """Wait up to 10 s for a condition."""
    deadline = time.monotonic() + 10
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)
    return condition()


def is_alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def test_items_come_in_order_and_the_inputs_only_when_needed(shared: Subprocess) -> None:
    taken = 0

    def inputs() -> Iterator[int]:
        nonlocal taken
        for each in range(3):
            taken += 1
            yield each

    items = shared.items(f"{TASKS}:doubled", ("end",), inputs())
    found = [(item, taken) for item in items]
    assert found == [(0, 1), (0, 1), (1, 2), (1, 2), (2, 3), (2, 3), ("end", 3)]


@pytest.mark.parametrize("ahead", [1, 3, 50])
def test_inputs_ahead_give_the_same_items(shared: Subprocess, ahead: int) -> None:
    for length in (0, 1, 2, 7):
        items = shared.items(f"{TASKS}:doubled", ("end",), range(length), ahead=ahead)
        assert list(items) == [n for n in range(length) for _ in range(2)] + ["end"]


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int16])
@pytest.mark.parametrize("shape", [(0,), (1,), (3, 2), (70_001,), (300_000, 2)])
def test_arrays_arrive_unchanged(shared: Subprocess, shape: tuple[int, ...], kind: Any) -> None:
    array = np.random.default_rng(0).normal(size=shape).astype(kind)
    sent = (b"odd", array, array[::2], {"a": array[:1]})
    for found in list(shared.items(f"{TASKS}:doubled", inputs=[sent]))[:2]:
        assert found[0] == b"odd"
        for got, given in zip(found[1:3], sent[1:3], strict=True):
            assert got.dtype == given.dtype
            assert got.shape == given.shape
            assert got.tobytes() == given.tobytes()
            assert got.flags.aligned
            assert got.flags.writeable


def test_a_generator_that_is_closed_early_is_closed_there(
    shared: Subprocess, tmp_path: Path
) -> None:
    for ahead in (0, 5):
        path = tmp_path / f"{ahead}"
        items = shared.items(f"{TASKS}:closing", (str(path),), count(), ahead=ahead)
        assert next(items) == 0
        items.close()
        assert path.read_text(encoding="utf-8") == "closed"
        assert shared.is_usable


def test_an_error_of_the_inputs_is_raised_as_it_is(shared: Subprocess) -> None:
    def inputs() -> Iterator[int]:
        yield 1
        raise OSError("unplugged")

    items = shared.items(f"{TASKS}:doubled", ("end",), inputs())
    assert [next(items), next(items)] == [1, 1]
    with pytest.raises(OSError, match="unplugged"):
        next(items)


@pytest.mark.parametrize(
    ("kind", "error", "text"),
    [
        ("audio", AudioError, "a.wav: is empty; give track=1"),
        ("system", InternalError, "broken disk"),
        ("memory", EngineError, "not enough memory"),
    ],
)
def test_errors_arrive_after_the_items_before_them(
    shared: Subprocess, kind: str, error: type[WhisperBatchError], text: str
) -> None:
    items = shared.items(f"{TASKS}:failing", (kind,), [5])
    assert next(items) == 5
    with pytest.raises(error, match=text) as caught:
        next(items)
    if kind == "audio":
        assert caught.value.source == "a.wav"
        assert caught.value.options == ("track",)


@pytest.mark.parametrize("function", ["no_such", "unpicklable"])
def test_faults_of_our_own_are_errors(process: Subprocess, function: str) -> None:
    with pytest.raises((InternalError, EngineError)):
        list(process.items(f"{TASKS}:{function}"))


def test_logs_come_here_and_prints_do_not_disturb(
    shared: Subprocess, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, logger="whisperbatch"):
        assert list(shared.items(f"{TASKS}:noisy")) == [1]
    assert [record.getMessage() for record in caplog.records] == ["3 frames", "failed"]
    assert "KeyError: 'NO_SUCH_VARIABLE'" in (caplog.records[1].exc_text or "")


@POSIX
def test_the_process_has_our_path_and_no_ctrl_c(shared: Subprocess) -> None:
    [(pid, session, path, handler)] = shared.items(f"{TASKS}:settings")
    assert pid == shared.pid == session
    assert path == sys.path
    assert handler == signal.SIG_IGN
    os.kill(pid, signal.SIGINT)
    assert list(shared.items(f"{TASKS}:doubled", ("end",))) == ["end"]


@POSIX
@pytest.mark.parametrize(
    ("how", "text"), [("killed", "was ended by SIGKILL"), ("left", "ended with status 7")]
)
def test_the_end_of_the_process_is_one_clear_error(
    process: Subprocess, how: str, text: str
) -> None:
    items = process.items(f"{TASKS}:ended", (how,), count())
    assert next(items) == 0
    with pytest.raises(EngineError, match=rf"a process that reads recordings \(ended\) {text}"):
        next(items)
    assert not process.is_usable


def test_an_end_from_another_thread_ends_the_wait(process: Subprocess) -> None:
    items = process.items(f"{TASKS}:endless", inputs=count())
    next(items)
    timer = threading.Timer(0.2, process.end)
    timer.start()
    with pytest.raises(ClosedError, match="was stopped"):
        next(items)
    timer.join()
    assert not is_alive(process.pid)


def test_an_interpreter_that_does_not_start_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    with pytest.raises(EngineError, match="cannot be started"):
        Subprocess()


@pytest.mark.parametrize("frozen", [False, True])
def test_programs_without_an_interpreter_are_refused(
    monkeypatch: pytest.MonkeyPatch, frozen: bool
) -> None:
    check_interpreter("reader_processes")
    if frozen:
        monkeypatch.setattr(sys, "frozen", True, raising=False)
    else:
        monkeypatch.setattr(sys, "executable", "")
    with pytest.raises(OptionError, match="reader_processes=True starts Python"):
        check_interpreter("reader_processes")


def test_how_a_process_ended() -> None:
    assert how_ended(3) == "ended with status 3"
    assert how_ended(-9) == "was ended by SIGKILL"
    assert how_ended(-200) == "was ended by signal 200"


# The processes of a program


def doubles(processes: Subprocesses, most: int = 1) -> int | None:
    """Run a generator, and return the number of its process."""
    with processes.process("doubling", most) as process:
        if process is None:
            return None
        assert list(process.items(f"{TASKS}:doubled", ("end",))) == ["end"]
        return process.pid


def test_a_process_is_kept_and_ended_at_the_close() -> None:
    processes = Subprocesses()
    pid = doubles(processes)
    assert pid is not None
    assert doubles(processes) == pid
    processes.close()
    processes.close()
    assert not is_alive(pid)
    with pytest.raises(ClosedError):
        doubles(processes)


def test_as_many_processes_as_allowed() -> None:
    processes = Subprocesses()
    with processes.process("doubling", 1) as first:
        assert first is not None
        assert doubles(processes, 1) is None
        assert doubles(processes, 2) not in (None, first.pid)
        with processes.process("decoding", 1) as other:
            assert other is not None
        processes.close()
        assert is_alive(first.pid)
    assert not is_alive(first.pid)


def test_a_process_that_died_is_not_used_again() -> None:
    processes = Subprocesses()
    pid = doubles(processes)
    with processes.process("doubling", 1) as process:
        assert process is not None
        process.end()
    assert doubles(processes) not in (None, pid)
    processes.close()


def test_forgotten_processes_end() -> None:
    processes = Subprocesses()
    pid = doubles(processes)
    assert pid is not None
    del processes
    gc.collect()
    assert until(lambda: not is_alive(pid))


def test_the_end_of_the_program_ends_all() -> None:
    processes = Subprocesses()
    with processes.process("doubling", 1) as process:
        assert process is not None
        items = process.items(f"{TASKS}:endless", inputs=count())
        next(items)
        processes.stop_at_exit()
        assert not is_alive(process.pid)
        with pytest.raises(ClosedError):
            next(items)


PROGRAM = f"""
import os, signal, sys, time
from itertools import count
from whisperbatch.subprocesses import Subprocess, Subprocesses
processes = Subprocesses()
context = processes.process("a", 1)
process = context.__enter__()
items = process.items("{TASKS}:" + sys.argv[1], inputs=count())
next(items)
if sys.argv[1] == 'endless':
    process._pipes.send('an input', 1)  # it works until its end
print(process.pid, flush=True)
"""


@POSIX
@pytest.mark.parametrize("function", ["doubled", "endless"])
@pytest.mark.parametrize(
    "end",
    [
        "os.kill(os.getpid(), signal.SIGKILL)",
        "sys.exit()",
        "raise KeyboardInterrupt",
        # a child of a fork goes on: it must not hold the pipe
        "os.fork() and os._exit(0)\nprint('child', flush=True)\ntime.sleep(20)",
    ],
)
def test_no_process_outlives_its_program(function: str, end: str) -> None:
    command = [sys.executable, "-c", f"{PROGRAM}\n{end}", function]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=env, text=True
    ) as program:
        assert program.stdout is not None
        pid = int(program.stdout.readline())
        if "fork" not in end:
            program.wait(30)
        assert until(lambda: not is_alive(pid))
        if "fork" in end:
            assert program.stdout.readline() == "child\n"
            program.stdout.close()


@POSIX
def test_the_child_of_a_fork_refuses_and_the_parent_goes_on(process: Subprocess) -> None:
    items = process.items(f"{TASKS}:doubled", ("end",), [1, 2])
    assert next(items) == 1
    child = os.fork()
    if not child:
        try:
            list(items)
        except EngineError as error:
            os._exit(0 if "before a fork" in str(error) else 2)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert list(items) == [1, 2, 2, "end"]


@POSIX
def test_a_child_of_a_fork_starts_its_own_processes() -> None:
    processes = Subprocesses()
    pid = doubles(processes)
    child = os.fork()
    if not child:
        own = doubles(processes)
        processes.close()
        os._exit(0 if own not in (None, pid) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert doubles(processes) == pid
    processes.close()


def test_only_one_file_starts_processes_that_go_on() -> None:
    package = Path(subprocesses.__file__).parent
    found = [p.name for p in package.rglob("*.py") if "Popen(" in p.read_text(encoding="utf-8")]
    assert found == ["subprocesses.py"]
