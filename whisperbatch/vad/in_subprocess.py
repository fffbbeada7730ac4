"""Voice activity detection in other processes, whose results are those of this process.

The samples go to the other process, and only the probabilities come back, with the samples without
steady sound where there is much of it.
"""

from collections import deque
from collections.abc import Generator, Iterable, Iterator
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from whisperbatch.options import Options
from whisperbatch.protocols import Vad
from whisperbatch.subprocesses import Subprocesses
from whisperbatch.types import Samples, SpeechFrames
from whisperbatch.vad import open_vad
from whisperbatch.vad.levels import reblock

Found: TypeAlias = tuple[int, npt.NDArray[np.float32], Samples | None]
"""The number of samples of a block, its probabilities, and its samples without steady sound."""

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
        with self._processes.process(TASK, self._most) as process:
            if process is None:
                yield from self._vad(blocks)
                return
            held: deque[Samples] = deque()
            for length, probabilities, cleaned in process.items(
                TASK, inputs=_held(reblock(blocks), held)
            ):
                yield SpeechFrames(_take(held, length), probabilities, cleaned)


def _held(blocks: Iterable[Samples], held: deque[Samples]) -> Iterator[Samples]:
    for block in blocks:
        held.append(block)
        yield block


def _take(held: deque[Samples], length: int) -> Samples:
    """Return the first samples of blocks, and remove them."""
    parts: list[Samples] = []
    while length:
        block = held.popleft()
        if len(block) > length:
            held.appendleft(block[length:])
        parts.append(block[:length])
        length -= len(parts[-1])
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def speech_detection(blocks: Iterator[Samples]) -> Generator[Found, None, None]:
    """Yield what the Vad finds, in the other process."""
    for frames in open_vad(Options())(blocks):
        yield len(frames.samples), frames.probabilities, frames.cleaned
