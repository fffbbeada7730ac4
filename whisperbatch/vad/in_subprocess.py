"""Voice activity detection in other processes, whose results are those of this process.

The samples go to the other process, and only the probabilities come back, with the samples without
steady sound where there is much of it.
"""

import time
from collections import deque
from collections.abc import Generator, Iterable, Iterator
from itertools import chain
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from whisperbatch.options import Options
from whisperbatch.protocols import Vad
from whisperbatch.subprocesses import Subprocesses
from whisperbatch.types import Samples, SpeechFrames
from whisperbatch.vad import open_vad
from whisperbatch.vad.levels import reblock, take

Found: TypeAlias = tuple[int, npt.NDArray[np.float32], Samples | None]
"""The number of samples of a block, its probabilities, and its samples without steady sound."""

BATCH: Final = 4  # blocks of 2 s, of the 8 that a section may read too much (`VAD_MARGIN`)
PATIENCE: Final = 0.05  # seconds; a file gives a block in less
TASK: Final = f"{__name__}:speech_detection"


class SubprocessVad:
    """A Vad that runs Silero's network, each time in another process.

    If all processes are in use, it runs in this process.

    Args:
        vad: Silero's network in this process.
        processes: shared with other users.
        most: number of processes that detect speech at a time.
    """

    def __init__(self, vad: Vad, processes: Subprocesses, most: int) -> None:
        self._vad, self._processes, self._most = vad, processes, most
        self.hop = vad.hop

    def __call__(self, blocks: Iterable[Samples]) -> Iterator[SpeechFrames]:
        """See `protocols.Vad`.

        Raises:
            EngineError: a process ended unexpectedly.
        """
        source = iter(blocks)
        first = next(source, None)
        if first is None:  # a section that does not exist needs no process
            return
        blocks = chain((first,), source)
        with self._processes.process(TASK, self._most) as process:
            if process is None:
                yield from self._vad(blocks)
                return
            held: deque[Samples] = deque()
            for length, probabilities, cleaned in process.items(
                TASK, inputs=batches(_held(reblock(blocks), held))
            ):
                yield SpeechFrames(take(held, length), probabilities, cleaned)


def _held(blocks: Iterable[Samples], held: deque[Samples]) -> Iterator[Samples]:
    for block in blocks:
        held.append(block)
        yield block


def batches(blocks: Iterable[Samples]) -> Iterator[list[Samples]]:
    """Yield blocks in lists of up to `BATCH`; a block that comes slowly ends its list."""
    batch: list[Samples] = []
    requested = time.monotonic()
    for block in blocks:
        batch.append(block)
        now = time.monotonic()
        if len(batch) == BATCH or now - requested > PATIENCE:
            yield batch
            batch, now = [], time.monotonic()
        requested = now
    if batch:
        yield batch


def speech_detection(batches: Iterator[list[Samples]]) -> Generator[Found, None, None]:
    """Yield what the Vad finds, in the other process."""
    for frames in open_vad(Options())(chain.from_iterable(batches)):
        yield len(frames.samples), frames.probabilities, frames.cleaned
