"""Detect speech under a louder steady sound: the detector also hears the audio without this sound.

    audio       ....[= hum, with speech =]......
    first run   probabilities of the audio as it is
    second run  ..~~[====================]~.        without the hum; only where there is hum
    result      the higher of both

Where no steady sound is most of the audio, the probabilities are exactly those of the first run.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

import numpy as np

from whisperbatch.protocols import Vad
from whisperbatch.types import Samples, SpeechFrames
from whisperbatch.vad.framing import reblock
from whisperbatch.vad.steady_sound import CleanedBlock, remove_steady_sound

BLOCKS_BEFORE: Final = 2  # of the audio as it is, with which a second run begins: its state settles
BLOCKS_AFTER: Final = 2  # with which a second run ends, for its gain control


class CleanedVad:
    """A wrapper of a Vad that finds speech under steady sound.

    Args:
        vad: yields blocks of `framing.BLOCK` samples, and only the last may be shorter.
    """

    def __init__(self, vad: Vad) -> None:
        self._vad = vad
        self.hop = vad.hop

    def __call__(self, blocks: Iterable[Samples]) -> Iterator[SpeechFrames]:
        """See `protocols.Vad`. Holds a block more than the inner Vad."""
        source = _Source(remove_steady_sound(reblock(blocks)))
        second: Iterator[SpeechFrames] | None = None
        for number, frames in enumerate(self._vad(source.samples())):
            block = source.block(number)
            if block is None or block.cleaned is None:
                second = None
                yield frames
            else:
                if second is None:
                    first = max(number - BLOCKS_BEFORE, 0)
                    second = self._vad(source.cleaned(first))
                    for _ in range(first, number):
                        next(second)
                clear = next(second).probabilities
                probabilities = np.maximum(frames.probabilities, clear)
                yield replace(frames, probabilities=probabilities, cleaned=block.cleaned)
            source.discard(number - BLOCKS_BEFORE)


class _Source:
    """The latest blocks, which two runs of a Vad read at different positions."""

    def __init__(self, blocks: Iterator[CleanedBlock]) -> None:
        self._blocks = blocks
        self._stored: deque[CleanedBlock] = deque()
        self._first = 0  # number of the first stored block

    def block(self, number: int) -> CleanedBlock | None:
        """Return a block that was not discarded; None after the last."""
        while number >= self._first + len(self._stored):
            block = next(self._blocks, None)
            if block is None:
                return None
            self._stored.append(block)
        return self._stored[number - self._first]

    def discard(self, before: int) -> None:
        """Forget the blocks before a block."""
        while self._first < before and self._stored:
            self._stored.popleft()
            self._first += 1

    def samples(self) -> Iterator[Samples]:
        """Yield the samples of all blocks."""
        number = 0
        while block := self.block(number):
            yield block.samples
            number += 1

    def cleaned(self, number: int) -> Iterator[Samples]:
        """Yield the samples without steady sound, from a block on to the end of this sound."""
        last_cleaned: int | None = None
        while block := self.block(number):
            if block.cleaned is not None:
                last_cleaned = number
            elif last_cleaned is not None and number > last_cleaned + BLOCKS_AFTER:
                return
            yield block.samples if block.cleaned is None else block.cleaned
            number += 1
