"""Whisper's encoder on a CPU.

    features (1, n_mels, frames) -> convolution -> convolution, stride 2 -> + position encodings
             -> layers -> layer normalisation -> encoder output (1, frames / 2, d_model)

Similar neighbouring positions can be merged after the first layer (frame_merging.py). The encoder
then consists of two graphs, and its output has a state for each group:

    features -> convolutions, first layer -> merge_positions -> other layers -> (1, groups, d_model)

A noisy row (features/measures.py) keeps all positions.

The rows of a batch are encoded one at a time: one row uses all cores, and its encoder output then
does not depend on the other rows of the batch.

ONNX Runtime computes the graphs of this file; openvino_encoder.py has others.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from queue import LifoQueue
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from whisperbatch.engines.arrays import Arrays
from whisperbatch.engines.onnx.frame_merging import Merged, group_count, log_sizes, merge_positions
from whisperbatch.engines.onnx.graph import NodeBuilder, Session
from whisperbatch.engines.search.hypotheses import Floats, Integers
from whisperbatch.features.measures import share_to_keep
from whisperbatch.runtimes.onnx_graph import MICROSOFT, Port

FEATURES: Final = "features"
STATES: Final = "states"
LOG_SIZES: Final = "log_sizes"


@dataclass(frozen=True, slots=True, eq=False)
class EncoderOutput:
    """The encoder output of a batch. See `protocols.Encoded`.

    Attributes:
        states: of each row, shape (positions, d_model), or, if the encoder merges similar
            positions, (groups, d_model).
        sizes: of each row, number of positions of each group, shape (groups,); None if the encoder
            does not merge positions.
    """

    states: tuple[Floats, ...]
    sizes: tuple[Integers, ...] | None = None

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self.states)

    def select(self, rows: Sequence[int]) -> "EncoderOutput":
        """Return some rows as a batch."""
        sizes = None if self.sizes is None else tuple(self.sizes[row] for row in rows)
        return EncoderOutput(tuple(self.states[row] for row in rows), sizes)

    def split(self) -> list["EncoderOutput"]:
        """Return each row."""
        return [self.select([row]) for row in range(self.rows)]

    @classmethod
    def join(cls, outputs: Sequence["EncoderOutput"]) -> "EncoderOutput":
        """Return several outputs of one model, of windows of one length, as one batch."""
        states = tuple(states for output in outputs for states in output.states)
        sizes = [output.sizes for output in outputs if output.sizes is not None]
        return cls(states, tuple(size for row in sizes for size in row) if sizes else None)

    def rows_by_length(self) -> list[list[int]]:
        """Return the rows with the same number of states, which can be decoded together.

        Noisy rows keep all positions. Rows are not padded to one number of states, because a row's
        result depends in its last digit on the number of columns that its attention has.
        """
        rows: dict[int, list[int]] = defaultdict(list)
        for row, states in enumerate(self.states):
            rows[len(states)].append(row)
        return list(rows.values())

    def by_position(self) -> Floats:
        """Return a state for each position, shape (rows, positions, d_model).

        Attention to the repeated states of a group is equal to attention to the group.
        """
        if self.sizes is None:
            return np.stack(self.states)
        rows = zip(self.states, self.sizes, strict=True)
        return np.stack([np.repeat(states, sizes, axis=0) for states, sizes in rows])

    def groups(self, row: int) -> Integers | None:
        """Return the number of the group of each position of a row; None without groups."""
        if self.sizes is None:
            return None
        return np.repeat(np.arange(len(self.sizes[row])), self.sizes[row])


class EncoderRunner(Protocol):
    """Computes the encoder for one row. One thread at a time uses an object.

    Features have shape (n_mels, frames), states (positions or groups, d_model).
    """

    def whole(self, features: Floats) -> Floats:
        """Return the encoder output of features."""

    def start(self, features: Floats) -> Floats:
        """Return the hidden states after the first layer, after which positions are merged."""

    def end(self, states: Floats, log_sizes: Floats) -> Floats:
        """Return the encoder output of merged hidden states.

        Args:
            states: of groups of positions, shape (groups, d_model).
            log_sizes: natural log of the number of positions of each group, shape (groups,).
        """


class Encoder:
    """Whisper's encoder. Thread-safe; releases the GIL while it works.

    Args:
        runners: one for each worker. Their memory holds the activations of one row.
        kept_frames: the share of the positions of a clear row that are left after similar
            positions are merged.
    """

    def __init__(self, runners: Iterable[EncoderRunner], kept_frames: float) -> None:
        self._kept_frames = kept_frames
        self._free_runners: LifoQueue[EncoderRunner] = LifoQueue()
        for runner in runners:
            self._free_runners.put(runner)

    def __call__(self, features: npt.NDArray[np.float32]) -> EncoderOutput:
        """Encode a batch.

        Args:
            features: shape (batch, n_mels, frames), frames an even number of at most 3000.
        """
        runner = self._free_runners.get()
        try:
            if self._kept_frames == 1:
                return EncoderOutput(tuple(runner.whole(row).copy() for row in features))
            rows = [self._merged(runner, row) for row in features]
        finally:
            self._free_runners.put(runner)
        return EncoderOutput(tuple(row.states for row in rows), tuple(row.sizes for row in rows))

    def _merged(self, runner: EncoderRunner, features: Floats) -> Merged:
        """Encode one row of features (n_mels, frames), and merge its similar positions."""
        hidden = runner.start(features)
        share = share_to_keep(features, self._kept_frames)
        merged = merge_positions(hidden, group_count(len(hidden), share))
        states = runner.end(merged.states, log_sizes(merged.sizes))
        return Merged(states.copy(), merged.sizes)


class OnnxEncoder:
    """Computes the encoder on ONNX Runtime. See `EncoderRunner`. Thread-safe.

    Args:
        arrays: the arrays "encoder/..." of model.bin, as stored.
        levels: the largest level of a computed second factor of a product.
        threads: number of threads that compute a row.
        merged: similar positions are merged.

    Raises:
        RuntimeError: onnxruntime cannot load the graphs.
    """

    def __init__(self, arrays: Arrays, *, levels: int, threads: int, merged: bool) -> None:
        graphs = EncoderGraphs(arrays, levels)
        build = graphs.start if merged else graphs.whole
        # The large results of each operator (6 MB) would be new pages of memory: 6 % of the time.
        load = partial(Session, "the encoder", threads=threads, keep_memory=True)
        self._first = load(build())
        self._end = load(graphs.end()) if merged else self._first

    def whole(self, features: Floats) -> Floats:
        """See `EncoderRunner`."""
        return self._first({FEATURES: features[None]})[0]

    start = whole  # another graph

    def end(self, states: Floats, log_sizes: Floats) -> Floats:
        """See `EncoderRunner`."""
        return self._end({STATES: states, LOG_SIZES: log_sizes})[0]


class EncoderGraphs:
    """Builds the graphs of an encoder, as the content of .onnx files. Each encodes one row.

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
