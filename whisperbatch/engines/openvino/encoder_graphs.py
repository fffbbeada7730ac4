"""The OpenVINO graphs of Whisper's encoder; encoder.py shows how they are connected."""

import numpy as np

from whisperbatch.engines.layout import Arrays
from whisperbatch.engines.openvino.graph import Node, NodeBuilder
from whisperbatch.runtimes.openvino_package import import_openvino


class EncoderGraphs:
    """Builds the graphs of an encoder.

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
