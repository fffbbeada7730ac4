"""The segmentation network as an ONNX graph: pyannote's segmentation-3.0.

    (windows + 2, 1, 53620) samples: blocks of consecutive windows
      -> SincNet    80 band-pass filters, every 10 samples; two convolutions; each followed by
                    max-pooling by 3 and instance normalisation: (windows, 60, 589)
      -> LSTM       4 bidirectional layers of 2 x 128: (589, windows, 256)
      -> linear     2 layers of 128, and one of 7
      -> (windows, 589, 7) logarithms of the probabilities of the classes {}, {1}, {2}, {3}, {1, 2},
                    {1, 3}, {2, 3}: which of up to three local speakers speak

A window of 10 s begins 3.3 s after the last, so three windows contain most samples. The filters are
a third of the work and see each block once:

    window 0   [block 0 |block 1 |block 2]
    window 1            [block 1 |block 2 |block 3]

The network normalises the samples of a window before the filters: z = factor * (x - mean) + bias.
Filtering is linear, so the normalisation can follow: a filter w gives
factor * (w * x + shift) with shift = sum(w) * (bias / factor - mean). The largest magnitude of
three neighbouring results is factor * max(high + shift, low - shift), where high and low are the
largest values of w * x and of -w * x.

Sources: Ravanelli and Bengio, Speaker recognition from raw waveform with SincNet
(https://arxiv.org/abs/1808.00158); its odd filters: Pariente et al., Filterbank design for
end-to-end speech separation (https://arxiv.org/abs/1910.10400); the network and its classes:
Plaquet and Bredin, Powerset multi-class cross entropy loss for neural speaker diarization
(https://arxiv.org/abs/2310.13025).
"""

from typing import Final

import numpy as np
import numpy.typing as npt

from whisperbatch.diarization.networks.graph import Arrays, GraphBuilder
from whisperbatch.diarization.segmentation import FRAMES, STEP, WINDOW_SAMPLES
from whisperbatch.runtimes.onnx_graph import Port
from whisperbatch.types import SAMPLING_RATE

CLASSES: Final = 7

SHARED: Final = WINDOW_SAMPLES // STEP - 1  # blocks that a window shares with the next
BLOCK: Final = (
    WINDOW_SAMPLES - SHARED * STEP
)  # samples; a block begins `STEP` samples after the last

FILTERS: Final = 40  # bands; each has an even and an odd filter
FILTER_LENGTH: Final = 251  # samples
FILTER_STEP: Final = 10  # samples
MIN_LOW: Final = 50.0  # Hz: lowest edge of a band
MIN_BAND: Final = 50.0  # Hz: smallest width of a band
CHANNELS: Final = 60  # of the other convolutions
KERNEL: Final = 5  # of the other convolutions
POOL: Final = 3  # frames

HIDDEN: Final = 128  # of each direction of the LSTM, and of the linear layers
LAYERS: Final = 4  # of the LSTM
GATES: Final = (0, 3, 1, 2)
"""PyTorch has the gates in the order input, forget, cell, output; ONNX input, output, forget, cell.
"""

EPSILON: Final = 1e-5  # of the instance normalisation; PyTorch's default
SLOPE: Final = 0.01  # of the leaky ReLU; PyTorch's default
END: Final = np.iinfo(np.int64).max  # of an axis


def segmentation_graph(arrays: Arrays) -> bytes:
    """Return the network as the content of an .onnx file.

    Args:
        arrays: by the names of pyannote's PyanNet.

    Raises:
        MissingExtraError: the package onnx is not installed.
        ModelError: an array is missing or has another shape.
    """
    graph = GraphBuilder(arrays)
    x = _sincnet(graph, "blocks")
    x = graph.add("Transpose", x, perm=[2, 0, 1])  # (589, windows, 60)
    for layer in range(LAYERS):
        x = _lstm(graph, x, layer)
    for name, inputs in (("linear.0", 2 * HIDDEN), ("linear.1", HIDDEN)):
        x = _linear(graph, x, name, (HIDDEN, inputs))
        x = graph.add("LeakyRelu", x, alpha=SLOPE)
    x = _linear(graph, x, "classifier", (CLASSES, HIDDEN))
    x = graph.add("Transpose", x, perm=[1, 0, 2])
    x = graph.add("LogSoftmax", x, axis=-1)
    return graph.finish(
        "segmentation",
        [Port("blocks", ("blocks", 1, BLOCK))],
        [Port(x, ("windows", FRAMES, CLASSES))],
    )


def sinc_filters(
    low: npt.NDArray[np.float64], band: npt.NDArray[np.float64], window: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """Return the band-pass filters of SincNet, shape (80, 251): 40 even, then 40 odd.

    The response of the ideal band-pass filter from f1 to f2, relative to its peak, is the mean of
    cos(2 pi f t) over the frequencies f1 to f2. The odd filter is the mean of sin(2 pi f t).

    Args:
        low: learned lower edges in Hz, less the smallest edge; shape (40,).
        band: learned widths in Hz, less the smallest width; shape (40,).
        window: left half of the window, shape (125,).
    """
    low_edge = np.float32(MIN_LOW) + np.abs(low.astype(np.float32))[:, None]
    width = np.float32(MIN_BAND) + np.abs(band.astype(np.float32))[:, None]
    high_edge = np.clip(low_edge + width, MIN_LOW, SAMPLING_RATE / 2).astype(np.float32)
    times = np.arange(1, FILTER_LENGTH // 2 + 1, dtype=np.float32) / np.float32(SAMPLING_RATE)
    # The network was trained with angles in single precision: their rounding error of up to 1e-5
    # radian changes the logarithms of the probabilities by up to 1e-3.
    radians = (2 * np.pi * times).astype(np.float32)  # per Hz
    low_angle, high_angle = ((edge * radians).astype(np.float64) for edge in (low_edge, high_edge))
    scale = window[::-1] / (radians.astype(np.float64) * (high_edge - low_edge))
    even = scale * (np.sin(high_angle) - np.sin(low_angle))  # right half
    odd = scale * (np.cos(low_angle) - np.cos(high_angle))
    centre = np.ones((len(low), 1))
    return np.concatenate(
        [
            np.concatenate([even[:, ::-1], centre, even], axis=1),
            np.concatenate([-odd[:, ::-1], 0 * centre, odd], axis=1),
        ]
    )


def _sincnet(graph: GraphBuilder, blocks: str) -> str:
    """Samples (windows + 2, 1, 53620) -> (windows, 60, 589)."""
    x = _filter(graph, blocks)
    channels = 2 * FILTERS
    for layer in range(3):
        if layer:
            name = f"sincnet.conv1d.{layer}"
            kernel = graph.constant(graph.weights(f"{name}.weight", CHANNELS, channels, KERNEL))
            bias = graph.constant(graph.weights(f"{name}.bias", CHANNELS))
            x = _pool(graph, graph.add("Conv", x, kernel, bias))
            channels = CHANNELS
        x = _normalise(graph, x, f"sincnet.norm1d.{layer}", channels)
        x = graph.add("LeakyRelu", x, alpha=SLOPE)
    return x


def _filter(graph: GraphBuilder, blocks: str) -> str:
    """Samples (windows + 2, 1, 53620) -> pooled magnitudes of the filters (windows, 80, 5325)."""
    bank = "sincnet.conv1d.0.filterbank"
    filters = sinc_filters(
        graph.weights(f"{bank}.low_hz_", FILTERS, 1)[:, 0],
        graph.weights(f"{bank}.band_hz_", FILTERS, 1)[:, 0],
        graph.weights(f"{bank}.window_", FILTER_LENGTH // 2),
    )
    x = graph.add("Conv", blocks, graph.constant(filters[:, None]), strides=[FILTER_STEP])
    pooled = STEP // (FILTER_STEP * POOL)
    high = _windows(graph, _pool(graph, x), pooled)
    low = _windows(graph, _pool(graph, graph.add("Neg", x)), pooled)
    mean, factor, bias = _normalisation(graph, _windows(graph, blocks, STEP))
    shift = graph.add("Sub", graph.add("Div", bias, factor), mean)
    shift = graph.add("Mul", shift, graph.constant(filters.sum(1, keepdims=True)))
    x = graph.add("Max", graph.add("Add", high, shift), graph.add("Sub", low, shift))
    return graph.add("Mul", x, factor)


def _normalisation(graph: GraphBuilder, samples: str) -> tuple[str, str, str]:
    """Return mean, factor and bias of the normalisation of samples, (windows, 1, 160000).

    The factor is positive: magnitudes do not depend on the sign of the normalised samples.
    """
    weight, bias = (graph.weights(f"sincnet.wav_norm1d.{part}", 1) for part in ("weight", "bias"))
    mean = graph.add("ReduceMean", samples, axes=[2])
    centred = graph.add("Sub", samples, mean)
    variance = graph.add("ReduceMean", graph.add("Mul", centred, centred), axes=[2])
    # One value for each filter: old versions of onnxruntime round single values otherwise than
    # values that fill a register. The result for a window would depend on the number of windows.
    epsilons = graph.constant(np.full((2 * FILTERS, 1), EPSILON))
    deviation = graph.add("Sqrt", graph.add("Add", variance, epsilons))
    factor = graph.add("Div", graph.constant(np.abs(weight)), deviation)
    return mean, factor, graph.constant(bias * np.sign(weight))


def _windows(graph: GraphBuilder, x: str, step: int) -> str:
    """Join the blocks of each window: (windows + 2, channels, size) -> (windows, channels, ...).

    Args:
        graph: contains `x`.
        x: of the blocks.
        step: length of a block up to the first value of the next.
    """
    parts = [
        graph.add(
            "Slice",
            x,
            graph.integers(number, 0),
            graph.integers(number - SHARED or END, END if number == SHARED else step),
            graph.integers(0, 2),
        )
        for number in range(SHARED + 1)
    ]
    return graph.add("Concat", *parts, axis=2)


def _pool(graph: GraphBuilder, x: str) -> str:
    return graph.add("MaxPool", x, kernel_shape=[POOL], strides=[POOL])


def _normalise(graph: GraphBuilder, x: str, name: str, channels: int) -> str:
    """Normalise each channel of each row over time."""
    scale = graph.constant(graph.weights(f"{name}.weight", channels))
    bias = graph.constant(graph.weights(f"{name}.bias", channels))
    return graph.add("InstanceNormalization", x, scale, bias, epsilon=EPSILON)


def _lstm(graph: GraphBuilder, x: str, layer: int) -> str:
    """(589, batch, size) -> (589, batch, 256): both directions, concatenated."""
    size = 2 * HIDDEN if layer else CHANNELS
    parts: dict[str, list[npt.NDArray[np.float64]]] = {"ih": [], "hh": [], "bias": []}
    for suffix in (f"l{layer}", f"l{layer}_reverse"):
        for part, columns in (("ih", size), ("hh", HIDDEN)):
            matrix = graph.weights(f"lstm.weight_{part}_{suffix}", 4 * HIDDEN, columns)
            parts[part].append(_reorder(matrix))
        biases = [graph.weights(f"lstm.bias_{part}_{suffix}", 4 * HIDDEN) for part in ("ih", "hh")]
        parts["bias"].append(np.concatenate([_reorder(bias) for bias in biases]))
    constants = [graph.constant(np.stack(arrays)) for arrays in parts.values()]
    x = graph.add("LSTM", x, *constants, hidden_size=HIDDEN, direction="bidirectional")
    x = graph.add("Transpose", x, perm=[0, 2, 1, 3])  # (589, batch, direction, 128)
    return graph.add("Reshape", x, graph.integers(0, 0, 2 * HIDDEN))


def _reorder(array: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Bring the gates of an LSTM, along the first axis, into the order of ONNX."""
    gates = array.reshape(4, HIDDEN, *array.shape[1:])
    return gates[list(GATES)].reshape(array.shape)


def _linear(graph: GraphBuilder, x: str, name: str, shape: tuple[int, int]) -> str:
    matrix = graph.constant(graph.weights(f"{name}.weight", *shape).T)
    bias = graph.constant(graph.weights(f"{name}.bias", shape[0]))
    return graph.add("Add", graph.add("MatMul", x, matrix), bias)
