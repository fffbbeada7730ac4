"""The three ONNX graphs of Whisper's decoder; decoder.py shows how they are connected."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from whisperbatch.engines.layout import Arrays, Layout
from whisperbatch.engines.onnxruntime.attention import (
    BEAMS,
    CAUSAL_MASK,
    CROSS,
    LOG_SIZES,
    READ,
    READ_MASK,
    TOKENS_OF_BEAMS,
    DecoderAttention,
    cross_arrays,
    cross_kinds,
)
from whisperbatch.engines.onnxruntime.graph import NodeBuilder
from whisperbatch.runtimes.onnx_graph import Port

STATES: Final = "states"
EMBEDDED: Final = "embedded"
HIDDEN: Final = "hidden"
BIASES: Final = "biases"
TOKENS: Final = "tokens"


def _read_shapes(layout: Layout, length: str) -> list[tuple[int | str, ...]]:
    """Return the shapes of the transposed keys and of the values of a number of tokens."""
    return [
        ("sequences", layout.heads, layout.head_size, length),
        ("sequences", layout.heads, length, layout.head_size),
    ]


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
        """Return the alignment heads of a layer."""
        return [head for head_layer, head in self._heads if head_layer == layer]
