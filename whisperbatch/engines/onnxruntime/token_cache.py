"""The keys and values of the tokens that the sequences of a batch have read.

    sequence 0    a b c d        after a step with sources 0, 0, 2:    a b c d
    sequence 1    a b e f                                              a b c d   2 places copied
    sequence 2    a b g h                                              a b g h

The beams of a row often have most of their tokens in common. Each token that was read has a number,
which its copies share. So a sequence that goes on from another copies only the places whose numbers
differ.
"""

from typing import Final

import numpy as np

from whisperbatch.engines.layout import Layout
from whisperbatch.engines.search.hypotheses import Floats, Integers

PLACES: Final = 32
"""The number of places is a multiple of this, so that the arrays grow seldom."""


class TokenCache:
    """Keys and values of one batch at a time.

    Args:
        layout: of the decoder.
    """

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self.start(0)

    def start(self, sequences: int) -> None:
        """Start with sequences that have read nothing."""
        self._memory: Floats = np.zeros(self._shape(sequences, PLACES), np.float32)
        self._numbers: Integers = np.empty((sequences, 0), np.int64)  # of tokens
        self._next_number = 0

    @property
    def length(self) -> int:
        """Number of tokens that each sequence has read."""
        return int(self._numbers.shape[1])

    def select(self, sources: Integers) -> None:
        """Let each sequence go on from a source.

        Args:
            sources: sequences before the call, shape (sequences after the call,).
        """
        numbers = self._numbers[sources]
        if len(sources) > self._memory.shape[1]:
            self._memory = np.ascontiguousarray(self._memory[:, sources])
        else:
            present = np.full_like(numbers, -1)
            known = min(len(sources), len(self._numbers))
            present[:known] = self._numbers[:known]
            sequences, places = np.nonzero(present != numbers)
            if len(sequences):
                copied = self._memory[:, sources[sequences], :, places]
                self._memory[:, sequences, :, places] = copied
        self._numbers = numbers

    def append(self, new: list[Floats]) -> None:
        """Add the tokens of a step.

        Args:
            new: for each layer keys and values, shape (sequences, heads, length, head_size).
        """
        sequences, length = len(new[0]), new[0].shape[2]
        end = self.length + length
        if end > self._memory.shape[3]:
            memory = np.zeros(self._shape(self._memory.shape[1], end), np.float32)
            memory[:, :, :, : self.length] = self._memory[:, :, :, : self.length]
            self._memory = memory
        for array, memory in zip(new, self._memory, strict=True):
            memory[:sequences, :, self.length : end] = array
        numbers = np.arange(self._next_number, self._next_number + sequences * length)
        self._next_number += sequences * length
        self._numbers = np.concatenate((self._numbers, numbers.reshape(sequences, length)), axis=1)

    def arrays(self) -> list[Floats]:
        """Return keys and values of each layer, shape (sequences, heads, places, head_size)."""
        return [array[: len(self._numbers)] for array in self._memory]

    def mask(self) -> Floats:
        """Return what is added to the scores of the places: 0, or minus infinity if it is free."""
        mask = np.full(self._memory.shape[3], -np.inf, np.float32)
        mask[: self.length] = 0
        return mask

    def _shape(self, sequences: int, places: int) -> tuple[int, ...]:
        layout = self._layout
        places = -(-places // PLACES) * PLACES
        return (2 * layout.layers, sequences, layout.heads, places, layout.head_size)
