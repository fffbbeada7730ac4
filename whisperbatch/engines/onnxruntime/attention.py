"""The attention of the decoder in ONNX graphs, with keys and values of the encoder in 8 bits.

The mean of all positions is subtracted from keys and values first. For keys this changes nothing
but the size of the numbers, because it adds the same number to the scores of all positions
(SageAttention: Zhang et al. 2024). For values the mean is added to the result of the attention, so
that many small weights, which 8 bits round to zero, still count.
"""

from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from whisperbatch.engines.layout import Layout
from whisperbatch.engines.onnxruntime.graph import NodeBuilder
from whisperbatch.engines.onnxruntime.products import ZERO, Rounded

READ_MASK: Final = "read_mask"
CAUSAL_MASK: Final = "causal_mask"
LOG_SIZES: Final = "log_sizes"
BEAMS: Final = "beams"
TOKENS_OF_BEAMS: Final = "tokens_of_beams"

READ: Final = ("read_keys", "read_values")
"""The arrays of a layer with the keys and values of the tokens that were read before."""

CROSS: Final = ("cross_keys", "key_steps", "cross_values", "value_steps", "value_means")
"""The arrays of a layer with the keys and values of the encoder output."""

POSITIONS: Final = "positions"
"""In a shape: any number of encoder positions."""

Kind: TypeAlias = tuple[tuple[int | str, ...], npt.DTypeLike]
"""The shape and the type of an array."""


def cross_kinds(layout: Layout) -> list[Kind]:
    """Return the shapes and types of `CROSS`, for one row.

    Keys are transposed. Each key has a step, and each channel of the values has one.
    """
    heads, head_size = layout.heads, layout.head_size
    channels = (heads, 1, head_size)
    return [
        ((heads, head_size, POSITIONS), np.int8),
        ((heads, 1, POSITIONS), np.float32),
        ((heads, POSITIONS, head_size), np.int8),
        (channels, np.float32),
        (channels, np.float32),
    ]


def cross_arrays(builder: NodeBuilder, keys: str, values: str) -> list[str]:
    """Return `CROSS` of a layer and a row.

    Args:
        builder: of the graph.
        keys: shape (positions, d_model).
        values: likewise.
    """
    graph, layout = builder.graph, builder.layout
    heads, head_size = layout.heads, layout.head_size
    deviations = graph.add("Sub", keys, graph.add("ReduceMean", keys, axes=[0]))
    vectors = graph.add("Reshape", deviations, graph.integers(-1, head_size))
    rounded = builder.products.rounded_second(vectors, "keys")
    by_position = graph.integers(-1, heads, head_size)
    levels = graph.add("Reshape", rounded.levels, by_position)
    keys = graph.add("Transpose", levels, perm=[1, 2, 0])
    steps = graph.add("Reshape", rounded.steps, graph.integers(-1, heads, 1))
    key_steps = graph.add("Transpose", steps, perm=[1, 2, 0])
    means = graph.add("ReduceMean", values, axes=[0])
    deviations = graph.add("Transpose", graph.add("Sub", values, means), perm=[1, 0])
    rounded = builder.products.rounded_second(deviations, "values")
    levels = graph.add("Reshape", rounded.levels, graph.integers(heads, head_size, -1))
    values = graph.add("Transpose", levels, perm=[0, 2, 1])
    channels = graph.integers(heads, 1, head_size)
    value_steps, means = (graph.add("Reshape", x, channels) for x in (rounded.steps, means))
    return [keys, key_steps, values, value_steps, means]


class DecoderAttention:
    """Adds the attention of the decoder's layers to a graph.

    Args:
        builder: of the graph.
        length: name of the number of new tokens of each sequence, as a vector.
    """

    def __init__(self, builder: NodeBuilder, length: str) -> None:
        self._builder, self._graph, self._layout = builder, builder.graph, builder.layout
        graph, layout = self._graph, self._layout
        places, rows = graph.size(READ_MASK, 3), graph.size(LOG_SIZES, 0)
        positions, heads, head_size = graph.size(LOG_SIZES, 3), layout.heads, layout.head_size

        def shape(*sizes: int | str) -> str:
            """Return a shape, from constants and computed sizes."""
            parts = [graph.integers(x) if isinstance(x, int) else x for x in sizes]
            return graph.add("Concat", *parts, axis=0)

        self._read_and_new = shape(places, length)
        self._by_sequence = shape(-1, length, 3 * heads, head_size)
        self._by_token = shape(-1, length, heads, head_size)
        self._by_row = shape(rows, -1, heads, head_size)
        self._queries = shape(rows, heads, -1, head_size)
        self._query_steps = shape(rows, heads, -1, 1)
        self._weights = shape(rows, heads, -1, positions)
        self._weight_vectors = shape(-1, positions)

    def to_tokens(self, hidden: str, layer: int) -> tuple[str, str, str]:
        """Attend to the tokens that each sequence has read.

        Args:
            hidden: hidden states (sequences * length, d_model).
            layer: number of the layer.

        Returns:
            The attended values (sequences * length, d_model), the transposed keys of the new
            tokens (sequences, heads, head_size, length), and their values (sequences, heads,
            length, head_size).
        """
        builder, graph = self._builder, self._graph
        name = f"decoder/layer_{layer}/self_attention"
        read_keys, read_values = (f"{kind}_{layer}" for kind in READ)
        normalised = builder.layer_norm(hidden, f"{name}/layer_norm")
        projected = builder.linear(normalised, f"{name}/linear_0")
        projected = graph.add("Reshape", projected, self._by_sequence)
        projected = graph.add("Transpose", projected, perm=[0, 2, 1, 3])
        sizes = graph.integers(*[self._layout.heads] * 3)
        queries, keys, values = graph.add_many("Split", 3, projected, sizes, axis=1)
        scale = graph.constant(np.float32(self._layout.head_size**-0.5))
        queries = graph.add("Mul", queries, scale)
        keys = graph.add("Transpose", keys, perm=[0, 1, 3, 2])
        read_scores = graph.add("Add", graph.add("MatMul", queries, read_keys), READ_MASK)
        new_scores = graph.add("Add", graph.add("MatMul", queries, keys), CAUSAL_MASK)
        scores = graph.add("Concat", read_scores, new_scores, axis=3)
        weights = graph.add("Softmax", scores, axis=-1)
        read_weights, new_weights = graph.add_many("Split", 2, weights, self._read_and_new, axis=3)
        attended = graph.add(
            "Add",
            graph.add("MatMul", read_weights, read_values),
            graph.add("MatMul", new_weights, values),
        )
        return builder.linear(self._merged(attended), f"{name}/linear_1"), keys, values

    def to_positions(self, hidden: str, layer: int) -> tuple[str, str]:
        """Attend to the positions of the encoder output.

        Args:
            hidden: hidden states (sequences * length, d_model).
            layer: number of the layer.

        Returns:
            The attended values (sequences * length, d_model), and the queries (sequences, length,
            heads, head_size).
        """
        builder, graph = self._builder, self._graph
        name = f"decoder/layer_{layer}/attention"
        keys, key_steps, cross_values, value_steps, means = (f"{kind}_{layer}" for kind in CROSS)
        normalised = builder.layer_norm(hidden, f"{name}/layer_norm")
        queries = builder.linear(normalised, f"{name}/linear_0")
        scale = graph.constant(np.float32(self._layout.head_size**-0.5))
        queries = graph.add("Mul", queries, scale)
        by_row = graph.add("Reshape", graph.add("Gather", queries, BEAMS, axis=0), self._by_row)
        by_row = graph.add("Transpose", by_row, perm=[0, 2, 1, 3])
        vectors = graph.add("Reshape", by_row, graph.integers(-1, self._layout.head_size))
        rounded = builder.products.rounded(vectors, "queries")
        rounded = self._shaped(rounded, self._queries)
        scores = builder.products.product(rounded, keys, zero=ZERO)
        scores = graph.add("Add", graph.add("Mul", scores, key_steps), LOG_SIZES)
        weights = graph.add("Softmax", scores, axis=-1)
        vectors = graph.add("Reshape", weights, self._weight_vectors)
        rounded = builder.products.rounded_positive(vectors, "queries")
        rounded = self._shaped(rounded, self._weights)
        attended = builder.products.product(rounded, cross_values, zero=0)
        attended = graph.add("Add", graph.add("Mul", attended, value_steps), means)
        attended = graph.add("Gather", self._merged(attended), TOKENS_OF_BEAMS, axis=0)
        queries = graph.add("Reshape", queries, self._by_token)
        return builder.linear(attended, f"{name}/linear_2"), queries

    def _shaped(self, vectors: Rounded, shape: str) -> Rounded:
        """Reshape rounded vectors (n, size), one for each query."""
        return Rounded(
            self._graph.add("Reshape", vectors.levels, shape),
            self._graph.add("Reshape", vectors.steps, self._query_steps),
        )

    def _merged(self, attended: str) -> str:
        """Reshape (n, heads, length, head_size) to (n * length, d_model)."""
        transposed = self._graph.add("Transpose", attended, perm=[0, 2, 1, 3])
        shape = self._graph.integers(-1, self._layout.d_model)
        return self._graph.add("Reshape", transposed, shape)
