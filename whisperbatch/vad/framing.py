"""Audio in blocks of one fixed size, so that no result depends on how it arrived."""

from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np

from whisperbatch.types import Samples

FRAME: Final = 512  # samples, 32 ms: the frame that Silero's network was trained on
BLOCK: Final = 64 * FRAME  # samples, 2 s: as fast as any larger block, and the first is soon there


def reblock(blocks: Iterable[Samples]) -> Iterator[Samples]:
    """The same audio in blocks of exactly `BLOCK` samples; the last may be shorter, never empty."""
    held: list[Samples] = []
    length = 0
    for block in blocks:
        held.append(block)
        length += len(block)
        if length >= BLOCK:
            audio = np.concatenate(held)
            whole = length - length % BLOCK
            for start in range(0, whole, BLOCK):
                yield audio[start : start + BLOCK]
            held, length = [audio[whole:]], length - whole
    if length:
        yield np.concatenate(held)
