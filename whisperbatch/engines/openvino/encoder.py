"""Whisper's encoder on OpenVINO, from CTranslate2's weights.

In bfloat16, on processors that support it, this encoder is both faster and closer to float32 than
CTranslate2's encoder in int8.

    features (1, n_mels, frames) -> convolution -> convolution, stride 2 -> + position encodings
             -> layers -> layer normalisation -> encoder output (1, frames / 2, d_model)

The rows of a batch are encoded one at a time: one row uses all cores, and its encoder output then
does not depend on the other rows of the batch.
"""

from queue import LifoQueue
from typing import Any

import numpy as np
import numpy.typing as npt

from whisperbatch.engines.layout import Arrays, Layout
from whisperbatch.engines.openvino.compiler import GraphCompiler
from whisperbatch.engines.openvino.graph import Node, NodeBuilder, Precision
from whisperbatch.errors import EngineError


class OpenVinoEncoder:
    """Whisper's encoder. Thread-safe; releases the GIL while it works.

    Args:
        compiler: compiles the graph.
        arrays: the arrays "encoder/..." of model.bin, as stored.
        precision: the precision to compute in.
        int8_weights: store the matrices in 8 bits.
    """

    def __init__(
        self,
        compiler: GraphCompiler,
        arrays: Arrays,
        *,
        precision: Precision,
        int8_weights: bool,
    ) -> None:
        self._d_model = Layout.from_arrays(arrays, "encoder").d_model
        compiled = compiler(
            "encoder", lambda: _encoder_graph(arrays, int8_weights=int8_weights), precision
        )
        # A request holds the memory of one row's activations. There is one for each worker, not
        # for each thread, because callers' threads come and go.
        self._requests: LifoQueue[Any] = LifoQueue()
        for _ in range(compiler.workers):
            self._requests.put(compiled.create_infer_request())

    def __call__(self, features: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Encode a batch.

        Args:
            features: shape (batch, n_mels, frames), frames an even number of at most 3000.

        Returns:
            Encoder output, shape (batch, frames / 2, d_model).
        """
        output = np.empty((len(features), features.shape[2] // 2, self._d_model), np.float32)
        request = self._requests.get()
        try:
            for number, row in enumerate(features):
                output[number] = request.infer({0: row[None]})[0][0]
        except RuntimeError as error:
            raise EngineError(f"OpenVINO: {error}") from error
        finally:
            self._requests.put(request)
        return output


def _encoder_graph(arrays: Arrays, *, int8_weights: bool) -> Node:
    import openvino  # noqa: PLC0415 - an extra

    ops = openvino.opset13
    builder = NodeBuilder(ops, arrays, "encoder", int8_weights=int8_weights)
    n_mels = arrays["encoder/conv1/weight"].shape[1]
    features = ops.parameter([1, n_mels, -1], np.float32, name="features")
    hidden = _convolution(builder, features, "encoder/conv1", stride=1)
    hidden = _convolution(builder, hidden, "encoder/conv2", stride=2)
    hidden = ops.transpose(hidden, builder.integers(0, 2, 1))  # (1, frames / 2, d_model)
    positions = builder.as_float32(arrays["encoder/position_encodings/encodings"])
    hidden = _add_positions(builder, positions, hidden)
    for layer in range(builder.layout.layers):
        name = f"encoder/layer_{layer}"
        normalised = builder.layer_norm(hidden, f"{name}/self_attention/layer_norm")
        projected = builder.linear(normalised, f"{name}/self_attention/linear_0")
        attended = ops.scaled_dot_product_attention(*builder.split_heads(projected, 3))
        attended = builder.linear(builder.merge_heads(attended), f"{name}/self_attention/linear_1")
        hidden = builder.feed_forward(ops.add(hidden, attended), name)
    hidden = builder.layer_norm(hidden, "encoder/layer_norm")
    return openvino.Model([ops.result(hidden)], [features], "encoder")


def _convolution(builder: NodeBuilder, hidden: Node, name: str, *, stride: int) -> Node:
    """Convolve (1, channels, frames) to (1, d_model, frames / stride), and apply GELU."""
    ops = builder.ops
    convolved = ops.convolution(hidden, builder.weights(f"{name}/weight"), [stride], [1], [1], [1])
    bias = ops.reshape(
        builder.weights(f"{name}/bias"), builder.integers(1, -1, 1), special_zero=False
    )
    return ops.gelu(ops.add(convolved, bias), "erf")


def _add_positions(builder: NodeBuilder, positions: Node, hidden: Node) -> Node:
    """Add the first position encodings to hidden states (1, length, d_model)."""
    ops = builder.ops
    length = ops.gather(ops.shape_of(hidden), builder.integers(1), builder.integer(0))
    first = ops.slice(
        positions,
        builder.integers(0),
        length,
        builder.integers(1),
        builder.integers(0),
    )
    return ops.add(hidden, first)
