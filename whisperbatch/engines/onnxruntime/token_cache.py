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
        self._keys, self._values = self._allocated(sequences, PLACES)
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
        if len(sources) > self._keys.shape[1]:
            self._keys = np.ascontiguousarray(self._keys[:, sources])
            self._values = np.ascontiguousarray(self._values[:, sources])
        else:
            present = np.full_like(numbers, -1)
            known = min(len(sources), len(self._numbers))
            present[:known] = self._numbers[:known]
            sequences, places = np.nonzero(present != numbers)
            if len(sequences):
                origins = sources[sequences]
                self._keys[:, sequences, :, :, places] = self._keys[:, origins, :, :, places]
                self._values[:, sequences, :, places] = self._values[:, origins, :, places]
        self._numbers = numbers

    def append(self, keys: list[Floats], values: list[Floats]) -> None:
        """Add the tokens of a step.

        Args:
            keys: of each layer, shape (sequences, heads, head_size, length).
            values: of each layer, shape (sequences, heads, length, head_size).
        """
        sequences, _, length, _ = values[0].shape
        start, end = self.length, self.length + length
        if end > self._keys.shape[-1]:
            old_keys, old_values = self._keys, self._values
            self._keys, self._values = self._allocated(old_keys.shape[1], end)
            self._keys[..., :start] = old_keys[..., :start]
            self._values[..., :start, :] = old_values[..., :start, :]
        for layer in range(self._layout.layers):
            self._keys[layer, :sequences, ..., start:end] = keys[layer]
            self._values[layer, :sequences, :, start:end] = values[layer]
        numbers = np.arange(self._next_number, self._next_number + sequences * length)
        self._next_number += sequences * length
        self._numbers = np.concatenate((self._numbers, numbers.reshape(sequences, length)), axis=1)

    def arrays(self) -> list[Floats]:
        """Return keys and values of each layer.

        Their shapes are (sequences, heads, head_size, places), and (sequences, heads, places,
        head_size).
        """
        sequences = len(self._numbers)
        layers = zip(self._keys, self._values, strict=True)
        return [array[:sequences] for layer in layers for array in layer]

    def mask(self) -> Floats:
        """Return what is added to the scores of the places: 0, or minus infinity if it is free."""
        mask = np.full(self._keys.shape[-1], -np.inf, np.float32)
        mask[: self.length] = 0
        return mask

    def _allocated(self, sequences: int, places: int) -> tuple[Floats, Floats]:
        """Return zeros for the keys and values of all layers."""
        layout = self._layout
        first = (layout.layers, sequences, layout.heads)
        places = -(-places // PLACES) * PLACES
        return (
            np.zeros((*first, layout.head_size, places), np.float32),
            np.zeros((*first, places, layout.head_size), np.float32),
        )
