"""Blocks of one fixed size, so that results do not depend on the sizes of the input blocks."""

from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np

from whisperbatch.types import Samples

FRAME: Final = 512  # samples, 32 ms: the VAD frame that Silero's network was trained on
BLOCK: Final = 64 * FRAME  # samples, 2 s: as fast as larger blocks, and the first is ready sooner


def reblock(blocks: Iterable[Samples]) -> Iterator[Samples]:
    """Yield the same audio in blocks of `BLOCK` samples; the last may be shorter, never empty."""
    held: list[Samples] = []
    length = 0
    for block in blocks:
        held.append(block)
        length += len(block)
        if length >= BLOCK:
            audio = np.concatenate(held)
            end = length - length % BLOCK  # of the last complete block
            for start in range(0, end, BLOCK):
                yield audio[start : start + BLOCK]
            held, length = [audio[end:]], length - end
    if length:
        yield np.concatenate(held)
