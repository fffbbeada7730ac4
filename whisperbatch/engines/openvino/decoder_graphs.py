"""The three OpenVINO graphs of Whisper's decoder; decoder.py shows how they are connected."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from whisperbatch.engines.layout import Arrays
from whisperbatch.engines.openvino.graph import Node, NodeBuilder
from whisperbatch.runtimes.openvino_package import Precision, import_openvino

FIRST_KEY_VALUE_INPUT: Final = 3
"""In `decoder_layers`: the input with the first layer's keys. Its values follow, then the next
layer's keys and values, and at the end, if positions are merged, the log of their groups' sizes."""


class DecoderGraphs:
    """Builds the graphs of a decoder.

    Args:
        arrays: the arrays "decoder/..." of model.bin, as stored.
        heads: the alignment heads, as (layer, head).
        precision: of the keys and values of the encoder output.
        int8_weights: store the matrices in 8 bits.
        merged: the encoder merges similar positions.
    """

    def __init__(
        self,
        arrays: Arrays,
        heads: Sequence[tuple[int, int]],
        precision: Precision,
        *,
        int8_weights: bool,
        merged: bool,
    ) -> None:
        openvino = import_openvino()
        self._openvino = openvino
        self._ops = openvino.opset13
        self._builder = NodeBuilder(self._ops, arrays, "decoder", int8_weights=int8_weights)
        self.layout = self._builder.layout
        self._heads = heads
        self._precision = precision
        self._merged = merged
        self._key_value_type = openvino.Type.bf16 if precision == "bf16" else openvino.Type.f32

    def cross_kv(self) -> Node:
        """Build the graph that computes the keys and values of one row of encoder output.

        Inputs: the encoder output (1, positions, d_model).
        Outputs, for each layer: keys (1, heads, positions, head_size) and transposed values
        (1, heads, head_size, positions).
        """
        ops, builder = self._ops, self._builder
        output = ops.parameter([1, -1, self.layout.d_model], np.float32)
        results = []
        for layer in range(self.layout.layers):
            projected = builder.linear(output, f"decoder/layer_{layer}/attention/linear_1")
            keys, values = builder.split_heads(projected, 2)
            transposed = ops.transpose(values, builder.integers(0, 1, 3, 2))
            results += [
                ops.result(ops.convert(node, self._precision)) for node in (keys, transposed)
            ]
        return self._openvino.Model(results, [output], "cross_kv")

    def decoder_layers(self) -> Node:
        """Build the graph of the decoder's layers, for rows * beams sequences.

        Inputs: embedded tokens (rows * beams, length, d_model), the sequence of the previous step
        that each sequence extends (rows * beams,), the attention mask (1, 1, length, length so
        far), then the outputs of `cross_kv` for all rows. If the encoder merges positions, there is
        one more input: the natural log of the number of positions of each group, which is added to
        the scores of the cross-attention (rows, 1, 1, groups).
        Outputs: hidden states (rows * beams, length, d_model), and the queries of the alignment
        heads (rows, alignment heads, beams * length, head_size).
        State: keys and values of the self-attention.
        """
        ops, builder, layout = self._ops, self._builder, self.layout
        embedded = ops.parameter([-1, -1, layout.d_model], np.float32)
        beam_idx = ops.parameter([-1], np.int32)
        mask = ops.parameter([1, 1, -1, -1], np.float32)
        inputs, assignments, alignment_queries = [embedded, beam_idx, mask], [], []
        log_sizes = ops.parameter([-1, 1, 1, -1], np.float32) if self._merged else None
        shape = ops.shape_of(embedded)
        hidden = embedded
        for layer in range(layout.layers):
            keys = ops.parameter([-1, layout.heads, -1, layout.head_size], self._key_value_type)
            values = ops.parameter([-1, layout.heads, layout.head_size, -1], self._key_value_type)
            inputs += [keys, values]
            attended, layer_assignments = self._self_attention(hidden, beam_idx, mask, layer)
            assignments += layer_assignments
            hidden = ops.add(hidden, attended)
            attended, queries = self._cross_attention(
                hidden, (keys, values), log_sizes, shape, layer
            )
            hidden = ops.add(hidden, attended)
            if heads := [head for head_layer, head in self._heads if head_layer == layer]:
                alignment_queries.append(
                    ops.gather(queries, builder.integers(*heads), builder.integer(1))
                )
            hidden = builder.feed_forward(hidden, f"decoder/layer_{layer}")
        hidden = builder.layer_norm(hidden, "decoder/layer_norm")
        results = [ops.result(hidden), ops.result(ops.concat(alignment_queries, 1))]
        if log_sizes is not None:
            inputs.append(log_sizes)
        return self._openvino.Model(results, assignments, inputs, "decoder_layers")

    def _self_attention(
        self, hidden: Node, beam_idx: Node, mask: Node, layer: int
    ) -> tuple[Node, list[Node]]:
        """Return the attended values, and the assignments that update the key-value cache.

        The nodes form the pattern that OpenVINO recognises as attention with a cache.
        """
        ops, builder = self._ops, self._builder
        name = f"decoder/layer_{layer}/self_attention"
        normalised = builder.layer_norm(hidden, f"{name}/layer_norm")
        queries, *new_key_values = builder.split_heads(
            builder.linear(normalised, f"{name}/linear_0"), 3
        )
        sequences = ops.gather(ops.shape_of(hidden), builder.integers(0), builder.integer(0))
        empty = ops.broadcast(
            ops.constant(np.float32(0)),
            ops.concat(
                [sequences, builder.integers(self.layout.heads, 0, self.layout.head_size)], 0
            ),
        )
        key_values, assignments = [], []
        for kind, new in zip(("keys", "values"), new_key_values, strict=True):
            variable = self._variable(f"{kind}_{layer}")
            past = ops.gather(ops.read_value(empty, variable), beam_idx, builder.integer(0))
            concatenated = ops.concat([past, new], 2)
            assignments.append(ops.assign(concatenated, variable))
            key_values.append(concatenated)
        attended = ops.scaled_dot_product_attention(queries, *key_values, mask)
        return builder.linear(builder.merge_heads(attended), f"{name}/linear_1"), assignments

    def _variable(self, name: str) -> Node:
        util = self._openvino.op.util
        info = util.VariableInfo()
        info.data_shape = self._openvino.PartialShape(
            [-1, self.layout.heads, -1, self.layout.head_size]
        )
        info.data_type = self._openvino.Type.f32
        info.variable_id = name
        return util.Variable(info)

    def _cross_attention(
        self,
        hidden: Node,
        key_values: tuple[Node, Node],
        log_sizes: Node | None,
        shape: Node,
        layer: int,
    ) -> tuple[Node, Node]:
        """Return the attended values and the queries (rows, heads, beams, head_size).

        The beams of a row are treated as positions of one sequence, so the row's keys and values
        are read only once.
        """
        ops, builder, layout = self._ops, self._builder, self.layout
        keys, values = key_values
        name = f"decoder/layer_{layer}/attention"
        normalised = builder.layer_norm(hidden, f"{name}/layer_norm")
        queries = builder.linear(normalised, f"{name}/linear_0")
        queries = ops.multiply(queries, ops.constant(np.float32(layout.head_size**-0.5)))
        rows = ops.gather(ops.shape_of(keys), builder.integers(0), builder.integer(0))
        by_row = ops.concat([rows, builder.integers(-1, layout.heads, layout.head_size)], 0)
        queries = ops.transpose(
            ops.reshape(queries, by_row, special_zero=False), builder.integers(0, 2, 1, 3)
        )
        scores = ops.matmul(
            ops.convert(queries, self._precision), keys, transpose_a=False, transpose_b=True
        )
        scores = ops.convert(scores, "f32")
        if log_sizes is not None:
            scores = ops.add(scores, log_sizes)
        weights = ops.softmax(scores, -1)
        attended = ops.matmul(
            ops.convert(weights, self._precision), values, transpose_a=False, transpose_b=True
        )
        attended = ops.convert(attended, "f32")
        attended = ops.transpose(attended, builder.integers(0, 2, 1, 3))
        attended = ops.reshape(attended, shape, special_zero=False)
        return builder.linear(attended, f"{name}/linear_2"), queries

    def vocabulary_projection(self, count: int) -> Node:
        """Build the graph that computes token probabilities from hidden states.

        Inputs: hidden states (n, d_model), biases of the logits (1 or n, vocabulary), and a token
        for each hidden state (n, 1).
        Outputs: the logits of the `count` most probable tokens (n, count), their ids (n, count),
        the log of the summed exponentials of all logits (n, 1), and the given tokens' logits
        (n, 1).
        """
        ops, builder = self._ops, self._builder
        hidden = ops.parameter([-1, self.layout.d_model], np.float32)
        biases = ops.parameter([-1, -1], np.float32)
        tokens = ops.parameter([-1, 1], np.int64)
        embeddings = builder.weights("decoder/embeddings/weight")
        logits = ops.matmul(hidden, embeddings, transpose_a=False, transpose_b=True)
        logits = ops.add(logits, biases)
        top = ops.topk(logits, builder.integer(count), 1, "max", "value")
        max_logit = ops.reduce_max(logits, builder.integers(1), keep_dims=True)
        powers = ops.exp(ops.subtract(logits, max_logit))
        power_sum = ops.reduce_sum(powers, builder.integers(1), keep_dims=True)
        log_sum = ops.add(ops.log(power_sum), max_logit)
        token_logits = ops.gather_elements(logits, tokens, 1)
        outputs = (top.output(0), top.output(1), log_sum, token_logits)
        return self._openvino.Model(
            [ops.result(node) for node in outputs],
            [hidden, biases, tokens],
            "vocabulary_projection",
        )
