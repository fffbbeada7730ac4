"""The three ONNX graphs of Whisper's decoder; decoder.py shows how they are connected.

Keys and values of the encoder output have 8 bits. The mean of all positions is subtracted from them
first. For keys this changes nothing but the size of the numbers, because it adds the same number to
the scores of all positions (SageAttention: Zhang et al. 2024). For values the mean is added to the
result of the attention, so that many small weights, which 8 bits round to zero, still count.
"""

from collections.abc import Sequence
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from whisperbatch.engines.arrays import Arrays, Layout
from whisperbatch.engines.onnx.graph import ZERO, NodeBuilder, Rounded
from whisperbatch.runtimes.onnx_graph import Port

STATES: Final = "states"
EMBEDDED: Final = "embedded"
HIDDEN: Final = "hidden"
BIASES: Final = "biases"
TOKENS: Final = "tokens"

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


class DecoderGraphs:
    """Builds the graphs of a decoder, as the content of .onnx files.

    Args:
        arrays: the arrays "decoder/..." of model.bin, as stored.
        heads: the alignment heads, as (layer, head).
        levels: the largest level of a computed second factor of a product.
    """

    def __init__(self, arrays: Arrays, heads: Sequence[tuple[int, int]], levels: int) -> None:
        self._arrays, self._heads, self._levels = arrays, heads, levels

    def cross_kv(self) -> bytes:
        """Build the graph that computes the keys and values of one row of encoder output.

        Input: the encoder output (positions, d_model).
        Outputs: the keys of the alignment heads (heads, positions, head_size), then `CROSS` of each
        layer.
        """
        builder = self._builder()
        graph, layout = builder.graph, builder.layout
        states = builder.products.rounded(STATES)
        by_head = graph.integers(-1, layout.heads, layout.head_size)
        alignment_keys, outputs = [], []
        for layer in range(layout.layers):
            name = f"decoder/layer_{layer}/attention/linear_1"
            keys, values = builder.linear_parts(states, name, 2)
            if heads := self._heads_of(layer):
                split = graph.add("Reshape", keys, by_head)
                alignment_keys.append(graph.add("Gather", split, graph.integers(*heads), axis=1))
            outputs += cross_arrays(builder, keys, values)
        joined = graph.add("Concat", *alignment_keys, axis=1)
        joined = graph.add("Transpose", joined, perm=[1, 0, 2])
        ports = [Port(joined, (len(self._heads), "positions", layout.head_size))]
        kinds = cross_kinds(layout) * layout.layers
        ports += [
            Port(name, shape, dtype) for name, (shape, dtype) in zip(outputs, kinds, strict=True)
        ]
        return graph.finish("cross_kv", [Port(STATES, ("positions", layout.d_model))], ports)

    def decoder_layers(self) -> bytes:
        """Build the graph of the decoder's layers, for sequences of tokens.

        Inputs: embedded tokens (sequences, length, d_model); a mask for the places of tokens that
        were read before (1, 1, 1, places), because some places are free; a mask for the new tokens
        (1, 1, length, length); the natural log of the number of positions of each group (rows, 1,
        1, positions), which is added to the scores of the cross-attention; the number of the token
        of each row, beam and place in the new tokens (rows * beams * length,), where tokens of
        sequences are numbered in the order of `embedded`; where this array has each of these tokens
        (sequences * length,); for each layer, the keys and values of the tokens that were read
        before (`READ`), and the outputs of `cross_kv` for all rows.
        Outputs: hidden states (sequences, length, d_model); the queries of the alignment heads
        (sequences, alignment heads, length, head_size); for each layer, the transposed keys of
        the new tokens (sequences, heads, head_size, length), and their values (sequences, heads,
        length, head_size).
        """
        builder = self._builder()
        graph, layout = builder.graph, builder.layout
        inputs = [
            Port(EMBEDDED, ("sequences", "length", layout.d_model)),
            Port(READ_MASK, (1, 1, 1, "places")),
            Port(CAUSAL_MASK, (1, 1, "length", "length")),
            Port(LOG_SIZES, ("rows", 1, 1, "positions")),
            Port(BEAMS, ("tokens_by_beam",), np.int64),
            Port(TOKENS_OF_BEAMS, ("tokens",), np.int64),
        ]
        attention = DecoderAttention(builder, graph.size(EMBEDDED, 1))
        hidden = graph.add("Reshape", EMBEDDED, graph.integers(-1, layout.d_model))
        new_key_values, alignment_queries = [], []
        for layer in range(layout.layers):
            shapes = _read_shapes(layout, "places")
            inputs += [
                Port(f"{name}_{layer}", shape) for name, shape in zip(READ, shapes, strict=True)
            ]
            inputs += [
                Port(f"{name}_{layer}", ("rows", *shape), dtype)
                for name, (shape, dtype) in zip(CROSS, cross_kinds(layout), strict=True)
            ]
            attended, *key_values = attention.to_tokens(hidden, layer)
            new_key_values += key_values
            hidden = graph.add("Add", hidden, attended)
            attended, queries = attention.to_positions(hidden, layer)
            hidden = graph.add("Add", hidden, attended)
            if heads := self._heads_of(layer):
                chosen = graph.add("Gather", queries, graph.integers(*heads), axis=2)
                alignment_queries.append(chosen)
            hidden = builder.feed_forward(hidden, f"decoder/layer_{layer}")
        hidden = builder.layer_norm(hidden, "decoder/layer_norm")
        hidden = graph.add("Reshape", hidden, graph.add("Shape", EMBEDDED))
        queries = graph.add("Concat", *alignment_queries, axis=2)
        queries = graph.add("Transpose", queries, perm=[0, 2, 1, 3])
        shapes = _read_shapes(layout, "length") * layout.layers
        outputs = [
            Port(hidden, ("sequences", "length", layout.d_model)),
            Port(queries, ("sequences", len(self._heads), "length", layout.head_size)),
            *(Port(new, shape) for new, shape in zip(new_key_values, shapes, strict=True)),
        ]
        return graph.finish("decoder_layers", inputs, outputs)

    def vocabulary_projection(self, count: int) -> bytes:
        """Build the graph that computes token probabilities from hidden states.

        onnxruntime computes the log-softmax of a row in one piece. Sums of exponentials by other
        operators are divided between threads, and the last digit of a row then depends on the
        number of rows.

        Inputs: hidden states (n, d_model), biases of the logits (1 or n, vocabulary), and a token
        for each hidden state (n, 1).
        Outputs: the natural-log probabilities of the `count` most probable tokens (n, count), their
        ids (n, count), and the log-probabilities of the given tokens (n, 1).
        """
        builder = self._builder()
        graph, d_model = builder.graph, builder.layout.d_model
        embeddings = builder.stored("decoder/embeddings/weight")
        logits = builder.products.linear(builder.products.rounded(HIDDEN), embeddings)
        logprobs = graph.add("LogSoftmax", graph.add("Add", logits, BIASES), axis=1)
        top, ids = graph.add_many("TopK", 2, logprobs, graph.integers(count), axis=1)
        token_logprobs = graph.add("GatherElements", logprobs, TOKENS, axis=1)
        inputs = [
            Port(HIDDEN, ("n", d_model)),
            Port(BIASES, ("m", len(embeddings))),
            Port(TOKENS, ("n", 1), np.int64),
        ]
        outputs = [
            Port(top, ("n", count)),
            Port(ids, ("n", count), np.int64),
            Port(token_logprobs, ("n", 1)),
        ]
        return graph.finish("vocabulary_projection", inputs, outputs)

    def _builder(self) -> NodeBuilder:
        return NodeBuilder(self._arrays, "decoder", self._levels)

    def _heads_of(self, layer: int) -> list[int]:
        return [head for head_layer, head in self._heads if head_layer == layer]


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


def _read_shapes(layout: Layout, length: str) -> list[tuple[int | str, ...]]:
    """Return the shapes of the transposed keys and of the values of a number of tokens."""
    return [
        ("sequences", layout.heads, layout.head_size, length),
        ("sequences", layout.heads, length, layout.head_size),
    ]
