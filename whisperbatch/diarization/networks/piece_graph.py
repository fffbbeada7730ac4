"""The speaker embedding network for pieces as an ONNX graph for OpenVINO.

    (batch, frames, 81)   filter bank, and 1 for each frame of the piece, 0 after its end
      -> (batch, 192)     the embedding

The same function as embedding_graph.py, in the operators that OpenVINO computes fastest:

-   Each row has the same number of frames, at most a single segment, so OpenVINO prepares its
    operators once. A shorter piece is filled up with zeros.
-   After the end of a piece, all inputs of means and of convolutions over several frames are zero,
    like the padding of a convolution. Therefore the activations before them are multiplied by the
    last band. The multiplications take a tenth of the time.
-   Channels come first, with a height of 1: (batch, channels, 1, frames). OpenVINO has fast
    convolutions for this form, also of three frames that are not adjacent.
-   No numbers are rounded to 8 bits: OpenVINO computes in bfloat16, in the same time.
-   The context of a mask, the mean of the segment plus the mean of all frames, is twice the mean.

Its rows are independent only if each call has the same number of rows.
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
from whisperbatch.runtimes.onnx_graph import Port

TIME: Final = 3  # axis of the frames
END: Final = 2**31  # of a slice


class _PieceGraph(EightBitGraph):
    """A graph that knows where each piece ends.

    It computes without 8-bit numbers: `head` needs an `EightBitGraph`, whose rounding is off here.

    Attributes:
        inside: 1 for each frame of a piece, 0 after its end; shape (batch, 1, 1, frames).
        inside_halved: the same after the stride of 2, for every second frame.
        mean_factor: all frames after the stride, relative to those of the piece; shape
            (batch, 1, 1, 1).
        divisor: the frames of the piece after the stride less one, relative to all.
    """

    def __init__(self, arrays: Arrays, frames: int) -> None:
        super().__init__(arrays, enabled=False)
        self.inside = self.sliced("feats", 2, BANDS)
        self.inside = self.add("Transpose", self.inside, perm=[0, 2, 1])
        self.inside = self.add("Unsqueeze", self.inside, self.integers(1))
        self.inside_halved = self.sliced(self.inside, TIME, 0, step=2)
        one = self.constant(np.float32(1 / ((frames + 1) // 2)))  # frame, relative to all
        share = self.add("ReduceMean", self.inside_halved, axes=[TIME], keepdims=1)
        self.mean_factor = self.add("Reciprocal", self.add("Max", share, one))
        self.divisor = self.add("Max", self.add("Sub", share, one), one)

    def sliced(self, x: str, axis: int, start: int, end: int = END, step: int = 1) -> str:
        """Return a part of an axis."""
        bounds = (self.integers(number) for number in (start, end, axis, step))
        return self.add("Slice", x, *bounds)

    def rectified(self, x: str, peak: float) -> str:  # noqa: ARG002 - only for 8-bit numbers
        """Return max(x, 0), and 0 after the end of the piece."""
        return self.add("Mul", self.add("Relu", x), self.inside)

    def mean(self, x: str) -> str:
        """Return the mean over the frames of the piece; x is 0 after its end."""
        return self.add("Mul", self.add("ReduceMean", x, axes=[TIME], keepdims=1), self.mean_factor)


def piece_graph(arrays: Arrays, frames: int) -> bytes:
    """Return the network for pieces of at most some frames as the content of an .onnx file.

    Args:
        arrays: by the names of 3D-Speaker's CAMPPlus.
        frames: of the longest piece.

    Raises:
        MissingExtraError: the package onnx is not installed.
        ModelError: an array is missing or has another shape.
        ValueError: the frames are more than one segment.
    """
    if frames > 2 * SEGMENT:
        raise ValueError(f"{frames} frames are more than a segment of {2 * SEGMENT} frames")
    graph = _PieceGraph(arrays, frames)
    x = _tdnn(graph, head(graph, graph.sliced("feats", 2, 0, BANDS)))
    channels = TDNN_CHANNELS
    for number, (layers, dilation) in enumerate(BLOCKS, 1):
        for layer in range(1, layers + 1):
            name = f"xvector.block{number}.tdnnd{layer}"
            x = graph.add("Concat", x, _dense_layer(graph, x, name, channels, dilation), axis=1)
            channels += GROWTH
        name = f"xvector.transit{number}"
        matrix = graph.weights(f"{name}.linear.weight", channels // 2, channels, 1)[:, :, 0]
        x = _rectified_product(graph, x, f"{name}.nonlinear.batchnorm", matrix)
        channels //= 2
    affine = graph.weights.affine("xvector.out_nonlinear.batchnorm", channels)
    x = _statistics(graph, graph.add("Relu", _scaled(graph, x, *affine)))
    factor, summand = graph.weights.affine("xvector.dense.nonlinear.batchnorm", EMBEDDING)
    matrix = graph.weights("xvector.dense.linear.weight", EMBEDDING, 2 * channels, 1)[:, :, 0]
    x = _product(graph, x, matrix * factor[:, None], summand)
    x = graph.add("Squeeze", x, graph.integers(2, TIME))
    return graph.finish(
        "pieces", [Port("feats", ("batch", frames, BANDS + 1))], [Port(x, ("batch", EMBEDDING))]
    )


def _tdnn(graph: GraphBuilder, x: str) -> str:
    """(batch, 320, frames) -> (batch, 128, 1, (frames + 1) // 2)."""
    inputs = HEAD_CHANNELS * BANDS // HEAD_STRIDE
    x = graph.add("Unsqueeze", x, graph.integers(2))
    factor, summand = graph.weights.affine("xvector.tdnn.nonlinear.batchnorm", TDNN_CHANNELS)
    kernel = graph.weights("xvector.tdnn.linear.weight", TDNN_CHANNELS, inputs, TDNN_KERNEL)
    kernel = kernel * factor[:, None, None]
    half = TDNN_KERNEL // 2
    x = _convolution(graph, x, kernel, summand, strides=[1, 2], pads=[0, half, 0, half])
    return graph.add("Relu", x)


def _convolution(
    graph: GraphBuilder,
    x: str,
    kernel: npt.NDArray[np.float64],
    bias: npt.NDArray[np.float64],
    **attributes: Sequence[int],
) -> str:
    """Convolve over the frames with a kernel (outputs, inputs, taps)."""
    weights = graph.constant(kernel[:, :, None])
    return graph.add("Conv", x, weights, graph.constant(bias), **attributes)


def _dense_layer(graph: _PieceGraph, x: str, name: str, channels: int, dilation: int) -> str:
    """(batch, channels, 1, frames) -> (batch, 32, 1, frames): the channels that the layer adds."""
    x = _rectified_product(
        graph, x, f"{name}.nonlinear1.batchnorm", *bottleneck(graph, name, channels)
    )
    x = graph.add("Mul", graph.add("Relu", x), graph.inside_halved)
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
    graph: GraphBuilder,
    x: str,
    norm: str,
    matrix: npt.NDArray[np.float64],
    bias: npt.NDArray[np.float64] | float = 0.0,
) -> str:
    """Batch normalisation, ReLU and product with a matrix (outputs, channels), plus a bias."""
    x = graph.add("Relu", _scaled(graph, x, *graph.weights.affine(norm, matrix.shape[1])))
    return _product(graph, x, matrix, bias + np.zeros(len(matrix)))


def _scaled(
    graph: GraphBuilder, x: str, factor: npt.NDArray[np.float64], summand: npt.NDArray[np.float64]
) -> str:
    """Return `factor * x + summand`, with a factor and a summand for each channel."""
    x = graph.add("Mul", x, graph.constant(factor[:, None, None]))
    return graph.add("Add", x, graph.constant(summand[:, None, None]))


def _mask(graph: _PieceGraph, x: str, name: str) -> str:
    """(batch, 128, 1, frames) -> the mask of all frames (batch, 32, 1, 1)."""
    x = graph.mean(x)
    for layer, shape, activation, means in (
        ("linear1", (MASK_CHANNELS, BOTTLENECK), "Relu", 2),  # of the segment and of all frames
        ("linear2", (GROWTH, MASK_CHANNELS), "Sigmoid", 1),
    ):
        matrix = graph.weights(f"{name}.{layer}.weight", *shape, 1)[:, :, 0]
        bias = graph.weights(f"{name}.{layer}.bias", shape[0])
        x = graph.add(activation, _product(graph, x, matrix * means, bias))
    return x


def _product(
    graph: GraphBuilder, x: str, matrix: npt.NDArray[np.float64], bias: npt.NDArray[np.float64]
) -> str:
    """Product of the channels with a matrix (outputs, channels), plus a bias."""
    return _convolution(graph, x, matrix[:, :, None], bias)


def _statistics(graph: _PieceGraph, x: str) -> str:
    """(batch, channels, 1, frames) -> mean and deviation, (batch, 2 channels, 1, 1)."""
    mean = graph.mean(graph.add("Mul", x, graph.inside_halved))
    residual = graph.add("Mul", graph.add("Sub", x, mean), graph.inside_halved)
    squares = graph.add("Mul", residual, residual)
    squares = graph.add("ReduceMean", squares, axes=[TIME], keepdims=1)
    deviation = graph.add("Sqrt", graph.add("Div", squares, graph.divisor))
    return graph.add("Concat", mean, deviation, axis=1)
