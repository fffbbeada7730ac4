"""The encoder output of a batch on OpenVINO."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from whisperbatch.engines.search.beam_search import Floats, Integers


@dataclass(frozen=True, slots=True, eq=False)
class EncoderOutput:
    """The encoder output of a batch. See `protocols.Encoded`.

    Attributes:
        states: shape (rows, positions, d_model), or, if similar positions were merged, (rows,
            groups, d_model). All rows have the same number of groups, because a row's result
            depends in its last digit on the number of columns that its attention has.
        sizes: number of positions of each group, shape (rows, groups); None if none were merged.
    """

    states: Floats
    sizes: Integers | None = None

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self.states)

    def split(self) -> list["EncoderOutput"]:
        """Return each row."""
        sizes = [None] * self.rows if self.sizes is None else [row[None] for row in self.sizes]
        return [
            EncoderOutput(row[None], size) for row, size in zip(self.states, sizes, strict=True)
        ]

    @classmethod
    def join(cls, outputs: Sequence["EncoderOutput"]) -> "EncoderOutput":
        """Return several outputs of one model, of windows of one length, as one batch."""
        states = np.concatenate([output.states for output in outputs])
        sizes = [output.sizes for output in outputs if output.sizes is not None]
        return cls(states, np.concatenate(sizes) if sizes else None)

    def by_position(self) -> Floats:
        """Return a state for each position, shape (rows, positions, d_model).

        Attention to the repeated states of a group is equal to attention to the group.
        """
        if self.sizes is None:
            return self.states
        rows = zip(self.states, self.sizes, strict=True)
        return np.stack([np.repeat(states, sizes, axis=0) for states, sizes in rows])

    def groups(self, row: int) -> Integers | None:
        """Return the number of the group of each position of a row; None if none were merged."""
        if self.sizes is None:
            return None
        return np.repeat(np.arange(self.sizes.shape[1]), self.sizes[row])
