"""Whisper's encoder on OpenVINO, from the same weights: the extra `openvino`.

In bfloat16, where the processor has it, it is both faster and nearer to float32 than CTranslate2's
encoder in int8.

    features (1, n_mels, frames) -> conv, conv / 2 -> + positions -> layers -> norm
             -> (1, frames / 2, d_model)

Rows go through one by one: a row fills the cores, and what becomes of it does not then depend on
the rows beside it.
"""

from queue import LifoQueue
from typing import Any

import numpy as np
import numpy.typing as npt

from whisperbatch.engines.layout import Arrays, Layout
from whisperbatch.engines.openvino.compiler import GraphCompiler
from whisperbatch.engines.openvino.graph import Graph, Node, Precision
from whisperbatch.errors import EngineError


class OpenVinoEncoder:
    """Whisper's encoder. Thread-safe; releases the GIL while it works.

    Args:
        compiler: makes graphs ready to run.
        arrays: "encoder/..." of model.bin, as stored.
        precision: to compute in.
        small: keep the matrices in eight bits.
    """

    def __init__(
        self,
        compiler: GraphCompiler,
        arrays: Arrays,
        *,
        precision: Precision,
        small: bool,
    ) -> None:
        self._d_model = Layout.of(arrays, "encoder").d_model
        made = compiler("encoder", lambda: _graph(arrays, small=small), precision)
        # each holds the memory of one row on its way: threads come and go, these stay
        self._requests: LifoQueue[Any] = LifoQueue()
        for _ in range(compiler.workers):
            self._requests.put(made.create_infer_request())

    def __call__(self, features: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Encoder output of each row.

        Args:
            features: shape (batch, n_mels, frames), frames an even number of at most 3000.

        Returns:
            Shape (batch, frames / 2, d_model).
        """
        found = np.empty((len(features), features.shape[2] // 2, self._d_model), np.float32)
        request = self._requests.get()
        try:
            for number, row in enumerate(features):
                found[number] = request.infer({0: row[None]})[0][0]
        except RuntimeError as error:
            raise EngineError(f"OpenVINO: {error}") from error
        finally:
            self._requests.put(request)
        return found


def _graph(arrays: Arrays, *, small: bool) -> Node:
    import openvino  # noqa: PLC0415 - an extra

    ops = openvino.opset13
    graph = Graph(ops, arrays, "encoder", small=small)
    n_mels = arrays["encoder/conv1/weight"].shape[1]
    features = ops.parameter([1, n_mels, -1], np.float32, name="features")
    hidden = _convolved(graph, features, "encoder/conv1", stride=1)
    hidden = _convolved(graph, hidden, "encoder/conv2", stride=2)
    positions = graph.plain(arrays["encoder/position_encodings/encodings"])
    hidden = _positioned(graph, positions, ops.transpose(hidden, graph.constant(0, 2, 1)))
    for layer in range(graph.layout.layers):
        name = f"encoder/layer_{layer}"
        within = graph.normalised(hidden, f"{name}/self_attention/layer_norm")
        stacked = graph.linear(within, f"{name}/self_attention/linear_0")
        attended = ops.scaled_dot_product_attention(*graph.by_head(stacked, 3))
        attended = graph.linear(graph.together(attended), f"{name}/self_attention/linear_1")
        hidden = graph.fed_forward(ops.add(hidden, attended), name)
    hidden = graph.normalised(hidden, "encoder/layer_norm")
    return openvino.Model([ops.result(hidden)], [features], "encoder")


def _convolved(graph: Graph, hidden: Node, name: str, *, stride: int) -> Node:
    """(1, channels, frames) to (1, d_model, frames / stride)."""
    ops = graph.ops
    found = ops.convolution(hidden, graph.weights(f"{name}/weight"), [stride], [1], [1], [1])
    bias = ops.reshape(graph.weights(f"{name}/bias"), graph.constant(1, -1, 1), special_zero=False)
    return ops.gelu(ops.add(found, bias), "erf")


def _positioned(graph: Graph, positions: Node, hidden: Node) -> Node:
    ops = graph.ops
    count = ops.gather(ops.shape_of(hidden), graph.constant(1), graph.number(0))
    first = ops.slice(
        positions,
        graph.constant(0),
        count,
        graph.constant(1),
        graph.constant(0),
    )
    return ops.add(hidden, first)
