"""Generator functions that tests run in other processes. Importing this file takes little time."""

import logging
import os
import signal
import sys
import time
from collections.abc import Generator, Iterable, Iterator
from contextlib import suppress
from itertools import chain
from typing import Any

import numpy as np

from whisperbatch.errors import AudioError
from whisperbatch.types import Samples, SpeechFrames
from whisperbatch.vad.in_subprocess import Found
from whisperbatch.vad.levels import reblock


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
        os.environ["NO_SUCH_VARIABLE"]
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


class OddVad:
    """A Vad that holds blocks, yields other sizes, and cleans some blocks."""

    hop = 512

    def __call__(self, blocks: Iterable[Samples]) -> Iterator[SpeechFrames]:
        """See `protocols.Vad`."""
        for number, block in enumerate(reblock(blocks)):
            parts = (block[:1024], block[1024:]) if number % 3 == 1 else (block,)
            for samples in parts:
                if len(samples):
                    yield self._frames(samples, number)

    def _frames(self, samples: Samples, number: int) -> SpeechFrames:
        levels = np.add.reduceat(np.abs(samples), range(0, len(samples), self.hop))
        return SpeechFrames(samples, levels, samples * np.float32(0.5) if number % 2 else None)


def odd_detection(batches: Iterator[list[Samples]]) -> Generator[Found, None, None]:
    """Yield what `OddVad` finds."""
    for frames in OddVad()(chain.from_iterable(batches)):
        yield len(frames.samples), frames.probabilities, frames.cleaned


def loud_detection(batches: Iterator[list[Samples]]) -> Generator[Found, None, None]:
    """Yield what `LoudVad` finds."""
    from tests.unit.fakes import LoudVad  # noqa: PLC0415 - takes time

    for frames in LoudVad({0.01: 0.9})(chain.from_iterable(batches)):
        yield len(frames.samples), frames.probabilities, frames.cleaned


def dies_once(inputs: Iterator[Any], *arguments: Any) -> Generator[Any, None, None]:
    """Die in the first process that comes here, after some work; decode or detect in the others."""
    from whisperbatch.audio.in_subprocess import decoding  # noqa: PLC0415 - takes time

    task: Any = decoding if arguments else loud_detection
    for number, item in enumerate(task(inputs, *arguments)):
        if number == 2:
            with suppress(FileExistsError):
                os.close(os.open(os.environ["DIES"], os.O_CREAT | os.O_EXCL))
                os.kill(os.getpid(), signal.SIGKILL)
        yield item
