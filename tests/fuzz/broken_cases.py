"""A runner whose cases break the rules, to test that the program finds every kind of failure."""

import logging
import os
import signal
import tempfile
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import whisperbatch as wb
from tests.fuzz.cases import Case, Environment, Result
from tests.fuzz.verdicts import judge

PROGRAM_ERROR: Final = "the fuzz program has an error"
KEPT: Final[list[Any]] = []  # what a case leaks


class BadDestructor:
    """An object whose destructor fails; Python prints the error."""

    def __del__(self) -> None:
        raise ValueError("in a destructor")


def _crash() -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def _hang() -> None:
    time.sleep(1000)


def _leak_file() -> None:
    KEPT.append(os.open(os.devnull, os.O_RDONLY))


def _leak_thread() -> None:
    threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()


def _leave_file() -> None:
    (Path(tempfile.gettempdir()) / "left").touch()


def _print() -> None:
    print("progress")  # noqa: T201 - the fault


def _print_from_c() -> None:
    os.write(2, b"[mp3 @ 0x5] Header missing\n")


def _log_badly() -> None:
    logging.getLogger("whisperbatch").warning("%d seconds", "many")


def _destroy() -> None:
    BadDestructor()


def _warn() -> None:
    warnings.warn("unclosed file", ResourceWarning, stacklevel=1)


def _raise(error: BaseException) -> Callable[[], None]:
    def function() -> None:
        raise error

    return function


def _with_message(error: wb.WhisperBatchError, message: str) -> wb.WhisperBatchError:
    """Return an error whose message did not pass through its constructor."""
    error.args = (message,)
    return error


FAULTS: Final[dict[str, Callable[[], None]]] = {
    "SIGSEGV": _crash,
    "exit status 7": lambda: os._exit(7),
    "no result in": _hang,
    "open file left: ": _leak_file,
    "thread left: ": _leak_thread,
    "temporary file left: left": _leave_file,
    "printed on stdout: progress": _print,
    "printed on stderr: [mp3 @ 0x5] Header missing": _print_from_c,
    "printed on stderr: --- Logging error ---": _log_badly,
    "printed on stderr: Exception ignored": _destroy,
    "ResourceWarning is no documented error": _warn,
    "KeyError is no documented error": _raise(KeyError("track")),
    "SystemExit is no documented error": _raise(SystemExit(3)),
    "WhisperBatchError is no documented error": _raise(wb.WhisperBatchError("failed")),
    "control characters": _raise(_with_message(wb.AudioError("talk"), "\x1b[31m")),
    "a message of 500 characters": _raise(wb.ModelError("x" * 500)),
    "nothing follows the last colon": _raise(wb.WriteError("cannot be written: ")),
    PROGRAM_ERROR: lambda: None,
}
"""Each fault, by a part of the message that describes its failure."""


def run(case: Case, env: Environment) -> Result:
    """Execute the fault of this number; cases with higher numbers are good."""
    faults = tuple(FAULTS.values())
    env.note(f"fault {case.number}")
    if case.number >= len(faults):
        return Result("transcript")
    if case.number == list(FAULTS).index(PROGRAM_ERROR):
        raise RuntimeError("in the fuzz program")
    try:
        faults[case.number]()
    except BaseException as error:  # noqa: BLE001 - all errors are judged
        return judge(error, (), ())
    return Result("transcript")
