"""The keys and values of the tokens that the sequences of a batch have read.

    place 0    a b c d    after a step with sources 2, 0, 0:    a b c d    sequence 1
    place 1    a b e f                                          a b c d    sequence 2, 2 copies
    place 2    a b g h                                          a b g h    sequence 0

The first of the sequences that go on from the same source stays in its place. The others go to free
places. The beams of a row often have most of their tokens in common. Each token that was read has a
number, which its copies share. So only tokens whose numbers differ are copied.
"""

from typing import Final

import numpy as np

from whisperbatch.engines.layout import Layout
from whisperbatch.engines.search.hypotheses import Floats, Integers

COLUMNS: Final = 32
"""The arrays have a multiple of this number of columns, one for each token, so they grow seldom."""


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
        self._keys, self._values = self._allocated(sequences, COLUMNS)
        self._places = np.arange(sequences)  # of each sequence
        self._numbers: Integers = np.empty((sequences, 0), np.int64)  # of tokens, at each place
        self._next_number = 0

    @property
    def length(self) -> int:
        """Number of tokens that each sequence has read."""
        return int(self._numbers.shape[1])

    def select(self, sources: Integers) -> Integers:
        """Let each sequence go on from a source.

        Args:
            sources: sequences before the call, shape (sequences after the call,).

        Returns:
            The place of each sequence: the numbers from 0, in another order.
        """
        origins = self._places[sources]
        self._places = self._free_places(origins)
        origins = origins[np.argsort(self._places)]  # of each place
        numbers = self._numbers[origins]
        if len(sources) > self._keys.shape[1]:
            self._grow(len(sources), self.length)
        present = np.full_like(numbers, -1)
        known = min(len(sources), len(self._numbers))
        present[:known] = self._numbers[:known]
        places, columns = np.nonzero(present != numbers)
        if len(places):
            origins = origins[places]
            self._keys[:, places, :, :, columns] = self._keys[:, origins, :, :, columns]
            self._values[:, places, :, columns] = self._values[:, origins, :, columns]
        self._numbers = numbers
        return self._places

    def _free_places(self, sources: Integers) -> Integers:
        """Return a place for each sequence: that of its source, or the most similar that is free.

        Args:
            sources: places that the sequences go on from.
        """
        count = len(sources)
        stayed, first = np.unique(sources, return_index=True)
        first = first[stayed < count]
        result = np.full(count, -1)
        result[first] = sources[first]
        free = np.setdiff1d(np.arange(count), result)
        known = len(self._numbers)
        for sequence in np.nonzero(result < 0)[0]:
            used = self._numbers[np.minimum(free, known - 1)]
            similar = (used == self._numbers[sources[sequence]]).sum(axis=1) * (free < known)
            choice = int(similar.argmax())
            result[sequence] = free[choice]
            free = np.delete(free, choice)
        return result

    def append(self, keys: list[Floats], values: list[Floats]) -> None:
        """Add the tokens of a step.

        Args:
            keys: of each layer, shape (places, heads, head_size, length).
            values: of each layer, shape (places, heads, length, head_size).
        """
        sequences, _, length, _ = values[0].shape
        start, end = self.length, self.length + length
        if end > self._keys.shape[-1]:
            self._grow(self._keys.shape[1], end)
        for layer in range(self._layout.layers):
            self._keys[layer, :sequences, ..., start:end] = keys[layer]
            self._values[layer, :sequences, :, start:end] = values[layer]
        numbers = np.arange(self._next_number, self._next_number + sequences * length)
        self._next_number += sequences * length
        self._numbers = np.concatenate((self._numbers, numbers.reshape(sequences, length)), axis=1)

    def arrays(self) -> list[Floats]:
        """Return keys and values of each layer.

        Their shapes are (places, heads, head_size, columns), and (places, heads, columns,
        head_size).
        """
        sequences = len(self._numbers)
        layers = zip(self._keys, self._values, strict=True)
        return [array[:sequences] for layer in layers for array in layer]

    def mask(self) -> Floats:
        """Return the summands of the scores: 0 for each token, minus infinity for free columns."""
        mask = np.full(self._keys.shape[-1], -np.inf, np.float32)
        mask[: self.length] = 0
        return mask

    def _grow(self, places: int, length: int) -> None:
        """Make room for more places or tokens."""
        old_keys, old_values = self._keys, self._values
        self._keys, self._values = self._allocated(places, length)
        count, columns = old_keys.shape[1], old_keys.shape[-1]
        self._keys[:, :count, ..., :columns] = old_keys
        self._values[:, :count, :, :columns] = old_values

    def _allocated(self, places: int, length: int) -> tuple[Floats, Floats]:
        """Return zeros for the keys and values of all layers."""
        layout = self._layout
        first = (layout.layers, places, layout.heads)
        columns = -(-length // COLUMNS) * COLUMNS
        return (
            np.zeros((*first, layout.head_size, columns), np.float32),
            np.zeros((*first, columns, layout.head_size), np.float32),
        )
