"""The OpenVINO graphs of Whisper's encoder; encoder.py shows how they are connected.

Graphs are built node by node from the arrays of CTranslate2's model.bin, without an export or a
conversion of the model.
"""

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from whisperbatch.engines.arrays import LAYER_NORM_EPSILON, Arrays, Layout, stored_scales
from whisperbatch.runtimes.openvino_package import import_openvino

Node: TypeAlias = Any  # OpenVINO is imported only when it is used


class EncoderGraphs:
    """Builds the graphs of an encoder. Each encodes one row.

    Args:
        arrays: the arrays "encoder/..." of model.bin, as stored.
    """

    def __init__(self, arrays: Arrays) -> None:
        openvino = import_openvino()
        self._openvino, self._ops, self._arrays = openvino, openvino.opset13, arrays
        self._builder = NodeBuilder(self._ops, arrays)
        self.layout = self._builder.layout

    def whole(self) -> Node:
        """Build the encoder: features (1, n_mels, frames) to output (1, frames / 2, d_model)."""
        features = self._features()
        hidden = self._layers(self._embed(features), range(self.layout.layers))
        hidden = self._builder.layer_norm(hidden, "encoder/layer_norm")
        return self._model(hidden, [features], "encoder")

    def start(self) -> Node:
        """Build the part up to the first layer, after which similar positions are merged.

        Input: features (1, n_mels, frames).
        Output: hidden states (1, frames / 2, d_model).
        """
        features = self._features()
        hidden = self._layers(self._embed(features), range(1))
        return self._model(hidden, [features], "encoder_start")

    def end(self) -> Node:
        """Build the other layers; attention counts a group as often as it has positions.

        Inputs: hidden states (1, groups, d_model), and the natural log of the number of positions
        of each group (1, 1, 1, groups), which is added to the scores of the attention.
        Output: encoder output (1, groups, d_model).
        """
        merged = self._ops.parameter([1, -1, self.layout.d_model], np.float32)
        log_sizes = self._ops.parameter([1, 1, 1, -1], np.float32)
        hidden = self._layers(merged, range(1, self.layout.layers), log_sizes)
        hidden = self._builder.layer_norm(hidden, "encoder/layer_norm")
        return self._model(hidden, [merged, log_sizes], "encoder_end")

    def _model(self, output: Node, inputs: list[Node], name: str) -> Node:
        return self._openvino.Model([self._ops.result(output)], inputs, name)

    def _features(self) -> Node:
        n_mels = self._arrays["encoder/conv1/weight"].shape[1]
        return self._ops.parameter([1, n_mels, -1], np.float32, name="features")

    def _embed(self, features: Node) -> Node:
        """Convolve features to hidden states (1, frames / 2, d_model), and add their positions."""
        hidden = self._convolution(features, "encoder/conv1", stride=1)
        hidden = self._convolution(hidden, "encoder/conv2", stride=2)
        hidden = self._ops.transpose(hidden, self._builder.integers(0, 2, 1))
        encodings = self._arrays["encoder/position_encodings/encodings"]
        return self._add_positions(self._builder.as_float32(encodings), hidden)

    def _layers(self, hidden: Node, layers: range, log_sizes: Node | None = None) -> Node:
        """Apply layers to hidden states (1, length, d_model)."""
        ops, builder = self._ops, self._builder
        mask = [] if log_sizes is None else [log_sizes]
        for layer in layers:
            name = f"encoder/layer_{layer}"
            normalised = builder.layer_norm(hidden, f"{name}/self_attention/layer_norm")
            projected = builder.linear(normalised, f"{name}/self_attention/linear_0")
            attended = ops.scaled_dot_product_attention(*builder.split_heads(projected), *mask)
            attended = builder.merge_heads(attended)
            attended = builder.linear(attended, f"{name}/self_attention/linear_1")
            hidden = builder.feed_forward(ops.add(hidden, attended), name)
        return hidden

    def _convolution(self, hidden: Node, name: str, *, stride: int) -> Node:
        """Convolve (1, channels, frames) to (1, d_model, frames / stride), and apply GELU."""
        ops, builder = self._ops, self._builder
        weights = builder.weights(f"{name}/weight")
        convolved = ops.convolution(hidden, weights, [stride], [1], [1], [1])
        bias = ops.reshape(
            builder.weights(f"{name}/bias"), builder.integers(1, -1, 1), special_zero=False
        )
        return ops.gelu(ops.add(convolved, bias), "erf")

    def _add_positions(self, positions: Node, hidden: Node) -> Node:
        """Add the first position encodings to hidden states (1, length, d_model)."""
        ops, builder = self._ops, self._builder
        length = ops.gather(ops.shape_of(hidden), builder.integers(1), builder.integer(0))
        first = ops.slice(
            positions,
            builder.integers(0),
            length,
            builder.integers(1),
            builder.integers(0),
        )
        return ops.add(hidden, first)


class NodeBuilder:
    """Builds the nodes of a graph.

    Args:
        ops: the module `openvino.opset13`.
        arrays: the model's arrays, by CTranslate2's names.
    """

    def __init__(self, ops: Any, arrays: Arrays) -> None:  # noqa: ANN401 - a module
        self.ops, self._arrays = ops, arrays
        self.layout = Layout.from_arrays(arrays, "encoder")

    def integers(self, *values: int) -> Node:
        """Return a constant vector of integers."""
        return self.ops.constant(np.array(values, np.int64))

    def integer(self, value: int) -> Node:
        """Return a constant integer."""
        return self.ops.constant(np.int64(value))

    def weights(self, name: str) -> Node:
        """Return an array in float32, stored as in model.bin."""
        array = self.as_float32(self._arrays[name])
        scales = stored_scales(self._arrays, name)
        return array if scales is None else self.ops.multiply(array, self.ops.constant(scales))

    def as_float32(self, array: npt.NDArray[Any]) -> Node:
        """Return an array that is stored in its own type, converted to float32."""
        return self.ops.convert(self.ops.constant(np.ascontiguousarray(array)), "f32")

    def linear(self, hidden: Node, name: str) -> Node:
        """Apply a linear layer: (..., in) to (..., out)."""
        product = self.ops.matmul(
            hidden, self.weights(f"{name}/weight"), transpose_a=False, transpose_b=True
        )
        return self.ops.add(product, self.weights(f"{name}/bias"))

    def layer_norm(self, hidden: Node, name: str) -> Node:
        """Apply layer normalisation."""
        normalised = self.ops.mvn(
            hidden,
            self.integers(-1),
            normalize_variance=True,
            eps=LAYER_NORM_EPSILON,
            eps_mode="inside_sqrt",
        )
        scaled = self.ops.multiply(normalised, self.weights(f"{name}/gamma"))
        return self.ops.add(scaled, self.weights(f"{name}/beta"))

    def feed_forward(self, hidden: Node, name: str) -> Node:
        """Apply the feed-forward half of a layer, with its residual connection."""
        inner = self.layer_norm(hidden, f"{name}/ffn/layer_norm")
        inner = self.ops.gelu(self.linear(inner, f"{name}/ffn/linear_0"), "erf")
        return self.ops.add(hidden, self.linear(inner, f"{name}/ffn/linear_1"))

    def split_heads(self, hidden: Node) -> tuple[Node, ...]:
        """Split the output of a linear layer into queries, keys and values of each head.

        Args:
            hidden: shape (rows, length, 3 * d_model). Queries, keys and values are computed by one
                matrix.

        Returns:
            Three nodes of shape (rows, heads, length, head_size).
        """
        shape = self.integers(0, 0, 3 * self.layout.heads, self.layout.head_size)
        heads = self.ops.transpose(
            self.ops.reshape(hidden, shape, special_zero=True), self.integers(0, 2, 1, 3)
        )
        return tuple(self.ops.split(heads, self.integer(1), 3).outputs())

    def merge_heads(self, attended: Node) -> Node:
        """Reshape (rows, heads, length, head_size) to (rows, length, d_model)."""
        transposed = self.ops.transpose(attended, self.integers(0, 2, 1, 3))
        shape = self.integers(0, 0, self.layout.d_model)
        return self.ops.reshape(transposed, shape, special_zero=True)
