"""Texts that are being read side by side: what the decoder remembers of each, and of its row.

    rows       0        2        3          in the order of the search; row 1 is done and has left
    places     0        1        2          of them in the tensors
    sequences  0 1 2    3 4 5    6 7 8      as many a row as there are beams

On a CPU a row that is done leaves at once. On CUDA it stays until half of the rows are done, since
each number of rows has a graph of its own.
"""

from collections.abc import Callable, Iterable, Sequence
from math import prod
from typing import Final, TypeAlias

import numpy as np
import torch

from whisperbatch.engines.search.beam_search import Integers
from whisperbatch.engines.torch.modules import Decoder, Read

Tensor: TypeAlias = torch.Tensor
Reader: TypeAlias = Callable[[Tensor, Read], tuple[Tensor, list[Tensor]]]

BLOCK: Final = 64  # positions: how much there is room for is a multiple of it


class Memory:
    """Tensors that one batch after the other has, at the same addresses: what graphs want.

    Args:
        dtype: of them.
        device: where they are.
        fixed: mark their addresses as those that a graph may keep.
    """

    def __init__(self, dtype: torch.dtype, device: torch.device, *, fixed: bool) -> None:
        self._dtype, self.device, self._fixed = dtype, device, fixed
        self._kept: dict[str, Tensor] = {}

    def take(self, name: str, shape: tuple[int, ...]) -> Tensor:
        """The tensor of that name; what is in it is anybody's."""
        size = prod(shape)
        if name not in self._kept or self._kept[name].numel() < size:
            self._kept[name] = torch.zeros(size, dtype=self._dtype, device=self.device)
        return self.lent(self._kept[name][:size].view(shape))

    def lent(self, part: Tensor) -> Tensor:
        """A part of one, as it goes into a graph."""
        if self._fixed:
            torch._dynamo.mark_static_address(part)  # noqa: SLF001 - the name it is documented by
        return part


class Sequences:
    """The texts of a batch.

    Args:
        decoder: that reads.
        reader: its `forward`, or that compiled.
        memory: for what is kept; nobody else may use it meanwhile.
        output: of the encoder, shape (rows, positions, d_model).
        beams: sequences that a row may have.
        most: tokens of a sequence, with its prompt.
    """

    def __init__(
        self,
        decoder: Decoder,
        reader: Reader,
        memory: Memory,
        output: Tensor,
        *,
        beams: int,
        most: int,
    ) -> None:
        self._decoder, self._reader, self._memory = decoder, reader, memory
        self._roomy = memory.device.type != "cpu"
        self._rows = self._room = len(output)
        self._places = list(range(self._rows))
        self._width = 1  # sequences of a row
        self._filled = 0  # tokens that the longest has
        layout = decoder.layout
        self.capacity = min(-(-most // BLOCK) * BLOCK, len(decoder.positions))
        own = (self._rows * beams, layout.heads, self.capacity, layout.size)
        self._keys, self._values = (
            [memory.take(f"{name} {layer}", own) for layer in range(layout.layers)]
            for name in ("keys", "values")
        )
        heard = (self._rows, layout.heads, output.shape[1], layout.size)
        self._crossed = [memory.take(f"heard {n}", heard) for n in range(2 * layout.layers)]
        at_once = 16 if self._roomy else 1
        for start in range(0, self._rows, at_once):
            part = slice(start, start + at_once)
            for kept, found in zip(self._crossed, decoder.crossed(output[part]), strict=True):
                kept[part] = found

    def read(self, tokens: Integers, positions: Integers) -> Tensor:
        """Read on.

        Args:
            tokens: shape (rows, sequences of a row, length).
            positions: of each token, of the same shape; one that was read before is read anew.

        Returns:
            Hidden states, shape (rows, sequences of a row, length, d_model).
        """
        hidden, _ = self._run(tokens, positions)
        return hidden.view(self._room, *tokens.shape[1:], -1)[self._places]

    def followed(
        self, texts: Integers, heads: Sequence[tuple[int, int]]
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Read whole texts, nothing read yet, and see what some heads attend to.

        Args:
            texts: shape (rows, length).
            heads: (layer, head).

        Returns:
            Hidden states (rows, length, d_model), queries (rows, heads, length, size), scaled, and
            keys (rows, heads, positions, size), all in float32.
        """
        positions = np.broadcast_to(np.arange(texts.shape[1]), texts.shape)
        hidden, asked = self._run(texts[:, None], positions[:, None])
        scale = self._decoder.layout.size**-0.5
        queries = torch.stack([asked[layer][:, head] for layer, head in heads], 1).float() * scale
        keys = torch.stack([self._crossed[2 * layer][:, head] for layer, head in heads], 1)
        return hidden, queries, keys.float()

    def _run(self, tokens: Integers, positions: Integers) -> tuple[Tensor, list[Tensor]]:
        """Hidden states and queries, in the order of the places."""
        width, length = tokens.shape[1:]
        self._filled = max(self._filled, int(positions.max()) + 1)
        count = self._room * width
        placed = np.zeros((2, self._room, width, length), np.int64)
        placed[:, self._places] = tokens, positions
        both = torch.from_numpy(placed).to(self._memory.device).view(2, count, length)
        lent = self._memory.lent
        read = Read(
            both[1],
            [lent(kept[:count]) for kept in self._keys],
            [lent(kept[:count]) for kept in self._values],
            [lent(kept[: self._room]) for kept in self._crossed],
        )
        return self._reader(both[0], read)

    def select(self, rows: Sequence[int], sources: Integers) -> None:
        """Some rows go on, and of each some sequences.

        Args:
            rows: their numbers among those that there are.
            sources: shape (rows, sequences of a row): the sequence that each goes on from.
        """
        staying = [self._places[row] for row in rows]
        before = np.arange(self._room * self._width).reshape(self._room, self._width)
        width = sources.shape[1]
        room = 1 << (len(rows) - 1).bit_length() if self._roomy else len(rows)
        if room < self._room:
            others = staying + [staying[0]] * (room - len(rows))
            self._gather(self._crossed, others, slice(None))
            self._room, self._places = room, list(range(len(rows)))
        else:
            others = list(range(self._room))
            self._places = staying
        index = np.repeat(before[others, :1], width, axis=1)
        index[self._places] = np.take_along_axis(before[staying], sources, axis=1)
        if index.size != before.size or (index != before[: self._room]).any():
            for kept in (self._keys, self._values):
                self._gather(kept, index.ravel(), slice(self._filled))
        self._width = width

    @staticmethod
    def _gather(kept: Iterable[Tensor], index: Sequence[int] | Integers, part: slice) -> None:
        for one in kept:
            chosen = torch.as_tensor(index, device=one.device)
            one[: len(index), :, part] = one[:, :, part].index_select(0, chosen)
