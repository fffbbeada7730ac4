"""Ctrl-C: at once, but never in the middle of a file."""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Final, NoReturn, Self

INTERRUPTED: Final = 130  # 128 and the number of the signal, as shells have it


class Stop:
    """While it is entered, Ctrl-C ends the process. A context manager.

    Threads that are decoding are not waited for: that may take seconds, and what they have done is
    in the ledger.

    Args:
        say: called first, to give back the terminal and say how to go on.
    """

    def __init__(self, say: Callable[[], None]) -> None:
        self._say = say
        self._held = self._asked = False
        self._before = signal.getsignal(signal.SIGINT)

    def __enter__(self) -> Self:
        signal.signal(signal.SIGINT, self._handle)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        signal.signal(signal.SIGINT, self._before)

    @contextmanager
    def held(self) -> Iterator[None]:
        """What is done here is done to its end."""
        self._held = True
        try:
            yield
        finally:
            self._held = False
        if self._asked:
            self._leave()

    def _handle(self, _signal: int, _frame: FrameType | None) -> None:
        self._asked = True
        if not self._held:
            self._leave()

    def _leave(self) -> None:
        self._say()
        leave()


def leave() -> NoReturn:
    """End the process as one that was interrupted; no thread is waited for."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(INTERRUPTED)
