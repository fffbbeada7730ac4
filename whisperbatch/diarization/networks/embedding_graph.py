"""The speaker embedding network as an ONNX graph: CAM++ of 3D-Speaker.

    (batch, frames, 80) filter bank, its mean removed
      -> head          12 convolutions over frequency and time: (batch, frames, 320)
      -> TDNN          every second frame: (batch, frames / 2, 128)
      -> three blocks  of 12, 24 and 16 densely connected layers with context-aware masking
      -> statistics    mean and deviation over time: (batch, 1024)
      -> (batch, 192)  the embedding; the cosine of two embeddings says how alike two voices are

Source: Wang et al., CAM++: a fast and efficient network for speaker verification using
context-aware masking (https://arxiv.org/abs/2303.00332).

The graph computes the same function as the published network in fewer steps:

-   Batch normalisations are part of the convolution before them.
-   Convolutions and the large products are computed with 8-bit numbers (eight_bits.py), which takes
    half of the time. Only the first convolution, the masks and the embedding have float32.
-   The dense layers have channels last, so a 1x1 convolution is a matrix product whose weights are
    packed once. A convolution of three frames is one product and the sum of its shifted thirds.
-   A mask has the same value for all frames of a segment of 100 frames (2 s), so it is computed
    once for each segment.

A result does not depend on the other rows of the batch. onnxruntime multiplies a single row by a
matrix in another order than several rows, so where each recording has a single row, the recordings
are multiplied one by one (the matrix is the first operand).
"""

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from whisperbatch.diarization.networks.eight_bits import EightBitGraph
from whisperbatch.diarization.networks.graph import Arrays, GraphBuilder
from whisperbatch.runtimes.onnx_graph import Port

BANDS: Final = 80  # of the filter bank
EMBEDDING: Final = 192  # size of an embedding

HEAD_CHANNELS: Final = 32
HEAD_STRIDE: Final = 8  # the head makes one band of eight
TDNN_CHANNELS: Final = 128
TDNN_KERNEL: Final = 5  # frames
BLOCKS: Final = ((12, 1), (24, 2), (16, 2))  # number of layers, and frames between the taps
BOTTLENECK: Final = 128  # channels inside a dense layer
GROWTH: Final = 32  # channels that a dense layer adds
TAPS: Final = 3  # frames that a dense layer's convolution reads
MASK_CHANNELS: Final = 64  # inside the network of the mask
SEGMENT: Final = 100  # frames after the stride of 2: 2 s


class _Segments(NamedTuple):
    """Segments of frames, as inputs of nodes.

    Attributes:
        means: matrix (segments, frames), whose product with frames is the mean of each segment,
            plus the mean of all frames.
        numbers: number of the segment of each frame, shape (frames,).
        ones: matrix (1, frames) of ones.
        size: number of frames, a float.
    """

    means: str
    numbers: str
    ones: str
    size: str


def embedding_graph(arrays: Arrays, *, eight_bits: bool = True, exact_sums: bool = True) -> bytes:
    """Return the network as the content of an .onnx file.

    Args:
        arrays: by the names of 3D-Speaker's CAMPPlus.
        eight_bits: compute the large products with 8-bit numbers. False, in float32, is only for
            tests.
        exact_sums: the processor adds products of bytes in 32 bits (`machine.sums_bytes_exactly`).

    Raises:
        MissingExtraError: the package onnx is not installed.
        ModelError: an array is missing or has another shape.
    """
    graph = EightBitGraph(arrays, enabled=eight_bits, exact_sums=exact_sums)
    x = _tdnn(graph, head(graph, "feats"))
    segments = _segments(graph, x)
    channels = TDNN_CHANNELS
    for number, (layers, dilation) in enumerate(BLOCKS, 1):
        for layer in range(1, layers + 1):
            name = f"xvector.block{number}.tdnnd{layer}"
            y = _dense_layer(
                graph, x, name, channels=channels, dilation=dilation, segments=segments
            )
            x = graph.add("Concat", x, y, axis=2)
            channels += GROWTH
        name = f"xvector.transit{number}"
        matrix = graph.weights(f"{name}.linear.weight", channels // 2, channels, 1)[:, :, 0]
        x = _rectified_product(graph, x, f"{name}.nonlinear.batchnorm", matrix)
        channels //= 2
    factor, summand = graph.weights.affine("xvector.out_nonlinear.batchnorm", channels)
    x = graph.add("Add", graph.add("Mul", x, graph.constant(factor)), graph.constant(summand))
    x = _statistics(graph, graph.add("Relu", x), segments)
    x = _embedding(graph, x, 2 * channels)
    return graph.finish(
        "embedding", [Port("feats", ("batch", "frames", BANDS))], [Port(x, ("batch", EMBEDDING))]
    )


def head(graph: EightBitGraph, x: str) -> str:
    """(batch, frames, 80) -> (batch, 320, frames): residual blocks over frequency and time."""
    x = graph.add("Transpose", x, perm=[0, 2, 1])
    x = graph.add("Unsqueeze", x, graph.integers(1))
    x = _convolution(graph, x, "head.conv1", "head.bn1", inputs=1)
    peak = graph.peak("head.bn1", HEAD_CHANNELS)
    x = graph.rectified(x, peak)
    for name in ("head.layer1.0", "head.layer1.1", "head.layer2.0", "head.layer2.1"):
        stride = 2 if name.endswith("0") else 1
        y = _convolution(graph, x, f"{name}.conv1", f"{name}.bn1", stride=stride)
        y = graph.rectified(y, graph.peak(f"{name}.bn1", HEAD_CHANNELS))
        y = _convolution(graph, y, f"{name}.conv2", f"{name}.bn2")
        reach = graph.reach(f"{name}.bn2", HEAD_CHANNELS)
        y = graph.rounded(y, reach)
        if stride > 1:
            short = f"{name}.shortcut"
            x = _convolution(graph, x, f"{short}.0", f"{short}.1", size=1, stride=stride)
            peak = graph.reach(f"{short}.1", HEAD_CHANNELS)
            x = graph.rounded(x, peak)
        peak += reach
        x = graph.rectified(graph.add("Add", y, x), peak)
    x = _convolution(graph, x, "head.conv2", "head.bn2", stride=2)
    x = graph.rectified(x, graph.peak("head.bn2", HEAD_CHANNELS))
    return graph.add("Reshape", x, graph.integers(0, HEAD_CHANNELS * BANDS // HEAD_STRIDE, -1))


def _convolution(
    graph: EightBitGraph,
    x: str,
    name: str,
    norm: str,
    *,
    inputs: int = HEAD_CHANNELS,
    size: int = 3,
    stride: int = 1,
) -> str:
    """Convolve over frequency and time; the batch normalisation is part of the weights.

    The features, a single input, are not rounded: the range of their values is not known.
    """
    factor, summand = graph.weights.affine(norm, HEAD_CHANNELS)
    kernel = graph.weights(f"{name}.weight", HEAD_CHANNELS, inputs, size, size)
    kernel = kernel * factor[:, None, None, None]
    return graph.add(
        "Conv",
        x,
        graph.constant(kernel) if inputs == 1 else graph.rounded_weights(kernel, 0),
        graph.constant(summand),
        kernel_shape=[size, size],
        pads=[size // 2] * 4,
        strides=[stride, 1],
    )


def _tdnn(graph: EightBitGraph, x: str) -> str:
    """(batch, 320, frames) -> (batch, (frames + 1) // 2, 128)."""
    inputs = HEAD_CHANNELS * BANDS // HEAD_STRIDE
    norm = "xvector.tdnn.nonlinear.batchnorm"
    factor, summand = graph.weights.affine(norm, TDNN_CHANNELS)
    kernel = graph.weights("xvector.tdnn.linear.weight", TDNN_CHANNELS, inputs, TDNN_KERNEL)
    kernel = kernel * factor[:, None, None]
    constants = graph.rounded_weights(kernel, 0), graph.constant(summand)
    x = graph.add("Conv", x, *constants, strides=[2], pads=[TDNN_KERNEL // 2] * 2)
    x = graph.rectified(x, graph.peak(norm, TDNN_CHANNELS))
    return graph.add("Transpose", x, perm=[0, 2, 1])


def _segments(graph: GraphBuilder, x: str) -> _Segments:
    """Divide the frames of `x`, (batch, frames, channels), into segments. The last may be shorter.

    Up to 100 frames are one segment, whose mean is the mean of all frames.
    """
    zero, one, length = (graph.constant(np.int64(number)) for number in (0, 1, SEGMENT))
    frames = graph.add("Gather", graph.add("Shape", x), one)
    numbers = graph.add("Div", graph.add("Range", zero, frames, one), length)
    last = graph.add("Div", graph.add("Sub", frames, one), length)
    segments = graph.add("Range", zero, graph.add("Add", last, one), one)
    rows = graph.add("Unsqueeze", segments, graph.integers(1))
    columns = graph.add("Unsqueeze", numbers, graph.integers(0))
    member = graph.add("Cast", graph.add("Equal", rows, columns), to=1)  # (segments, frames)
    sizes = graph.add("ReduceSum", member, graph.integers(1), keepdims=1)
    count = graph.add("Cast", frames, to=1)
    means = graph.add("Add", graph.add("Div", member, sizes), graph.add("Reciprocal", count))
    ones = graph.add("ReduceSum", member, graph.integers(0), keepdims=1)
    return _Segments(means, numbers, ones, count)


def _dense_layer(
    graph: EightBitGraph,
    x: str,
    name: str,
    *,
    channels: int,
    dilation: int,
    segments: _Segments,
) -> str:
    """(batch, frames, channels) -> (batch, frames, 32): the channels that the layer adds."""
    x = _rectified_product(
        graph, x, f"{name}.nonlinear1.batchnorm", *bottleneck(graph, name, channels)
    )
    x = graph.rectified(x, graph.peak(f"{name}.nonlinear2.batchnorm", BOTTLENECK))
    local = _taps(graph, x, f"{name}.cam_layer.linear_local.weight", dilation)
    mask = _mask(graph, graph.add("MatMul", segments.means, x), f"{name}.cam_layer")
    return graph.add("Mul", local, graph.add("Gather", mask, segments.numbers, axis=1))


def bottleneck(
    graph: GraphBuilder, name: str, channels: int
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return the matrix (128, channels) and the bias of the first product of a dense layer.

    The batch normalisation after the product is part of them.
    """
    factor, summand = graph.weights.affine(f"{name}.nonlinear2.batchnorm", BOTTLENECK)
    matrix = graph.weights(f"{name}.linear1.weight", BOTTLENECK, channels, 1)[:, :, 0]
    return matrix * factor[:, None], summand


def _rectified_product(
    graph: EightBitGraph,
    x: str,
    norm: str,
    matrix: npt.NDArray[np.float64],
    bias: npt.NDArray[np.float64] | float = 0.0,
) -> str:
    """Batch normalisation, ReLU and product with a matrix (outputs, channels), plus a bias."""
    channels = matrix.shape[1]
    factor, summand = graph.weights.affine(norm, channels)
    scales, peak = graph.balance(norm, matrix)
    factor, summand = factor / scales, summand / scales
    x = graph.add("Add", graph.add("Mul", x, graph.constant(factor)), graph.constant(summand))
    x = graph.rectified(x, peak)
    x = graph.add("MatMul", x, graph.rounded_weights((matrix * scales).T, 1))
    return graph.add("Add", x, graph.constant(bias + np.zeros(len(matrix))))


def _taps(graph: EightBitGraph, x: str, name: str, dilation: int) -> str:
    """Convolve over three frames that are `dilation` apart: (batch, frames, 128) -> (..., 32)."""
    kernel = graph.weights(name, GROWTH, BOTTLENECK, TAPS)
    thirds = np.concatenate([kernel[:, :, tap].T for tap in range(TAPS)], axis=1)
    x = graph.add("MatMul", x, graph.rounded_weights(thirds, 1))  # (batch, frames, 96)
    x = graph.add("Pad", x, graph.integers(0, dilation, 0, 0, dilation, 0))
    ends = (-2 * dilation, -dilation, np.iinfo(np.int64).max)
    axes = graph.integers(1, 2)
    before, centre, after = (
        graph.add(
            "Slice",
            x,
            graph.integers(tap * dilation, tap * GROWTH),
            graph.integers(end, (tap + 1) * GROWTH),
            axes,
        )
        for tap, end in enumerate(ends)
    )
    return graph.add("Add", graph.add("Add", before, centre), after)


def _mask(graph: GraphBuilder, context: str, name: str) -> str:
    """Context of the segments (batch, segments, 128) -> mask (batch, segments, 32)."""
    x = graph.add("Transpose", context, perm=[0, 2, 1])
    for layer, shape, activation in (
        ("linear1", (MASK_CHANNELS, BOTTLENECK), "Relu"),
        ("linear2", (GROWTH, MASK_CHANNELS), "Sigmoid"),
    ):
        matrix = graph.weights(f"{name}.{layer}.weight", *shape, 1)[:, :, 0]
        bias = graph.weights(f"{name}.{layer}.bias", shape[0])[:, None]
        x = graph.add("MatMul", graph.constant(matrix), x)
        x = graph.add(activation, graph.add("Add", x, graph.constant(bias)))
    return graph.add("Transpose", x, perm=[0, 2, 1])


def _statistics(graph: GraphBuilder, x: str, segments: _Segments) -> str:
    """(batch, frames, channels) -> mean and deviation over the frames, (batch, 1024, 1).

    The deviation divides by the number of frames less one; that of a single frame is zero. The sums
    are products with ones: ReduceSum adds the frames of a single row in another order.
    """
    one = graph.constant(np.float32(1))
    mean = graph.add("Div", graph.add("MatMul", segments.ones, x), segments.size)
    residual = graph.add("Sub", x, mean)
    squares = graph.add("MatMul", segments.ones, graph.add("Mul", residual, residual))
    divisor = graph.add("Max", graph.add("Sub", segments.size, one), one)
    deviation = graph.add("Sqrt", graph.add("Div", squares, divisor))
    joined = graph.add("Concat", mean, deviation, axis=2)  # (batch, 1, 1024)
    return graph.add("Transpose", joined, perm=[0, 2, 1])


def _embedding(graph: GraphBuilder, x: str, size: int) -> str:
    """Statistics (batch, size, 1) -> (batch, 192).

    The published network ends with the batch normalisation, without a ReLU.
    """
    factor, summand = graph.weights.affine("xvector.dense.nonlinear.batchnorm", EMBEDDING)
    matrix = (
        graph.weights("xvector.dense.linear.weight", EMBEDDING, size, 1)[:, :, 0] * factor[:, None]
    )
    x = graph.add("MatMul", graph.constant(matrix), x)
    x = graph.add("Add", x, graph.constant(summand[:, None]))
    return graph.add("Squeeze", x, graph.integers(2))
