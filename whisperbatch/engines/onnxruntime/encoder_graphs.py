"""The ONNX graphs of Whisper's encoder. Each encodes one row."""

from typing import Final

import numpy as np

from whisperbatch.engines.layout import Arrays
from whisperbatch.engines.onnxruntime.graph import NodeBuilder
from whisperbatch.runtimes.onnx_graph import MICROSOFT, Port

FEATURES: Final = "features"
STATES: Final = "states"
LOG_SIZES: Final = "log_sizes"


class EncoderGraphs:
    """Builds the graphs of an encoder, as the content of .onnx files.

    Args:
        arrays: the arrays "encoder/..." of model.bin, as stored.
        levels: the largest level of a computed second factor of a product.
    """

    def __init__(self, arrays: Arrays, levels: int) -> None:
        self._arrays, self._levels = arrays, levels

    def whole(self) -> bytes:
        """Build the encoder: features (1, n_mels, frames) to output (frames / 2, d_model)."""
        builder = self._builder()
        hidden = _layers(builder, self._embed(builder), range(builder.layout.layers))
        hidden = builder.layer_norm(hidden, "encoder/layer_norm")
        return self._finish(builder, "encoder", [self._features()], hidden)

    def start(self) -> bytes:
        """Build the part up to the first layer, after which similar positions are merged.

        Input: features (1, n_mels, frames).
        Output: hidden states (frames / 2, d_model).
        """
        builder = self._builder()
        hidden = _layers(builder, self._embed(builder), range(1))
        return self._finish(builder, "encoder_start", [self._features()], hidden)

    def end(self) -> bytes:
        """Build the other layers; attention counts a group as often as it has positions.

        Inputs: hidden states (groups, d_model), and the natural log of the number of positions of
        each group (groups,).
        Output: encoder output (groups, d_model).
        """
        builder = self._builder()
        hidden = _layers(builder, STATES, range(1, builder.layout.layers), LOG_SIZES)
        hidden = builder.layer_norm(hidden, "encoder/layer_norm")
        inputs = [Port(STATES, ("groups", builder.layout.d_model)), Port(LOG_SIZES, ("groups",))]
        return self._finish(builder, "encoder_end", inputs, hidden)

    def _builder(self) -> NodeBuilder:
        return NodeBuilder(self._arrays, "encoder", self._levels)

    def _finish(self, builder: NodeBuilder, name: str, inputs: list[Port], output: str) -> bytes:
        result = Port(output, ("positions", builder.layout.d_model))
        return builder.graph.finish(name, inputs, [result])

    def _features(self) -> Port:
        n_mels = self._arrays["encoder/conv1/weight"].shape[1]
        return Port(FEATURES, (1, n_mels, "frames"))

    def _embed(self, builder: NodeBuilder) -> str:
        """Convolve features to hidden states (frames / 2, d_model), and add their positions."""
        graph = builder.graph
        hidden = _convolution(builder, FEATURES, "encoder/conv1", stride=1)
        hidden = _convolution(builder, hidden, "encoder/conv2", stride=2)
        hidden = graph.add("Transpose", hidden, perm=[0, 2, 1])
        hidden = graph.add("Squeeze", hidden, graph.integers(0))
        encodings = builder.weights("encoder/position_encodings/encodings")
        bounds = graph.integers(0), graph.size(hidden, 0), graph.integers(0)
        return graph.add("Add", hidden, graph.add("Slice", encodings, *bounds))


def _convolution(builder: NodeBuilder, hidden: str, name: str, *, stride: int) -> str:
    """Convolve (1, channels, frames) to (1, d_model, frames / stride), and apply GELU."""
    convolved = builder.graph.add(
        "Conv",
        hidden,
        builder.weights(f"{name}/weight"),
        builder.weights(f"{name}/bias"),
        strides=[stride],
        pads=[1, 1],
    )
    return builder.gelu(convolved)


def _layers(builder: NodeBuilder, hidden: str, layers: range, log_sizes: str | None = None) -> str:
    """Apply layers to hidden states (length, d_model)."""
    for layer in layers:
        name = f"encoder/layer_{layer}"
        normalised = builder.layer_norm(hidden, f"{name}/self_attention/layer_norm")
        projected = builder.linear(normalised, f"{name}/self_attention/linear_0")
        attended = _attention(builder, projected, log_sizes)
        attended = builder.linear(attended, f"{name}/self_attention/linear_1")
        hidden = builder.feed_forward(builder.graph.add("Add", hidden, attended), name)
    return hidden


def _attention(builder: NodeBuilder, projected: str, log_sizes: str | None) -> str:
    """Attend to all positions of the row.

    onnxruntime computes attention block by block, without a matrix of all scores, but only if
    nothing is added to the scores. So the log of a group's size is one more number of its key, and
    each query has a 1 in this place.

    Args:
        builder: of the graph.
        projected: queries, keys and values, shape (length, 3 * d_model).
        log_sizes: to be added to the scores of each key, shape (length,).

    Returns:
        Shape (length, d_model).
    """
    graph, layout = builder.graph, builder.layout
    scale = layout.head_size**-0.5
    sizes = graph.integers(*[layout.d_model] * 3)
    queries, keys, values = graph.add_many("Split", 3, projected, sizes, axis=1)
    if log_sizes is not None:
        by_head = graph.integers(-1, layout.heads, layout.head_size)
        one_more = graph.integers(0, 0, 0, 0, 0, 1)
        queries = graph.add("Reshape", queries, by_head)
        queries = graph.add("Pad", queries, one_more, graph.constant(np.float32(1)))
        biases = graph.add("Mul", log_sizes, graph.constant(np.float32(1 / scale)))
        biases = graph.add("Reshape", biases, graph.integers(-1, 1, 1))
        biases = graph.add("Expand", biases, graph.integers(1, layout.heads, 1))
        keys = graph.add("Concat", graph.add("Reshape", keys, by_head), biases, axis=2)
        together = graph.integers(-1, layout.heads * (layout.head_size + 1))
        queries, keys = (graph.add("Reshape", heads, together) for heads in (queries, keys))
    row = graph.integers(0)
    queries, keys, values = (graph.add("Unsqueeze", x, row) for x in (queries, keys, values))
    attended = graph.add(
        "MultiHeadAttention",
        queries,
        keys,
        values,
        domain=MICROSOFT,
        num_heads=layout.heads,
        scale=scale,
    )
    return graph.add("Squeeze", attended, row)
