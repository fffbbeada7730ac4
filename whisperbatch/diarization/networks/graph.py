"""Builds ONNX graphs from the arrays of a checkpoint, in float32 or with 8-bit numbers.

In an `EightBitGraph`, large products are computed with 8-bit numbers:

    x ---- QuantizeLinear -- DequantizeLinear --.
                                                |-- Conv or MatMul    onnxruntime multiplies
    weights in 8 bits ------ DequantizeLinear --'                     integers

A number is rounded to a multiple of a step. The step of an activation is fixed: it comes from the
batch normalisation that the activation has passed, which says how large each channel was in the
training. So no recordings are needed to measure the ranges, and no row depends on another.

In 80 pieces of development conversations, the cosine of an embedding and that of float32 is 0.991
on average, and at least 0.967. Without the balance of the channels, it is 0.98 and 0.93. With
weights of 7 bits, it is 0.982 and 0.87, and the number of speakers is wrong more often. So weights
have 8 bits. On processors that add their products in 16 bits, the weights are limited instead
(matrix_products.py): in 182 pieces, the cosine is 0.992 on average and at least 0.969 (without the
limit 0.993 and 0.976, with 7 bits 0.986 and 0.951).
"""

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from whisperbatch.errors import ModelError
from whisperbatch.runtimes.matrix_products import full_scales
from whisperbatch.runtimes.onnx_graph import OnnxGraph

Array: TypeAlias = npt.NDArray[Any]
Arrays: TypeAlias = Mapping[str, Array]

DEVIATIONS: Final = 8.0  # standard deviations from the mean that can be represented
LEVELS: Final = 255  # of an activation
WEIGHT_LEVELS: Final = 127  # of a weight, above zero

MIN_RANGE: Final = 1e-6  # of an activation, and of the weights of a channel


class Weights:
    """The arrays of a checkpoint, whose shapes are checked when they are read.

    Args:
        arrays: by name.
    """

    def __init__(self, arrays: Arrays) -> None:
        self._arrays = arrays

    def __contains__(self, name: str) -> bool:
        return name in self._arrays

    def __call__(self, name: str, *shape: int) -> npt.NDArray[np.float64]:
        """Return an array in double precision.

        Raises:
            ModelError: the array is missing, has another shape, or contains NaN or infinity.
        """
        array = self._arrays.get(name)
        if array is None:
            raise ModelError(f"the checkpoint has no {name}: it belongs to another network")
        if array.shape != shape:
            raise ModelError(f"{name} of the checkpoint has shape {array.shape} instead of {shape}")
        values = np.asarray(array, np.float64)
        if not np.isfinite(values).all():
            raise ModelError(f"{name} of the checkpoint contains NaN or infinity")
        return values

    def matrix(self, name: str, outputs: int, inputs: int) -> npt.NDArray[np.float64]:
        """Return the weights of a convolution of single frames as a matrix (outputs, inputs)."""
        return self(f"{name}.weight", outputs, inputs, 1)[:, :, 0]

    def fold(
        self, name: str, norm: str, *shape: int
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Return the kernel and the bias of a layer with the batch normalisation after it.

        Args:
            name: of the layer.
            norm: name of the batch normalisation.
            shape: of the kernel: outputs, inputs, and so on.
        """
        factor, summand = self.affine(norm, shape[0])
        kernel = self(f"{name}.weight", *shape)
        return kernel * factor.reshape(-1, *(1 for _ in shape[1:])), summand

    def affine(
        self, name: str, size: int, *, epsilon: float = 1e-5
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Return a batch normalisation as factor and summand, each of shape (size,).

        In inference a batch normalisation is `factor * x + summand` for each channel.

        Args:
            name: of the layer.
            size: number of channels.
            epsilon: added to the variance; PyTorch's default.

        Raises:
            ModelError: see `__call__`; or a variance is negative.
        """
        mean = self(f"{name}.running_mean", size)
        variance = self(f"{name}.running_var", size)
        if (variance < 0).any():
            raise ModelError(f"{name}.running_var of the checkpoint is negative")
        factor = 1 / np.sqrt(variance + epsilon)
        if f"{name}.weight" in self:
            factor *= self(f"{name}.weight", size)
        summand = -mean * factor
        if f"{name}.bias" in self:
            summand += self(f"{name}.bias", size)
        return factor, summand

    def scale(
        self, name: str, size: int
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Return the mean and the standard deviation of each channel after a batch normalisation.

        They are those of the training, each of shape (size,).

        Args:
            name: of the layer.
            size: number of channels.

        Raises:
            ModelError: see `__call__`.
        """
        mean = self(f"{name}.bias", size) if f"{name}.bias" in self else np.zeros(size)
        has_factor = f"{name}.weight" in self
        deviation = np.abs(self(f"{name}.weight", size)) if has_factor else np.ones(size)
        return mean, deviation


class GraphBuilder(OnnxGraph):
    """Collects the nodes of a graph that computes with the arrays of a checkpoint.

    Args:
        arrays: of the checkpoint, by name.

    Attributes:
        weights: the arrays.
    """

    def __init__(self, arrays: Arrays) -> None:
        super().__init__()
        self.weights: Final = Weights(arrays)


class EightBitGraph(GraphBuilder):
    """A graph whose large products are computed with 8-bit numbers.

    Args:
        arrays: of the checkpoint, by name.
        enabled: otherwise nothing is rounded, and the graph computes in float32.
        exact_sums: the processor adds products of bytes in 32 bits.

    Raises:
        MissingExtraError: the package onnx is not installed.
    """

    def __init__(self, arrays: Arrays, *, enabled: bool = True, exact_sums: bool = True) -> None:
        super().__init__(arrays)
        self._enabled, self._exact_sums = enabled, exact_sums

    def reach(self, norm: str, size: int) -> float:
        """Return the largest absolute value of a channel after a batch normalisation."""
        mean, deviation = self.weights.scale(norm, size)
        return float((np.abs(mean) + DEVIATIONS * deviation).max())

    def peak(self, norm: str, size: int) -> float:
        """Return the largest value of a channel after a batch normalisation."""
        mean, deviation = self.weights.scale(norm, size)
        return float((mean + DEVIATIONS * deviation).max())

    def balance(
        self, norm: str, matrix: npt.NDArray[np.float64]
    ) -> tuple[npt.NDArray[np.float64], float]:
        """Return a scale for each channel of an activation, and the peak of the scaled channels.

        A channel is divided by its scale, and its weights are multiplied by the scale. This makes
        the ranges of the channels more alike, and also the ranges of the weights.

        Args:
            norm: the batch normalisation before the activation.
            matrix: the weights after the activation, shape (outputs, channels).
        """
        mean, deviation = self.weights.scale(norm, matrix.shape[1])
        peaks = np.maximum(mean + DEVIATIONS * deviation, MIN_RANGE)
        scales = np.sqrt(peaks / np.maximum(np.abs(matrix).max(axis=0), MIN_RANGE))
        return scales, float((peaks / scales).max())

    def rectify(self, x: str, peak: float) -> str:
        """Return max(x, 0), rounded; values above the peak are clipped."""
        return self._quantize(self.add("Relu", x), max(peak, MIN_RANGE) / LEVELS, 0)

    def quantize(self, x: str, reach: float) -> str:
        """Return x, rounded; larger absolute values than `reach` are clipped."""
        half = LEVELS // 2
        return self._quantize(x, max(reach, MIN_RANGE) / half, half + 1)

    def quantize_weights(self, array: npt.NDArray[np.float64], axis: int) -> str:
        """Return constant weights. Each output channel has its own step.

        Args:
            array: shape (outputs, inputs, ...) or (inputs, outputs).
            axis: of the outputs, 0 or 1.
        """
        if not self._enabled:
            return self.constant(array)
        # onnxruntime adds the input channels of a place one after the other
        rows = np.moveaxis(array, (axis, 1 - axis), (0, -1)).reshape(array.shape[axis], -1)
        largest = full_scales(rows.astype(np.float32), exact_sums=self._exact_sums)
        steps = np.maximum(largest, MIN_RANGE).astype(np.float64) / WEIGHT_LEVELS
        others = tuple(number for number in range(array.ndim) if number != axis)
        numbers = self.constant(np.rint(array / np.expand_dims(steps, others)).astype(np.int8))
        zeros = self.constant(np.zeros(array.shape[axis], np.int8))
        return self.add("DequantizeLinear", numbers, self.constant(steps), zeros, axis=axis)

    def _quantize(self, x: str, step: float, zero: int) -> str:
        if not self._enabled:
            return x
        parameters = self.constant(np.float32(step)), self.constant(np.uint8(zero))
        x = self.add("QuantizeLinear", x, *parameters)
        return self.add("DequantizeLinear", x, *parameters)
