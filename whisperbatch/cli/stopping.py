"""Ctrl-C: at once."""

import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Any, Final, NoReturn, Self

SIGNALS: Final = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)


class Stop:
    """While it is entered, Ctrl-C and requests to end end the process. A context manager.

    Threads that are decoding are not waited for: that may take seconds, and what they have done is
    in the ledger. Files appear whole or not at all, whenever it is.

    Args:
        say: called first, to give back the terminal and say how to go on.
    """

    def __init__(self, say: Callable[[], None]) -> None:
        self._say = say
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        for one in SIGNALS:
            before = signal.getsignal(one)
            if before != signal.SIG_IGN:  # whoever has us ignore it means it
                self._before[one] = before
                signal.signal(one, self._handle)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for one, before in self._before.items():
            signal.signal(one, before)

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        with suppress(Exception):  # the terminal may be gone
            self._say()
        leave(128 + number)


def leave(status: int) -> NoReturn:
    """End the process at once; no thread is waited for."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):  # it may be closed
            stream.flush()
    os._exit(status)
