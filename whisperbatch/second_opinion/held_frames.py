"""The latest blocks of VAD frames: they wait while a stretch is checked, and can be changed."""

from collections import deque
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from whisperbatch.types import Samples, SpeechFrames


class HeldFrames:
    """Blocks that have not been released. Positions are VAD frames of the clip.

    Attributes:
        end: the frame after the last.
    """

    def __init__(self, hop: int) -> None:
        self._hop = hop
        self._blocks: deque[SpeechFrames] = deque()
        self._start = 0
        self.end = 0

    def append(self, block: SpeechFrames) -> None:
        """Add the next block."""
        self._blocks.append(block)
        self.end += len(block.probabilities)

    def release(self, before: int) -> Iterator[SpeechFrames]:
        """Yield and forget the blocks that end at or before frame `before`."""
        while self._blocks and self._start + len(self._blocks[0].probabilities) <= before:
            block = self._blocks.popleft()
            self._start += len(block.probabilities)
            yield block

    def samples(self, start: int, end: int) -> Samples:
        """Return the samples of the frames from `start` to before `end`."""
        parts = [np.zeros(0, np.float32)]
        for position, block in self._positions():
            first, last = ((frame - position) * self._hop for frame in (start, end))
            parts.append(block.samples[max(first, 0) : max(last, 0)])
        return np.concatenate(parts)

    def first_frame(self, start: int) -> int:
        """Return `start`, or the first frame that is still held, if that frame is later."""
        return max(start, self._start)

    def change(
        self,
        start: int,
        end: int,
        values: npt.NDArray[np.float32],
        *,
        shift: float,
        onset: float,
    ) -> int:
        """Raise the probabilities of the frames from `start` to before `end`.

        Args:
            start: first frame, still held.
            end: the frame after the last.
            values: minimum of each probability, shape (end - start,).
            shift: added to the logits of all of these probabilities.
            onset: probability of speech.

        Returns:
            The number of frames whose probability was below `onset`, and no longer is.
        """
        risen = 0
        changed: deque[SpeechFrames] = deque()
        for position, block in self._positions():
            count = len(block.probabilities)
            first, last = max(start, position), min(end, position + count)
            if first < last:
                probabilities = block.probabilities.copy()
                part = probabilities[first - position : last - position]
                raised = np.maximum(_shifted(part, shift), values[first - start : last - start])
                risen += int(np.count_nonzero((part < onset) & (raised >= onset)))
                part[:] = raised
                changed.append(replace(block, probabilities=probabilities))
            else:
                changed.append(block)
        self._blocks = changed
        return risen

    def _positions(self) -> Iterator[tuple[int, SpeechFrames]]:
        """Yield each block with its first frame."""
        position = self._start
        for block in self._blocks:
            yield position, block
            position += len(block.probabilities)


def _shifted(probabilities: npt.NDArray[np.float32], shift: float) -> npt.NDArray[np.float32]:
    """Return the probabilities with `shift` added to their logits."""
    clipped = np.clip(probabilities.astype(np.float64), 1e-6, 1 - 1e-6)
    raised: npt.NDArray[np.float64] = 1 / (1 + (1 / clipped - 1) * np.exp(-shift))
    return raised.astype(np.float32)
