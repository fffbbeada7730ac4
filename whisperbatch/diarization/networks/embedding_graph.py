"""The speaker embedding network as an ONNX graph: CAM++ of 3D-Speaker.

    (batch, frames, 80) filter bank, its mean removed
      -> head          12 convolutions over frequency and time: (batch, 320, frames)
      -> TDNN          every second frame: (batch, frames / 2, 128)
      -> three blocks  of 12, 24 and 16 densely connected layers with context-aware masking
      -> statistics    mean and deviation over time: (batch, 1024)
      -> (batch, 192)  the embedding; the cosine of two embeddings says how alike two voices are

Source: Wang et al., CAM++: a fast and efficient network for speaker verification using
context-aware masking (https://arxiv.org/abs/2303.00332).

Both graphs of this file compute the same function as the published network in fewer steps: batch
normalisations are part of the convolution before them.

`embedding_graph` is for onnxruntime:

-   Convolutions and the large products are computed with 8-bit numbers (graph.py), which takes half
    of the time. Only the first convolution, the masks and the embedding have float32.
-   The dense layers have channels last, so a 1x1 convolution is a matrix product whose weights are
    packed once. A convolution of three frames is one product and the sum of its shifted thirds.
-   A mask has the same value for all frames of a segment of 100 frames (2 s), so it is computed
    once for each segment.
-   A result does not depend on the other rows of the batch. onnxruntime multiplies a single row by
    a matrix in another order than several rows, so where each recording has a single row, the
    recordings are multiplied one by one (the matrix is the first operand).

`piece_graph` is for OpenVINO, with the operators that OpenVINO computes fastest. Its input has a
last band that is 1 for each frame of the piece, and 0 after its end: (batch, frames, 81).

-   Each row has the same number of frames, at most a single segment, so OpenVINO prepares its
    operators once. A shorter piece is filled up with zeros.
-   After the end of a piece, all inputs of means and of convolutions over several frames are zero,
    like the padding of a convolution. Therefore the activations before them are multiplied by the
    last band. The multiplications take a tenth of the time.
-   Channels come first, with a height of 1: (batch, channels, 1, frames). OpenVINO has fast
    convolutions for this form, also of three frames that are not adjacent.
-   No numbers are rounded to 8 bits: OpenVINO computes in bfloat16, in the same time.
-   The context of a mask, the mean of the segment plus the mean of all frames, is twice the mean.
-   Its rows are independent only if each call has the same number of rows.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from whisperbatch.diarization.networks.graph import Arrays, EightBitGraph
from whisperbatch.runtimes.onnx_graph import Port

BANDS: Final = 80  # of the filter bank
EMBEDDING: Final = 192  # size of an embedding

HEAD_CHANNELS: Final = 32
HEAD_STRIDE: Final = 8  # the head makes one band of eight
HEAD_SIZE: Final = HEAD_CHANNELS * BANDS // HEAD_STRIDE  # values of a frame after the head
TDNN_CHANNELS: Final = 128
TDNN_KERNEL: Final = 5  # frames
BLOCKS: Final = ((12, 1), (24, 2), (16, 2))  # number of layers, and frames between the taps
BOTTLENECK: Final = 128  # channels inside a dense layer
GROWTH: Final = 32  # channels that a dense layer adds
TAPS: Final = 3  # frames that a dense layer's convolution reads
MASK_CHANNELS: Final = 64  # inside the network of the mask
SEGMENT: Final = 100  # frames after the stride of 2: 2 s
TIME: Final = 3  # axis of the frames in `piece_graph`
END: Final = 2**31  # of a slice

Matrix = npt.NDArray[np.float64]


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
    graph = _FrameGraph(arrays, enabled=eight_bits, exact_sums=exact_sums)
    x = graph.build("feats")
    return graph.finish(
        "embedding", [Port("feats", ("batch", "frames", BANDS))], [Port(x, ("batch", EMBEDDING))]
    )


def piece_graph(arrays: Arrays, frames: int) -> bytes:
    """Return the network for pieces of at most some frames as the content of an .onnx file.

    Args:
        arrays: by the names of 3D-Speaker's CAMPPlus.
        frames: of the longest piece: a segment (`SEGMENT`) after the stride of 2, or less.

    Raises:
        MissingExtraError: the package onnx is not installed.
        ModelError: an array is missing or has another shape.
    """
    graph = _PieceGraph(arrays, frames)
    x = graph.build(graph.slice("feats", 2, 0, BANDS))
    return graph.finish(
        "pieces", [Port("feats", ("batch", frames, BANDS + 1))], [Port(x, ("batch", EMBEDDING))]
    )


class _SpeakerGraph(EightBitGraph, ABC):
    """The layers that both graphs share.

    Attributes:
        channel_axis: of the dense layers.
    """

    channel_axis: int

    def build(self, feats: str) -> str:
        """Add all layers: filter bank (batch, frames, 80) -> embeddings (batch, 192)."""
        x = self.tdnn(self.head(feats))
        channels = TDNN_CHANNELS
        for number, (layers, dilation) in enumerate(BLOCKS, 1):
            for layer in range(1, layers + 1):
                name = f"xvector.block{number}.tdnnd{layer}"
                y = self.dense_layer(x, name, channels, dilation)
                x = self.add("Concat", x, y, axis=self.channel_axis)
                channels += GROWTH
            name = f"xvector.transit{number}"
            matrix = self.weights.matrix(f"{name}.linear", channels // 2, channels)
            x = self.multiply_rectified(x, f"{name}.nonlinear.batchnorm", matrix)
            channels //= 2
        affine = self.weights.affine("xvector.out_nonlinear.batchnorm", channels)
        x = self.statistics(self.add("Relu", self.scale(x, *affine)))
        # the published network ends with the batch normalisation, without a ReLU
        name, shape = "xvector.dense", (EMBEDDING, 2 * channels, 1)
        return self.embedding(
            x, *self.weights.fold(f"{name}.linear", f"{name}.nonlinear.batchnorm", *shape)
        )

    @abstractmethod
    def tdnn(self, x: str) -> str:
        """(batch, 320, frames) -> every second frame, 128 channels."""

    @abstractmethod
    def dense_layer(self, x: str, name: str, channels: int, dilation: int) -> str:
        """Return the 32 channels that a dense layer adds; its taps are `dilation` frames apart."""

    @abstractmethod
    def multiply_rectified(
        self, x: str, norm: str, matrix: Matrix, bias: Matrix | float = 0.0
    ) -> str:
        """Batch normalisation, ReLU and product with a matrix (outputs, channels), plus a bias."""

    @abstractmethod
    def scale(self, x: str, factor: Matrix, summand: Matrix) -> str:
        """Return `factor * x + summand`, with a factor and a summand for each channel."""

    @abstractmethod
    def statistics(self, x: str) -> str:
        """Return the mean and the deviation of each channel over the frames.

        The deviation divides by the number of frames less one; that of a single frame is zero.
        """

    @abstractmethod
    def embedding(self, x: str, kernel: Matrix, bias: Matrix) -> str:
        """Statistics -> (batch, 192); the kernel has the shape (192, 1024, 1)."""

    def head(self, x: str) -> str:
        """(batch, frames, 80) -> (batch, 320, frames): residual blocks over frequency and time."""
        x = self.add("Transpose", x, perm=[0, 2, 1])
        x = self.add("Unsqueeze", x, self.integers(1))
        x = self._convolution(x, "head.conv1", "head.bn1", inputs=1)
        peak = self.peak("head.bn1", HEAD_CHANNELS)
        x = self.rectify(x, peak)
        for name in ("head.layer1.0", "head.layer1.1", "head.layer2.0", "head.layer2.1"):
            stride = 2 if name.endswith("0") else 1
            y = self._convolution(x, f"{name}.conv1", f"{name}.bn1", stride=stride)
            y = self.rectify(y, self.peak(f"{name}.bn1", HEAD_CHANNELS))
            y = self._convolution(y, f"{name}.conv2", f"{name}.bn2")
            reach = self.reach(f"{name}.bn2", HEAD_CHANNELS)
            y = self.quantize(y, reach)
            if stride > 1:
                short = f"{name}.shortcut"
                x = self._convolution(x, f"{short}.0", f"{short}.1", size=1, stride=stride)
                peak = self.reach(f"{short}.1", HEAD_CHANNELS)
                x = self.quantize(x, peak)
            peak += reach
            x = self.rectify(self.add("Add", y, x), peak)
        x = self._convolution(x, "head.conv2", "head.bn2", stride=2)
        x = self.rectify(x, self.peak("head.bn2", HEAD_CHANNELS))
        return self.add("Reshape", x, self.integers(0, HEAD_SIZE, -1))

    def _convolution(
        self,
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
        kernel, bias = self.weights.fold(name, norm, HEAD_CHANNELS, inputs, size, size)
        return self.add(
            "Conv",
            x,
            self.constant(kernel) if inputs == 1 else self.quantize_weights(kernel, 0),
            self.constant(bias),
            kernel_shape=[size, size],
            pads=[size // 2] * 4,
            strides=[stride, 1],
        )

    def tdnn_weights(self) -> tuple[Matrix, Matrix]:
        """Return the kernel (128, 320, 5) and the bias of the TDNN."""
        name, shape = "xvector.tdnn", (TDNN_CHANNELS, HEAD_SIZE, TDNN_KERNEL)
        return self.weights.fold(f"{name}.linear", f"{name}.nonlinear.batchnorm", *shape)

    def bottleneck(self, x: str, name: str, channels: int) -> str:
        """Return the first product of a dense layer and the batch normalisation after it."""
        kernel, bias = self.weights.fold(
            f"{name}.linear1", f"{name}.nonlinear2.batchnorm", BOTTLENECK, channels, 1
        )
        return self.multiply_rectified(x, f"{name}.nonlinear1.batchnorm", kernel[:, :, 0], bias)


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


class _FrameGraph(_SpeakerGraph):
    """The network for any number of frames, with channels last: (batch, frames, channels)."""

    channel_axis = 2
    _segments: _Segments

    def tdnn(self, x: str) -> str:
        """(batch, 320, frames) -> (batch, (frames + 1) // 2, 128)."""
        kernel, bias = self.tdnn_weights()
        constants = self.quantize_weights(kernel, 0), self.constant(bias)
        x = self.add("Conv", x, *constants, strides=[2], pads=[TDNN_KERNEL // 2] * 2)
        x = self.rectify(x, self.peak("xvector.tdnn.nonlinear.batchnorm", TDNN_CHANNELS))
        x = self.add("Transpose", x, perm=[0, 2, 1])
        self._segments = self._divide(x)
        return x

    def _divide(self, x: str) -> _Segments:
        """Divide the frames into segments. The last may be shorter.

        Up to 100 frames are one segment, whose mean is the mean of all frames.
        """
        zero, one, length = (self.constant(np.int64(number)) for number in (0, 1, SEGMENT))
        frames = self.add("Gather", self.add("Shape", x), one)
        numbers = self.add("Div", self.add("Range", zero, frames, one), length)
        last = self.add("Div", self.add("Sub", frames, one), length)
        segments = self.add("Range", zero, self.add("Add", last, one), one)
        rows = self.add("Unsqueeze", segments, self.integers(1))
        columns = self.add("Unsqueeze", numbers, self.integers(0))
        member = self.add("Cast", self.add("Equal", rows, columns), to=1)  # (segments, frames)
        sizes = self.add("ReduceSum", member, self.integers(1), keepdims=1)
        count = self.add("Cast", frames, to=1)
        means = self.add("Add", self.add("Div", member, sizes), self.add("Reciprocal", count))
        ones = self.add("ReduceSum", member, self.integers(0), keepdims=1)
        return _Segments(means, numbers, ones, count)

    def dense_layer(self, x: str, name: str, channels: int, dilation: int) -> str:
        """(batch, frames, channels) -> (batch, frames, 32)."""
        x = self.bottleneck(x, name, channels)
        x = self.rectify(x, self.peak(f"{name}.nonlinear2.batchnorm", BOTTLENECK))
        local = self._taps(x, f"{name}.cam_layer.linear_local.weight", dilation)
        mask = self._mask(self.add("MatMul", self._segments.means, x), f"{name}.cam_layer")
        return self.add("Mul", local, self.add("Gather", mask, self._segments.numbers, axis=1))

    def multiply_rectified(
        self, x: str, norm: str, matrix: Matrix, bias: Matrix | float = 0.0
    ) -> str:
        """See `_SpeakerGraph`; the product has 8-bit numbers."""
        factor, summand = self.weights.affine(norm, matrix.shape[1])
        scales, peak = self.balance(norm, matrix)
        x = self.rectify(self.scale(x, factor / scales, summand / scales), peak)
        x = self.add("MatMul", x, self.quantize_weights((matrix * scales).T, 1))
        return self.add("Add", x, self.constant(bias + np.zeros(len(matrix))))

    def scale(self, x: str, factor: Matrix, summand: Matrix) -> str:
        """See `_SpeakerGraph`."""
        x = self.add("Mul", x, self.constant(factor))
        return self.add("Add", x, self.constant(summand))

    def _taps(self, x: str, name: str, dilation: int) -> str:
        """Convolve over three frames that are `dilation` apart: (batch, frames, 128) -> 32."""
        kernel = self.weights(name, GROWTH, BOTTLENECK, TAPS)
        thirds = np.concatenate([kernel[:, :, tap].T for tap in range(TAPS)], axis=1)
        x = self.add("MatMul", x, self.quantize_weights(thirds, 1))  # (batch, frames, 96)
        x = self.add("Pad", x, self.integers(0, dilation, 0, 0, dilation, 0))
        ends = (-2 * dilation, -dilation, np.iinfo(np.int64).max)
        axes = self.integers(1, 2)
        before, centre, after = (
            self.add(
                "Slice",
                x,
                self.integers(tap * dilation, tap * GROWTH),
                self.integers(end, (tap + 1) * GROWTH),
                axes,
            )
            for tap, end in enumerate(ends)
        )
        return self.add("Add", self.add("Add", before, centre), after)

    def _mask(self, context: str, name: str) -> str:
        """Context of the segments (batch, segments, 128) -> mask (batch, segments, 32)."""
        x = self.add("Transpose", context, perm=[0, 2, 1])
        for layer, shape, activation in (
            ("linear1", (MASK_CHANNELS, BOTTLENECK), "Relu"),
            ("linear2", (GROWTH, MASK_CHANNELS), "Sigmoid"),
        ):
            matrix = self.weights.matrix(f"{name}.{layer}", *shape)
            bias = self.weights(f"{name}.{layer}.bias", shape[0])[:, None]
            x = self.add("MatMul", self.constant(matrix), x)
            x = self.add(activation, self.add("Add", x, self.constant(bias)))
        return self.add("Transpose", x, perm=[0, 2, 1])

    def statistics(self, x: str) -> str:
        """(batch, frames, channels) -> mean and deviation over the frames, (batch, 1024, 1).

        The sums are products with ones: ReduceSum adds the frames of a single row in another order.
        """
        one = self.constant(np.float32(1))
        ones, size = self._segments.ones, self._segments.size
        mean = self.add("Div", self.add("MatMul", ones, x), size)
        residual = self.add("Sub", x, mean)
        squares = self.add("MatMul", ones, self.add("Mul", residual, residual))
        divisor = self.add("Max", self.add("Sub", size, one), one)
        deviation = self.add("Sqrt", self.add("Div", squares, divisor))
        joined = self.add("Concat", mean, deviation, axis=2)  # (batch, 1, 1024)
        return self.add("Transpose", joined, perm=[0, 2, 1])

    def embedding(self, x: str, kernel: Matrix, bias: Matrix) -> str:
        """Statistics (batch, 1024, 1) -> (batch, 192)."""
        x = self.add("MatMul", self.constant(kernel[:, :, 0]), x)
        x = self.add("Add", x, self.constant(bias[:, None]))
        return self.add("Squeeze", x, self.integers(2))


class _PieceGraph(_SpeakerGraph):
    """The network for pieces, with channels first: (batch, channels, 1, frames).

    Attributes:
        inside: 1 for each frame of a piece, 0 after its end; shape (batch, 1, 1, frames).
        inside_halved: the same after the stride of 2, for every second frame.
        mean_factor: all frames after the stride, relative to those of the piece; shape
            (batch, 1, 1, 1).
        divisor: the frames of the piece after the stride less one, relative to all.
    """

    channel_axis = 1

    def __init__(self, arrays: Arrays, frames: int) -> None:
        super().__init__(arrays, enabled=False)
        self.inside = self.slice("feats", 2, BANDS)
        self.inside = self.add("Transpose", self.inside, perm=[0, 2, 1])
        self.inside = self.add("Unsqueeze", self.inside, self.integers(1))
        self.inside_halved = self.slice(self.inside, TIME, 0, step=2)
        one = self.constant(np.float32(1 / ((frames + 1) // 2)))  # frame, relative to all
        share = self.add("ReduceMean", self.inside_halved, axes=[TIME], keepdims=1)
        self.mean_factor = self.add("Reciprocal", self.add("Max", share, one))
        self.divisor = self.add("Max", self.add("Sub", share, one), one)

    def slice(self, x: str, axis: int, start: int, end: int = END, step: int = 1) -> str:
        """Return a part of an axis."""
        bounds = (self.integers(number) for number in (start, end, axis, step))
        return self.add("Slice", x, *bounds)

    def rectify(self, x: str, peak: float) -> str:  # noqa: ARG002 - only for 8-bit numbers
        """Return max(x, 0), and 0 after the end of the piece."""
        return self.add("Mul", self.add("Relu", x), self.inside)

    def tdnn(self, x: str) -> str:
        """(batch, 320, frames) -> (batch, 128, 1, (frames + 1) // 2)."""
        x = self.add("Unsqueeze", x, self.integers(2))
        half = TDNN_KERNEL // 2
        return self.add(
            "Relu",
            self._convolve(x, *self.tdnn_weights(), strides=[1, 2], pads=[0, half, 0, half]),
        )

    def _convolve(self, x: str, kernel: Matrix, bias: Matrix, **attributes: Sequence[int]) -> str:
        """Convolve over the frames with a kernel (outputs, inputs, taps)."""
        weights = self.constant(kernel[:, :, None])
        return self.add("Conv", x, weights, self.constant(bias), **attributes)

    def dense_layer(self, x: str, name: str, channels: int, dilation: int) -> str:
        """(batch, channels, 1, frames) -> (batch, 32, 1, frames)."""
        x = self.bottleneck(x, name, channels)
        x = self.add("Mul", self.add("Relu", x), self.inside_halved)
        kernel = self.weights(f"{name}.cam_layer.linear_local.weight", GROWTH, BOTTLENECK, TAPS)
        pads = [0, dilation, 0, dilation]
        local = self._convolve(x, kernel, np.zeros(GROWTH), dilations=[1, dilation], pads=pads)
        return self.add("Mul", local, self._mask(x, f"{name}.cam_layer"))

    def multiply_rectified(
        self, x: str, norm: str, matrix: Matrix, bias: Matrix | float = 0.0
    ) -> str:
        """See `_SpeakerGraph`."""
        x = self.add("Relu", self.scale(x, *self.weights.affine(norm, matrix.shape[1])))
        return self._convolve(x, matrix[:, :, None], bias + np.zeros(len(matrix)))

    def scale(self, x: str, factor: Matrix, summand: Matrix) -> str:
        """See `_SpeakerGraph`."""
        x = self.add("Mul", x, self.constant(factor[:, None, None]))
        return self.add("Add", x, self.constant(summand[:, None, None]))

    def _mask(self, x: str, name: str) -> str:
        """(batch, 128, 1, frames) -> the mask of all frames (batch, 32, 1, 1)."""
        x = self._mean(x)
        for layer, shape, activation, means in (
            ("linear1", (MASK_CHANNELS, BOTTLENECK), "Relu", 2),  # of the segment and of all frames
            ("linear2", (GROWTH, MASK_CHANNELS), "Sigmoid", 1),
        ):
            kernel = self.weights(f"{name}.{layer}.weight", *shape, 1) * means
            bias = self.weights(f"{name}.{layer}.bias", shape[0])
            x = self.add(activation, self._convolve(x, kernel, bias))
        return x

    def _mean(self, x: str) -> str:
        """Return the mean over the frames of the piece; x is 0 after its end."""
        return self.add("Mul", self.add("ReduceMean", x, axes=[TIME], keepdims=1), self.mean_factor)

    def statistics(self, x: str) -> str:
        """(batch, channels, 1, frames) -> mean and deviation, (batch, 2 channels, 1, 1)."""
        mean = self._mean(self.add("Mul", x, self.inside_halved))
        residual = self.add("Mul", self.add("Sub", x, mean), self.inside_halved)
        squares = self.add("Mul", residual, residual)
        squares = self.add("ReduceMean", squares, axes=[TIME], keepdims=1)
        deviation = self.add("Sqrt", self.add("Div", squares, self.divisor))
        return self.add("Concat", mean, deviation, axis=1)

    def embedding(self, x: str, kernel: Matrix, bias: Matrix) -> str:
        """Statistics (batch, 1024, 1, 1) -> (batch, 192)."""
        return self.add("Squeeze", self._convolve(x, kernel, bias), self.integers(2, TIME))
