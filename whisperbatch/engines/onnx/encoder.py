"""Whisper's encoder on a CPU.

    features (1, n_mels, frames) -> convolution -> convolution, stride 2 -> + position encodings
             -> layers -> layer normalisation -> encoder output (1, frames / 2, d_model)

The rows of a batch are encoded one at a time: one row uses all cores, and its encoder output then
does not depend on the other rows of the batch.

Similar neighbouring positions can be merged after the first layer, so that the other layers and the
decoder compute less. The encoder then consists of two graphs, and its output has a state for each
group. A noisy row (features/measures.py) keeps all positions.

    features -> convolutions, first layer -> merge_positions -> other layers -> (1, groups, d_model)

    positions   0  1  2  3  4  5  6  7      a hidden state for every 20 ms
    groups      0  0  0  1  2  2  3  4      similar neighbours become one group with one state

Vowels and silence last longer than 20 ms, so that neighbouring hidden states are often alike. The
state of a group is the mean of its positions, and attention counts a group as often as it has
positions: log(size) is added to the scores of its key (token merging: Bolya et al. 2022).

ONNX Runtime computes the graphs of this file; openvino_graphs.py has others.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from math import ceil
from queue import LifoQueue
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from whisperbatch.engines.arrays import Arrays
from whisperbatch.engines.onnx.graph import NodeBuilder, Session
from whisperbatch.engines.search import Floats, Integers
from whisperbatch.features.measures import share_to_keep
from whisperbatch.runtimes.onnx_graph import MICROSOFT, Port

MAX_GROUP_SIZE: Final = 8
"""Encoder positions in a group: at most 160 ms, as long as a short syllable."""

MIN_SHARE: Final = 2 / MAX_GROUP_SIZE
"""The smallest share of the positions that can be reached in every row: if no two neighbours fit
into one group, the groups have more than `MAX_GROUP_SIZE` / 2 positions on average."""

FAST_MULTIPLE: Final = 64
"""With a multiple of this number of groups, a processor with AMX computes an encoder layer in 0.89
of the time."""

MAX_ROUNDING: Final = 0.03
"""The largest change of the number of groups for the sake of speed, as a share."""

MIN_VARIANCE: Final = 1e-5  # prevents a division by zero; as in Whisper's layer normalisation
MAX_DISTANCE: Final = 1e30  # of states that are not numbers, because the weights are damaged


@dataclass(frozen=True, slots=True, eq=False)
class Merged:
    """The hidden states of one row, merged to groups.

    Attributes:
        states: the mean state of each group, shape (groups, d_model).
        sizes: number of encoder positions of each group, shape (groups,). A group is a run of
            adjacent positions, and the groups are in the order of their positions.
    """

    states: Floats
    sizes: Integers


def log_sizes(sizes: Integers) -> Floats:
    """Return the natural log of the sizes of groups, which is added to the scores of their keys."""
    logs: Floats = np.log(sizes).astype(np.float32)
    return logs


def group_count(positions: int, share: float) -> int:
    """Return the number of groups to which a row is merged.

    Args:
        positions: number of encoder positions of the row.
        share: groups / positions, from `MIN_SHARE` to 1.

    Returns:
        The number for this share, or the nearest multiple of `FAST_MULTIPLE`, if this differs by at
        most `MAX_ROUNDING`. All positions for a share of 1.
    """
    count = ceil(positions * share - 1e-6)  # 0.55 * 1500 is 825.0000000000001
    multiple = round(count / FAST_MULTIPLE) * FAST_MULTIPLE
    is_possible = MIN_SHARE * positions <= multiple <= positions and count < positions
    return multiple if is_possible and abs(multiple - count) <= MAX_ROUNDING * count else count


def merge_positions(states: Floats, count: int) -> Merged:
    """Merge adjacent hidden states until `count` groups are left, the most similar first.

    The distance of two neighbouring groups is the Euclidean distance of their mean states after
    layer normalisation. Of equally near pairs, the first is merged. Pairs are merged in rounds: see
    `_nearest_pairs`. For 12 rows of speech, music and noise, the groups were exactly those of
    merging one pair after another. 1,500 states of 512 numbers take 2 ms instead of 10 ms.

    The cosine of the angle between two states, after the mean of the row was subtracted, is a worse
    measure: states of silence are near the mean of a row with much silence, so that their angles
    are random, and speech was merged before silence. Of 5 s of speech in a window of 30 s, it left
    43 % of the positions when 50 % of all were kept; the distance left 82 %. In 34 rows of 30 s,
    the text without merging lost 0.047 of its mean log-probability per token, and 0.035 with the
    distance (keys and values of the next layer instead of its input: 0.09 to 0.7).

    The result depends on nothing but `states`.

    Args:
        states: hidden states of one row, shape (positions, d_model).
        count: from `MIN_SHARE` * positions to positions.
    """
    positions = len(states)
    if not MIN_SHARE * positions <= count <= positions:
        raise ValueError(f"{positions} positions cannot be merged to {count} groups")
    firsts = np.arange(positions)  # the first position of each group
    sizes: Integers = np.ones(positions, np.int64)
    if count == positions:
        return Merged(states, sizes)
    with np.errstate(invalid="ignore", over="ignore"):  # weights that are damaged
        squares = _squared_sums(_layer_norm(states))
        while (surplus := len(firsts) - count) > 0:
            is_kept = np.ones(len(firsts), bool)
            is_kept[1 + _nearest_pairs(_distances(squares, firsts, sizes), surplus)] = False
            firsts = firsts[is_kept]
            sizes = np.diff(firsts, append=positions)
        return Merged(_means(states, firsts, sizes), sizes)


def _layer_norm(states: Floats) -> Floats:
    """Return states with mean 0 and variance 1, as the next layer reads them."""
    normalised: Floats = states - states.mean(axis=1, keepdims=True)
    variances = np.einsum("ij,ij->i", normalised, normalised) / states.shape[1]
    normalised /= np.sqrt(np.maximum(variances, MIN_VARIANCE))[:, None]
    return normalised


def _means(states: Floats, firsts: Integers, sizes: Integers) -> Floats:
    """Return the mean state of each group. `np.add.reduceat` takes four times as long."""
    means = states[firsts]
    for offset in range(1, sizes.max()):
        larger = np.flatnonzero(sizes > offset)
        means[larger] += states[firsts[larger] + offset]
    means /= sizes[:, None].astype(np.float32)
    return means


def _squared_sums(states: Floats) -> npt.NDArray[np.float64]:
    """Return the squared lengths of the sums of adjacent states.

    Args:
        states: shape (positions, d_model).

    Returns:
        Shape (`MAX_GROUP_SIZE` + 1, positions): at [size, first], the squared length of the sum of
        `size` states from the position `first` on; undefined beyond the last position.
    """
    count = len(states)
    squares = np.zeros((MAX_GROUP_SIZE + 1, count))
    squares[1] = np.einsum("ij,ij->i", states, states)
    for size in range(2, min(MAX_GROUP_SIZE, count) + 1):
        # all products of two states of the run are in the run without its last or first state,
        # except the two products of the first state and the last
        end = count - size + 1
        products = np.einsum("ij,ij->i", states[:end], states[size - 1 :])
        squares[size, :end] = squares[size - 1, :end] + squares[size - 1, 1 : end + 1]
        squares[size, :end] += 2 * products - squares[size - 2, 1 : end + 1]
    return squares


def _distances(
    squares: npt.NDArray[np.float64], firsts: Integers, sizes: Integers
) -> npt.NDArray[np.float64]:
    """Return the squared distance of the mean states of each group and the next group.

    Returns:
        Shape (groups - 1,): infinity for a pair that is too large, and for a pair whose states are
        not numbers, `MAX_DISTANCE`.
    """
    left, right = sizes[:-1], sizes[1:]
    fits = left + right <= MAX_GROUP_SIZE
    norms = squares[sizes, firsts]
    products = (squares[(left + right) * fits, firsts[:-1]] - norms[:-1] - norms[1:]) / 2
    distances = norms[:-1] / left**2 + norms[1:] / right**2 - 2 * products / (left * right)
    return np.where(fits, np.fmin(distances, MAX_DISTANCE), np.inf)  # fmin replaces NaN


def _nearest_pairs(distances: npt.NDArray[np.float64], surplus: int) -> Integers:
    """Return the pairs that are merged in one round: at least 1, at most `surplus`.

    They are among the `surplus` nearest pairs, and nearer than the pairs beside them. Therefore no
    two of them have a group in common.

    Args:
        distances: of all pairs, shape (groups - 1,).
        surplus: number of pairs that must still be merged.
    """
    farthest = np.partition(distances, surplus - 1)[surplus - 1]
    is_nearest = (distances <= farthest) & (distances < np.inf)
    is_nearest[1:] &= distances[1:] < distances[:-1]
    is_nearest[:-1] &= distances[:-1] <= distances[1:]
    return np.flatnonzero(is_nearest)[:surplus]  # more pairs only if several are equally near


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
