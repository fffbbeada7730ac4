"""End the process at once on Ctrl-C and other requests to terminate."""

import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Any, Final, NoReturn

from typing_extensions import Self

SIGNALS: Final = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)


class ExitOnSignal:
    """A context in which Ctrl-C and requests to terminate end the process at once.

    The process does not wait for threads that decode, because this may take seconds. Their
    finished results are in the ledger, and output files are written completely or not at all.

    Args:
        say_goodbye: called before the exit; restores the terminal, prints what waits and says how
            to resume. This may take long if no program reads the output: a second signal ends the
            process.
    """

    def __init__(self, say_goodbye: Callable[[], None]) -> None:
        self._say_goodbye = say_goodbye
        self._previous: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        for number in SIGNALS:
            handler = signal.getsignal(number)
            if handler != signal.SIG_IGN:  # the parent process (nohup) wants it to be ignored
                self._previous[number] = handler
                signal.signal(number, self._handle)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        for each in self._previous:
            signal.signal(each, _end)
        with suppress(Exception):  # the terminal may be closed
            self._say_goodbye()
        exit_now(128 + number)


def _end(number: int, _frame: FrameType | None) -> None:
    os._exit(128 + number)


def exit_now(status: int) -> NoReturn:
    """End the process without waiting for threads."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):  # the stream may be closed
            stream.flush()
    os._exit(status)
