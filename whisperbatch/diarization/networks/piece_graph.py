"""The speaker embedding network for full pieces as an ONNX graph for OpenVINO.

The same function as embedding_graph.py, in the operators that OpenVINO computes fastest:

-   Channels come first, with a height of 1: (batch, channels, 1, frames). OpenVINO has fast
    convolutions for this form, also of three frames that are not adjacent.
-   After each block, a maximum of single frames changes nothing. Without this operator, OpenVINO
    2026.4 joins the product before it with the rounding after it, although the dense layers need
    the product, too. The cosine to the right embedding was then 0.57. (Only without generated
    subgraphs: see openvino_session.py.)
-   All pieces have the same number of frames, and these are a single segment. So the context of a
    mask, the mean of the segment plus the mean of all frames, is twice the mean.

On a core with AMX, OpenVINO takes three quarters of the time of the other graph for this graph, and
14 MB less memory. Its rows are independent only if each call has the same number of rows.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from whisperbatch.diarization.networks.eight_bits import EightBitGraph
from whisperbatch.diarization.networks.embedding_graph import (
    BANDS,
    BLOCKS,
    BOTTLENECK,
    EMBEDDING,
    GROWTH,
    HEAD_CHANNELS,
    HEAD_STRIDE,
    MASK_CHANNELS,
    SEGMENT,
    TAPS,
    TDNN_CHANNELS,
    TDNN_KERNEL,
    bottleneck,
    head,
)
from whisperbatch.diarization.networks.graph import Arrays, GraphBuilder
from whisperbatch.onnx_graph import Port

TIME: Final = 3  # axis of the frames


def piece_graph(
    arrays: Arrays, frames: int, *, eight_bits: bool = True, exact_sums: bool = True
) -> bytes:
    """Return the network for pieces of one length as the content of an .onnx file.

    Args:
        arrays: by the names of 3D-Speaker's CAMPPlus.
        frames: of a piece.
        eight_bits: see `embedding_graph`.
        exact_sums: the processor adds products of bytes in 32 bits (`machine.sums_bytes_exactly`).

    Raises:
        MissingExtraError: the package onnx is not installed.
        ModelError: an array is missing or has another shape.
        ValueError: the frames are more than one segment.
    """
    kept = (frames + 1) // 2
    if kept > SEGMENT:
        raise ValueError(f"{frames} frames are more than a segment of {2 * SEGMENT} frames")
    graph = EightBitGraph(arrays, enabled=eight_bits, exact_sums=exact_sums)
    x = _tdnn(graph, head(graph, "feats"))
    channels = TDNN_CHANNELS
    for number, (layers, dilation) in enumerate(BLOCKS, 1):
        for layer in range(1, layers + 1):
            name = f"xvector.block{number}.tdnnd{layer}"
            x = graph.add("Concat", x, _dense_layer(graph, x, name, channels, dilation), axis=1)
            channels += GROWTH
        name = f"xvector.transit{number}"
        matrix = graph.weights(f"{name}.linear.weight", channels // 2, channels, 1)[:, :, 0]
        x = _rectified_product(graph, x, f"{name}.nonlinear.batchnorm", matrix)
        x = graph.add("MaxPool", x, kernel_shape=[1, 1])  # see above
        channels //= 2
    affine = graph.weights.affine("xvector.out_nonlinear.batchnorm", channels)
    x = graph.add("Relu", _scaled(graph, x, *affine))
    x = _statistics(graph, x, kept)
    factor, summand = graph.weights.affine("xvector.dense.nonlinear.batchnorm", EMBEDDING)
    matrix = graph.weights("xvector.dense.linear.weight", EMBEDDING, 2 * channels, 1)[:, :, 0]
    x = _float_product(graph, x, matrix * factor[:, None], summand)
    x = graph.add("Squeeze", x, graph.integers(2, TIME))
    return graph.finish(
        "pieces", [Port("feats", ("batch", frames, BANDS))], [Port(x, ("batch", EMBEDDING))]
    )


def _tdnn(graph: EightBitGraph, x: str) -> str:
    """(batch, 320, frames) -> (batch, 128, 1, (frames + 1) // 2)."""
    inputs = HEAD_CHANNELS * BANDS // HEAD_STRIDE
    x = graph.add("Unsqueeze", x, graph.integers(2))
    norm = "xvector.tdnn.nonlinear.batchnorm"
    factor, summand = graph.weights.affine(norm, TDNN_CHANNELS)
    kernel = graph.weights("xvector.tdnn.linear.weight", TDNN_CHANNELS, inputs, TDNN_KERNEL)
    kernel = kernel * factor[:, None, None]
    half = TDNN_KERNEL // 2
    x = _convolution(graph, x, kernel, summand, strides=[1, 2], pads=[0, half, 0, half])
    return graph.rectified(x, graph.peak(norm, TDNN_CHANNELS))


def _convolution(
    graph: EightBitGraph,
    x: str,
    kernel: npt.NDArray[np.float64],
    bias: npt.NDArray[np.float64],
    **attributes: Sequence[int],
) -> str:
    """Convolve over the frames with a kernel (outputs, inputs, taps) in 8 bits."""
    weights = graph.rounded_weights(kernel[:, :, None], 0)
    return graph.add("Conv", x, weights, graph.constant(bias), **attributes)


def _dense_layer(graph: EightBitGraph, x: str, name: str, channels: int, dilation: int) -> str:
    """(batch, channels, 1, frames) -> (batch, 32, 1, frames): the channels that the layer adds."""
    x = _rectified_product(
        graph, x, f"{name}.nonlinear1.batchnorm", *bottleneck(graph, name, channels)
    )
    x = graph.rectified(x, graph.peak(f"{name}.nonlinear2.batchnorm", BOTTLENECK))
    kernel = graph.weights(f"{name}.cam_layer.linear_local.weight", GROWTH, BOTTLENECK, TAPS)
    local = _convolution(
        graph,
        x,
        kernel,
        np.zeros(GROWTH),
        dilations=[1, dilation],
        pads=[0, dilation, 0, dilation],
    )
    return graph.add("Mul", local, _mask(graph, x, f"{name}.cam_layer"))


def _rectified_product(
    graph: EightBitGraph,
    x: str,
    norm: str,
    matrix: npt.NDArray[np.float64],
    bias: npt.NDArray[np.float64] | float = 0.0,
) -> str:
    """Batch normalisation, ReLU and product with a matrix (outputs, channels), plus a bias."""
    factor, summand = graph.weights.affine(norm, matrix.shape[1])
    scales, peak = graph.balance(norm, matrix)
    x = graph.rectified(_scaled(graph, x, factor / scales, summand / scales), peak)
    return _convolution(graph, x, (matrix * scales)[:, :, None], bias + np.zeros(len(matrix)))


def _scaled(
    graph: GraphBuilder, x: str, factor: npt.NDArray[np.float64], summand: npt.NDArray[np.float64]
) -> str:
    """Return `factor * x + summand`, with a factor and a summand for each channel."""
    x = graph.add("Mul", x, graph.constant(factor[:, None, None]))
    return graph.add("Add", x, graph.constant(summand[:, None, None]))


def _mask(graph: GraphBuilder, x: str, name: str) -> str:
    """(batch, 128, 1, frames) -> the mask of all frames (batch, 32, 1, 1)."""
    x = graph.add("ReduceMean", x, axes=[TIME], keepdims=1)
    for layer, shape, activation, means in (
        ("linear1", (MASK_CHANNELS, BOTTLENECK), "Relu", 2),  # of the segment and of all frames
        ("linear2", (GROWTH, MASK_CHANNELS), "Sigmoid", 1),
    ):
        matrix = graph.weights(f"{name}.{layer}.weight", *shape, 1)[:, :, 0]
        bias = graph.weights(f"{name}.{layer}.bias", shape[0])
        x = graph.add(activation, _float_product(graph, x, matrix * means, bias))
    return x


def _float_product(
    graph: GraphBuilder, x: str, matrix: npt.NDArray[np.float64], bias: npt.NDArray[np.float64]
) -> str:
    """Product of the channels with a matrix (outputs, channels), plus a bias."""
    weights = graph.constant(matrix[:, :, None, None])
    return graph.add("Conv", x, weights, graph.constant(bias))


def _statistics(graph: GraphBuilder, x: str, frames: int) -> str:
    """(batch, channels, 1, frames) -> mean and deviation, (batch, 2 channels, 1, 1)."""
    mean = graph.add("ReduceMean", x, axes=[TIME], keepdims=1)
    residual = graph.add("Sub", x, mean)
    squares = graph.add("Mul", residual, residual)
    variance = graph.add("ReduceMean", squares, axes=[TIME], keepdims=1)
    unbiased = graph.constant(np.float32(frames / (frames - 1)))
    deviation = graph.add("Sqrt", graph.add("Mul", variance, unbiased))
    return graph.add("Concat", mean, deviation, axis=1)
