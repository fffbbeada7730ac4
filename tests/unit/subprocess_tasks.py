"""Generator functions that tests run in other processes. Importing this file takes little time."""

import logging
import os
import signal
import sys
import time
from collections.abc import Generator, Iterator
from typing import Any

from whisperbatch.errors import AudioError


def doubled(inputs: Iterator[Any], note: str = "") -> Generator[Any, None, None]:
    """Yield each input twice, and the note at the end."""
    for each in inputs:
        yield each
        yield each
    yield note


def settings(_: Iterator[Any]) -> Generator[Any, None, None]:
    """Yield what the process inherits."""
    yield os.getpid(), os.getsid(0), list(sys.path), signal.getsignal(signal.SIGINT)


def noisy(_: Iterator[Any]) -> Generator[Any, None, None]:
    """Print, log, and fail in the log."""
    print("printed")  # noqa: T201 - as a library may do
    os.write(1, b"written")
    log = logging.getLogger("whisperbatch.tasks")
    log.debug("hidden")
    log.warning("%s frames", 3)
    try:
        {}["inner"]
    except KeyError:
        log.exception("failed")
    yield 1


def failing(inputs: Iterator[Any], kind: str) -> Generator[Any, None, None]:
    """Yield an input, and fail."""
    yield next(inputs)
    if kind == "audio":
        raise AudioError("is empty; give `track=1`", source="a.wav")
    if kind == "system":
        raise OSError(5, "broken disk")
    raise MemoryError


def closing(_: Iterator[Any], path: str) -> Generator[Any, None, None]:
    """Write a file when the generator is closed."""
    try:
        yield from _
    finally:
        with open(path, "w", encoding="utf-8") as file:  # noqa: PTH123 - imports less
            file.write("closed")


def endless(_: Iterator[Any]) -> Generator[Any, None, None]:
    """Work for ever after the first input."""
    yield next(_)
    next(_)
    while True:
        time.sleep(0.01)


def ended(_: Iterator[Any], how: str) -> Generator[Any, None, None]:
    """End the process."""
    yield next(_)
    next(_)
    if how == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    os._exit(7)


def unpicklable(_: Iterator[Any]) -> Generator[Any, None, None]:
    """Yield what cannot be sent."""
    yield lambda: None
