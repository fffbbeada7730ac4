"""Encoder and decoder built from arrays, and the keys and values of a batch that is being decoded.

    rows       0        2        3          in the order of the search; row 1 is done and removed
    slots      0        1        2          place of each row in the tensors
    sequences  0 1 2    3 4 5    6 7 8      as many for each row as there are beams

On a CPU the slot of a finished row is removed at once. On CUDA it stays until half of the rows are
done, because each number of slots needs another CUDA graph.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Final, TypeAlias, cast

import numpy as np
import torch

from whisperbatch.engines.arrays import Arrays, Layout
from whisperbatch.engines.search import Integers
from whisperbatch.engines.settings import GROUP_SIZE, Quantization
from whisperbatch.engines.torch.modules import (
    Decoder,
    Encoder,
    KVCacheView,
    ModuleBuilder,
    TokenEmbedding,
)
from whisperbatch.engines.torch.quantization import TokenEmbedding8Bit, linear_chooser

Tensor: TypeAlias = torch.Tensor
LogitsProjection: TypeAlias = Callable[[Tensor], Tensor]  # (n, d_model) to (n, vocabulary)
DecoderForward: TypeAlias = Callable[[Tensor, KVCacheView], tuple[Tensor, list[Tensor]]]

CAPACITY_MULTIPLE: Final = 64  # positions: the capacity of a cache is a multiple of it


class TensorPool:
    """Tensors that successive batches reuse at the same addresses, which CUDA graphs require.

    Args:
        dtype: type of the tensors.
        device: where the tensors are.
        static_addresses: mark the addresses as static, so that graphs may store them.
    """

    def __init__(self, dtype: torch.dtype, device: torch.device, *, static_addresses: bool) -> None:
        self._dtype, self.device, self._static_addresses = dtype, device, static_addresses
        self._tensors: dict[str, Tensor] = {}

    def take(self, name: str, shape: tuple[int, ...]) -> Tensor:
        """Return the tensor of this name. Its content is undefined."""
        size = prod(shape)
        if name not in self._tensors or self._tensors[name].numel() < size:
            self._tensors[name] = torch.zeros(size, dtype=self._dtype, device=self.device)
        return self.graph_input(self._tensors[name][:size].view(shape))

    def graph_input(self, tensor: Tensor) -> Tensor:
        """Return a view of a tensor of the pool, marked as input of a graph if necessary."""
        if self._static_addresses:
            torch._dynamo.mark_static_address(tensor)  # noqa: SLF001 - its documented name
        return tensor


class KVCache:
    """Keys and values of a batch, and the decoder calls that fill them.

    Args:
        decoder: the decoder.
        forward: `decoder.forward`, perhaps compiled.
        pool: for the tensors of the cache. No other cache may use it at the same time.
        encoder_output: shape (rows, positions, d_model).
        beams: maximum number of sequences of a row.
        max_length: maximum number of tokens of a sequence, with its prompt.
    """

    def __init__(
        self,
        decoder: Decoder,
        forward: DecoderForward,
        pool: TensorPool,
        encoder_output: Tensor,
        *,
        beams: int,
        max_length: int,
    ) -> None:
        self._decoder, self._decoder_forward, self._pool = decoder, forward, pool
        self._has_spare_slots = pool.device.type != "cpu"
        rows = self._slot_count = len(encoder_output)
        self._slots = list(range(rows))  # of each row
        self._beams = 1  # sequences of a row, now
        self._length = 0  # tokens of the longest sequence
        layout = decoder.layout
        rounded_up = -(-max_length // CAPACITY_MULTIPLE) * CAPACITY_MULTIPLE
        self.capacity = min(rounded_up, len(decoder.positions))
        self_shape = (rows * beams, layout.heads, self.capacity, layout.head_size)
        self._keys, self._values = (
            [pool.take(f"{name} {layer}", self_shape) for layer in range(layout.layers)]
            for name in ("keys", "values")
        )
        cross_shape = (rows, layout.heads, encoder_output.shape[1], layout.head_size)
        self._cross_kv = [pool.take(f"cross_kv {n}", cross_shape) for n in range(2 * layout.layers)]
        block_size = 16 if self._has_spare_slots else 1
        for start in range(0, rows, block_size):
            block = slice(start, start + block_size)
            block_kv = decoder.cross_kv(encoder_output[block])
            for cached, computed in zip(self._cross_kv, block_kv, strict=True):
                cached[block] = computed

    def forward(self, tokens: Integers, positions: Integers) -> Tensor:
        """Run the decoder on further tokens.

        Args:
            tokens: shape (rows, sequences of a row, length).
            positions: position of each token, of the same shape. Keys and values of a position
                that is already in the cache are replaced.

        Returns:
            Hidden states, shape (rows, sequences of a row, length, d_model).
        """
        hidden, _ = self._forward(tokens, positions)
        return hidden.view(self._slot_count, *tokens.shape[1:], -1)[self._slots]

    def forward_with_attention(
        self, texts: Integers, heads: Sequence[tuple[int, int]]
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Run the decoder on complete texts, and return cross-attention. The cache must be empty.

        Args:
            texts: shape (rows, length).
            heads: (layer, head) of the heads whose queries and keys are returned.

        Returns:
            Hidden states (rows, length, d_model), queries (rows, heads, length, size), scaled, and
            keys (rows, heads, positions, size), all in float32.
        """
        positions = np.broadcast_to(np.arange(texts.shape[1]), texts.shape)
        hidden, cross_queries = self._forward(texts[:, None], positions[:, None])
        scale = self._decoder.layout.head_size**-0.5
        queries = torch.stack([cross_queries[layer][:, head] for layer, head in heads], 1)
        keys = torch.stack([self._cross_kv[2 * layer][:, head] for layer, head in heads], 1)
        return hidden, queries.float() * scale, keys.float()

    def _forward(self, tokens: Integers, positions: Integers) -> tuple[Tensor, list[Tensor]]:
        """Return hidden states and queries of cross-attention, in the order of the slots."""
        beams, length = tokens.shape[1:]
        self._length = max(self._length, int(positions.max()) + 1)
        count = self._slot_count * beams
        inputs = np.zeros((2, self._slot_count, beams, length), np.int64)
        inputs[:, self._slots] = tokens, positions
        device_inputs = torch.from_numpy(inputs).to(self._pool.device).view(2, count, length)
        graph_input = self._pool.graph_input
        view = KVCacheView(
            device_inputs[1],
            [graph_input(keys[:count]) for keys in self._keys],
            [graph_input(values[:count]) for values in self._values],
            [graph_input(tensor[: self._slot_count]) for tensor in self._cross_kv],
        )
        return self._decoder_forward(device_inputs[0], view)

    def select(self, rows: Sequence[int], sources: Integers) -> None:
        """Keep some of the rows, and rearrange their sequences.

        Args:
            rows: numbers of the rows to keep, among the rows of the cache.
            sources: shape (rows, sequences of a row): the sequence that each new sequence
                continues.
        """
        row_slots = [self._slots[row] for row in rows]
        before = np.arange(self._slot_count * self._beams).reshape(self._slot_count, self._beams)
        beams = sources.shape[1]
        slot_count = 1 << (len(rows) - 1).bit_length() if self._has_spare_slots else len(rows)
        if slot_count < self._slot_count:
            source_slots = row_slots + [row_slots[0]] * (slot_count - len(rows))
            self._gather(self._cross_kv, source_slots, slice(None))
            self._slot_count, self._slots = slot_count, list(range(len(rows)))
        else:
            source_slots = list(range(self._slot_count))
            self._slots = row_slots
        index = np.repeat(before[source_slots, :1], beams, axis=1)
        index[self._slots] = np.take_along_axis(before[row_slots], sources, axis=1)
        if index.size != before.size or (index != before[: self._slot_count]).any():
            for tensors in (self._keys, self._values):
                self._gather(tensors, index.ravel(), slice(self._length))
        self._beams = beams

    @staticmethod
    def _gather(
        tensors: Iterable[Tensor], index: Sequence[int] | Integers, positions: slice
    ) -> None:
        for tensor in tensors:
            device_index = torch.as_tensor(index, device=tensor.device)
            gathered = tensor[:, :, positions].index_select(0, device_index)
            tensor[: len(index), :, positions] = gathered


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """Encoder and decoder, for one batch at a time.

    Attributes:
        encode: maps features (rows, n_mels, frames) to (rows, positions, d_model).
        decoder: the decoder, never compiled.
        decode: `decoder.forward`, compiled if the network is.
        logits: `decoder.logits`, compiled if the network is.
        pool: tensors for keys and values.
    """

    encode: Callable[[Tensor], Tensor]
    decoder: Decoder
    decode: DecoderForward
    logits: LogitsProjection
    pool: TensorPool

    def kv_cache(self, encoder_output: Tensor, *, max_length: int, beams: int = 0) -> KVCache:
        """Return an empty cache for a batch of encoder output.

        Args:
            encoder_output: shape (rows, positions, d_model).
            max_length: maximum number of tokens of a sequence, with its prompt.
            beams: maximum number of sequences of a row; 0 for a single call of the decoder, which
                does not use the compiled version.
        """
        return KVCache(
            self.decoder,
            self.decode if beams else self.decoder,
            self.pool,
            encoder_output,
            beams=beams or 1,
            max_length=max_length,
        )


def build_network(
    arrays: Arrays,
    *,
    dtype: torch.dtype,
    device: torch.device,
    compiled: bool,
    quantization: Quantization | None = None,
    group_size: int = GROUP_SIZE,
) -> Network:
    """Build a network from arrays.

    Args:
        arrays: the arrays, by CTranslate2's names.
        dtype: type of the weights.
        device: where the weights are put.
        compiled: compile encoder and decoder at their first use; for CUDA.
        quantization: of the decoder.
        group_size: for "hqq4": number of weights that share a scale.

    Raises:
        LookupError: an array is missing.
        RuntimeError: the shape of an array does not match the other arrays.
    """
    choose_linear = linear_chooser(
        quantization, group_size, Layout.from_arrays(arrays, "decoder").layers
    )
    decoder_builder = ModuleBuilder(
        arrays=arrays, dtype=dtype, device=device, choose_linear=choose_linear
    )
    embedding_type = TokenEmbedding8Bit if quantization else TokenEmbedding
    embedding = embedding_type(decoder_builder.weights("decoder/embeddings/weight"))
    decoder = Decoder(decoder_builder, embedding)

    def maybe_compile(function: Callable[..., Any]) -> Callable[..., Any]:
        if not compiled:
            return function
        compiled_function = torch.compile(function, mode="reduce-overhead", dynamic=True)
        return cast("Callable[..., Any]", compiled_function)

    return Network(
        encode=maybe_compile(Encoder(ModuleBuilder(arrays=arrays, dtype=dtype, device=device))),
        decoder=decoder,
        decode=maybe_compile(decoder),
        logits=maybe_compile(decoder.logits),
        pool=TensorPool(dtype, device, static_addresses=compiled),
    )
