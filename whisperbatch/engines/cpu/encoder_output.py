"""The encoder output of a batch, of the engines for CPUs."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from whisperbatch.engines.search.hypotheses import Floats, Integers


@dataclass(frozen=True, slots=True, eq=False)
class EncoderOutput:
    """The encoder output of a batch. See `protocols.Encoded`.

    Attributes:
        states: of each row, shape (positions, d_model), or, if the encoder merges similar
            positions, (groups, d_model).
        sizes: of each row, number of positions of each group, shape (groups,); None if the encoder
            does not merge positions.
    """

    states: tuple[Floats, ...]
    sizes: tuple[Integers, ...] | None = None

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self.states)

    def select(self, rows: Sequence[int]) -> "EncoderOutput":
        """Return some rows as a batch."""
        sizes = None if self.sizes is None else tuple(self.sizes[row] for row in rows)
        return EncoderOutput(tuple(self.states[row] for row in rows), sizes)

    def split(self) -> list["EncoderOutput"]:
        """Return each row."""
        return [self.select([row]) for row in range(self.rows)]

    @classmethod
    def join(cls, outputs: Sequence["EncoderOutput"]) -> "EncoderOutput":
        """Return several outputs of one model, of windows of one length, as one batch."""
        states = tuple(states for output in outputs for states in output.states)
        sizes = [output.sizes for output in outputs if output.sizes is not None]
        return cls(states, tuple(size for row in sizes for size in row) if sizes else None)

    def rows_by_length(self) -> list[list[int]]:
        """Return the rows with the same number of states, which can be decoded together.

        Noisy rows keep all positions. Rows are not padded to one number of states, because a row's
        result depends in its last digit on the number of columns that its attention has.
        """
        rows: dict[int, list[int]] = defaultdict(list)
        for row, states in enumerate(self.states):
            rows[len(states)].append(row)
        return list(rows.values())

    def by_position(self) -> Floats:
        """Return a state for each position, shape (rows, positions, d_model).

        Attention to the repeated states of a group is equal to attention to the group.
        """
        if self.sizes is None:
            return np.stack(self.states)
        rows = zip(self.states, self.sizes, strict=True)
        return np.stack([np.repeat(states, sizes, axis=0) for states, sizes in rows])

    def groups(self, row: int) -> Integers | None:
        """Return the number of the group of each position of a row; None without groups."""
        if self.sizes is None:
            return None
        return np.repeat(np.arange(len(self.sizes[row])), self.sizes[row])
