"""The three graphs of Whisper's decoder on OpenVINO: see openvino_decoder.py for how they meet."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from whisperbatch.engines.layout import Arrays
from whisperbatch.engines.openvino.graph import Graph, Node, Precision

FIRST_KEPT: Final = 3  # inputs of the body before keys and values, layer by layer


class Graphs:
    """The decoder's three graphs."""

    def __init__(
        self,
        arrays: Arrays,
        followed: Sequence[tuple[int, int]],
        precision: Precision,
        *,
        small: bool,
    ) -> None:
        import openvino  # noqa: PLC0415 - an extra

        self._ov = openvino
        self._ops = openvino.opset13
        self._graph = Graph(self._ops, arrays, "decoder", small=small)
        self.layout = self._graph.layout
        self.followed = followed
        self._kept = precision
        self._kept_type = openvino.Type.bf16 if precision == "bf16" else openvino.Type.f32

    def cross(self) -> Node:
        """Keys and values of all layers, from one row of encoder output."""
        ops, graph = self._ops, self._graph
        output = ops.parameter([1, -1, self.layout.d_model], np.float32)
        results = []
        for layer in range(self.layout.layers):
            stacked = graph.linear(output, f"decoder/layer_{layer}/attention/linear_1")
            keys, values = graph.by_head(stacked, 2)
            turned = ops.transpose(values, graph.constant(0, 1, 3, 2))
            results += [ops.result(ops.convert(node, self._kept)) for node in (keys, turned)]
        return self._ov.Model(results, [output], "cross")

    def body(self) -> Node:
        """The layers, for rows * beams sequences."""
        ops, graph = self._ops, self._graph
        hidden = ops.parameter([-1, -1, self.layout.d_model], np.float32)
        beam_idx = ops.parameter([-1], np.int32)
        mask = ops.parameter([1, 1, -1, -1], np.float32)
        inputs, assigned, asked = [hidden, beam_idx, mask], [], []
        shape = ops.shape_of(hidden)
        found = hidden
        for layer in range(self.layout.layers):
            name = f"decoder/layer_{layer}"
            keys = ops.parameter([-1, self.layout.heads, -1, self.layout.size], self._kept_type)
            values = ops.parameter([-1, self.layout.heads, self.layout.size, -1], self._kept_type)
            inputs += [keys, values]
            attended, states = self._self_attention(found, beam_idx, mask, layer)
            assigned += states
            found = ops.add(found, attended)
            attended, queries = self._cross_attention(found, keys, values, shape, name)
            found = ops.add(found, attended)
            if heads := [head for one, head in self.followed if one == layer]:
                asked.append(ops.gather(queries, graph.constant(*heads), graph.number(1)))
            found = graph.fed_forward(found, name)
        found = graph.normalised(found, "decoder/layer_norm")
        results = [ops.result(found), ops.result(ops.concat(asked, 1))]
        return self._ov.Model(results, assigned, inputs, "body")

    def _self_attention(
        self, hidden: Node, beam_idx: Node, mask: Node, layer: int
    ) -> tuple[Node, list[Node]]:
        """The pattern that OpenVINO knows as attention with a cache."""
        ops, graph = self._ops, self._graph
        name = f"decoder/layer_{layer}/self_attention"
        within = graph.normalised(hidden, f"{name}/layer_norm")
        queries, *new = graph.by_head(graph.linear(within, f"{name}/linear_0"), 3)
        count = ops.gather(ops.shape_of(hidden), graph.constant(0), graph.number(0))
        empty = ops.broadcast(
            ops.constant(np.float32(0)),
            ops.concat([count, graph.constant(self.layout.heads, 0, self.layout.size)], 0),
        )
        known, assigned = [], []
        for which, fresh in zip(("keys", "values"), new, strict=True):
            variable = self._variable(f"{which}_{layer}")
            past = ops.gather(ops.read_value(empty, variable), beam_idx, graph.number(0))
            whole = ops.concat([past, fresh], 2)
            assigned.append(ops.assign(whole, variable))
            known.append(whole)
        attended = ops.scaled_dot_product_attention(queries, *known, mask)
        return graph.linear(graph.together(attended), f"{name}/linear_1"), assigned

    def _variable(self, name: str) -> Node:
        from openvino.op.util import Variable, VariableInfo  # noqa: PLC0415 - an extra

        info = VariableInfo()
        info.data_shape = self._ov.PartialShape([-1, self.layout.heads, -1, self.layout.size])
        info.data_type = self._ov.Type.f32
        info.variable_id = name
        return Variable(info)

    def _cross_attention(
        self, hidden: Node, keys: Node, values: Node, shape: Node, name: str
    ) -> tuple[Node, Node]:
        """What is attended to, and the queries (rows, heads, beams, size).

        The beams of a row are as positions of one sequence: its keys and values are read once.
        """
        ops, graph = self._ops, self._graph
        within = graph.normalised(hidden, f"{name}/attention/layer_norm")
        queries = graph.linear(within, f"{name}/attention/linear_0")
        queries = ops.multiply(queries, ops.constant(np.float32(self.layout.size**-0.5)))
        rows = ops.gather(ops.shape_of(keys), graph.constant(0), graph.number(0))
        apart = ops.concat([rows, graph.constant(-1, self.layout.heads, self.layout.size)], 0)
        queries = ops.transpose(
            ops.reshape(queries, apart, special_zero=False), graph.constant(0, 2, 1, 3)
        )
        scores = ops.convert(
            ops.matmul(ops.convert(queries, self._kept), keys, transpose_a=False, transpose_b=True),
            "f32",
        )
        weights = ops.convert(ops.softmax(scores, -1), self._kept)
        attended = ops.matmul(weights, values, transpose_a=False, transpose_b=True)
        attended = ops.convert(attended, "f32")
        attended = ops.transpose(attended, graph.constant(0, 2, 1, 3))
        attended = ops.reshape(attended, shape, special_zero=False)
        return graph.linear(attended, f"{name}/attention/linear_2"), queries

    def words(self, count: int) -> Node:
        """The `count` likeliest tokens, their logits, log-sum-exp of all, and the logit of one."""
        ops, graph = self._ops, self._graph
        hidden = ops.parameter([-1, self.layout.d_model], np.float32)
        bias = ops.parameter([-1, -1], np.float32)  # of one row for all, or of each
        asked = ops.parameter([-1, 1], np.int64)
        logits = ops.matmul(
            hidden,
            graph.weights("decoder/embeddings/weight"),
            transpose_a=False,
            transpose_b=True,
        )
        logits = ops.add(logits, bias)
        top = ops.topk(logits, graph.number(count), 1, "max", "value")
        most = ops.reduce_max(logits, graph.constant(1), keep_dims=True)
        powers = ops.exp(ops.subtract(logits, most))
        total = ops.add(ops.log(ops.reduce_sum(powers, graph.constant(1), keep_dims=True)), most)
        one = ops.gather_elements(logits, asked, 1)
        outputs = (top.output(0), top.output(1), total, one)
        return self._ov.Model(
            [ops.result(node) for node in outputs], [hidden, bias, asked], "words"
        )
