"""The latest audio of the channels of a recording, for chunks in which several of them speak."""

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np
import numpy.typing as npt

from whisperbatch.types import Samples, to_samples

# The reader is at most this far ahead of a chunk: 90 s in which the ends of chunks are chosen,
# 60 s of the second opinion, 47 s for the point between two sections, and the blocks of the VAD.
KEPT: Final = to_samples(240.0)  # samples
# Of each block, the loudest channels are kept: more people rarely talk at a time, and 16 channels
# would take four times the memory (at most 31 MB).
MAX_KEPT: Final = 4
SCALE: Final = 16.0  # full scale of the stored values: the reader's samples are at most this loud


class ChannelTape:
    """Stores the latest audio of each channel while the recording is read.

    Positions are samples of the recording.
    """

    def __init__(self) -> None:
        self._stored: deque[tuple[int, npt.NDArray[np.int64], npt.NDArray[np.float16]]] = deque()
        self._channels = 0
        self.end = 0

    def through(self, blocks: Iterable[Samples]) -> Iterator[Samples]:
        """Yield the blocks, and store their channels.

        Args:
            blocks: consecutive, from the start of the recording; shape (n_samples, n_channels).
        """
        for block in blocks:
            self._channels = max(self._channels, block.shape[1])
            peaks = np.abs(block).max(axis=0)
            kept = np.sort(np.argsort(-peaks, kind="stable")[:MAX_KEPT])
            kept = kept[peaks[kept] > 0]
            stored = np.ascontiguousarray(block[:, kept]) / np.float32(SCALE)
            self._stored.append((len(block), kept, stored.astype(np.float16)))
            self.end += len(block)
            while self.end - self._start() - self._stored[0][0] >= KEPT:
                self._stored.popleft()
            yield block

    def audio(self, start: int, end: int) -> Samples | None:
        """Return the channels from sample `start` to before sample `end`.

        Returns:
            Shape (n_samples, n_channels): fewer samples at the end of the recording, and zeros in
            the channels that were not stored. None if the audio is no longer stored.
        """
        position = self._start()
        if start < position:
            return None
        result = np.zeros((max(min(end, self.end) - start, 0), self._channels), np.float32)
        for length, channels, stored in self._stored:
            first, last = max(start, position), min(end, position + length)
            if first < last:
                part = stored[first - position : last - position].astype(np.float32)
                result[first - start : last - start, channels] = part * np.float32(SCALE)
            position += length
        return result

    def _start(self) -> int:
        return self.end - sum(length for length, _, _ in self._stored)
