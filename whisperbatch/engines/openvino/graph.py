"""Builds the OpenVINO nodes that Whisper's encoder and decoder share.

Graphs are built node by node from the arrays of CTranslate2's model.bin, without an export or a
conversion of the model.
"""

from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from whisperbatch.dependencies import interface_note
from whisperbatch.engines.layout import LAYER_NORM_EPSILON, Arrays, Layout
from whisperbatch.engines.quantization import int8_levels, int8_scales, stored_scales
from whisperbatch.errors import MissingExtraError
from whisperbatch.runtimes.openvino_package import Precision, fastest_precision, open_core

MATRIX_NDIM: Final = 2
GROUP_SIZE: Final = 64  # weights that share a scale: half the error of one scale for a whole row
ROWS_AT_A_TIME: Final = 4096  # quantised together: a whole matrix is never copied to float32

Node: TypeAlias = Any  # OpenVINO is imported only when it is used


def core_and_precision(*, exact: bool) -> tuple[Any, Precision]:
    """Return OpenVINO's core, and the precision to compute in.

    Args:
        exact: compute in float32 even if the processor supports bfloat16.

    Raises:
        MissingExtraError: OpenVINO is not installed.
    """
    try:
        core = open_core()
    except ImportError as error:
        missing = "OpenVINO is not installed: pip install 'whisperbatch[openvino]'"
        note = interface_note(error)
        raise MissingExtraError(f"{error}{note}" if note else missing) from error
    return core, "f32" if exact else fastest_precision(core)


class NodeBuilder:
    """Builds the nodes of a graph.

    Args:
        ops: the module `openvino.opset13`.
        arrays: the model's arrays, by CTranslate2's names.
        part: "encoder" or "decoder".
        int8_weights: store matrices in 8 bits; products are still computed in the graph's
            precision.
    """

    def __init__(
        self,
        ops: Any,  # noqa: ANN401 - a module
        arrays: Arrays,
        part: str,
        *,
        int8_weights: bool = False,
    ) -> None:
        self.ops, self._arrays, self._int8_weights = ops, arrays, int8_weights
        self.layout = Layout.from_arrays(arrays, part)

    def integers(self, *values: int) -> Node:
        """Return a constant vector of integers."""
        return self.ops.constant(np.array(values, np.int64))

    def integer(self, value: int) -> Node:
        """Return a constant integer."""
        return self.ops.constant(np.int64(value))

    def weights(self, name: str) -> Node:
        """Return an array in float32, stored as in model.bin or in 8 bits."""
        array = self._arrays[name]
        if (scales := stored_scales(self._arrays, name)) is not None:
            return self.ops.multiply(self.as_float32(array), self.ops.constant(scales))
        if not self._int8_weights or array.ndim != MATRIX_NDIM or array.shape[1] % GROUP_SIZE:
            return self.as_float32(array)
        quantized, scales = quantize_int8(array)
        product = self.ops.multiply(self.as_float32(quantized), self.ops.constant(scales))
        return self.ops.reshape(product, self.integers(*array.shape), special_zero=False)

    def as_float32(self, array: npt.NDArray[Any]) -> Node:
        """Return an array that is stored in its own type, converted to float32."""
        return self.ops.convert(self.ops.constant(np.ascontiguousarray(array)), "f32")

    def linear(self, hidden: Node, name: str) -> Node:
        """Apply a linear layer: (..., in) to (..., out)."""
        product = self.ops.matmul(
            hidden, self.weights(f"{name}/weight"), transpose_a=False, transpose_b=True
        )
        return self.ops.add(product, self.weights(f"{name}/bias"))

    def layer_norm(self, hidden: Node, name: str) -> Node:
        """Apply layer normalisation."""
        normalised = self.ops.mvn(
            hidden,
            self.integers(-1),
            normalize_variance=True,
            eps=LAYER_NORM_EPSILON,
            eps_mode="inside_sqrt",
        )
        scaled = self.ops.multiply(normalised, self.weights(f"{name}/gamma"))
        return self.ops.add(scaled, self.weights(f"{name}/beta"))

    def feed_forward(self, hidden: Node, name: str) -> Node:
        """Apply the feed-forward half of a layer, with its residual connection."""
        inner = self.layer_norm(hidden, f"{name}/ffn/layer_norm")
        inner = self.ops.gelu(self.linear(inner, f"{name}/ffn/linear_0"), "erf")
        return self.ops.add(hidden, self.linear(inner, f"{name}/ffn/linear_1"))

    def split_heads(self, hidden: Node, count: int) -> tuple[Node, ...]:
        """Split the output of a linear layer into queries, keys and values of each head.

        Args:
            hidden: shape (rows, length, count * d_model). Queries, keys and values are computed by
                one matrix.
            count: 3 for queries, keys and values; 2 for keys and values.

        Returns:
            `count` nodes of shape (rows, heads, length, head_size).
        """
        shape = self.integers(0, 0, count * self.layout.heads, self.layout.head_size)
        heads = self.ops.transpose(
            self.ops.reshape(hidden, shape, special_zero=True), self.integers(0, 2, 1, 3)
        )
        return tuple(self.ops.split(heads, self.integer(1), count).outputs())

    def merge_heads(self, attended: Node) -> Node:
        """Reshape (rows, heads, length, head_size) to (rows, length, d_model)."""
        transposed = self.ops.transpose(attended, self.integers(0, 2, 1, 3))
        shape = self.integers(0, 0, self.layout.d_model)
        return self.ops.reshape(transposed, shape, special_zero=True)


def quantize_int8(
    weights: npt.NDArray[Any],
) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.float32]]:
    """Return a matrix in 8 bits, and the scales to multiply it by.

    Args:
        weights: shape (rows, columns), columns a multiple of `GROUP_SIZE`.

    Returns:
        The matrix, shape (rows, columns / GROUP_SIZE, GROUP_SIZE), and the scales, shape
        (rows, columns / GROUP_SIZE, 1).
    """
    groups = weights.reshape(len(weights), -1, GROUP_SIZE)
    quantized = np.empty(groups.shape, np.int8)
    scales = np.empty((*groups.shape[:2], 1), np.float32)
    for start in range(0, len(weights), ROWS_AT_A_TIME):
        rows = slice(start, start + ROWS_AT_A_TIME)
        values = groups[rows].astype(np.float32)
        scales[rows] = int8_scales(np.abs(values).max(axis=2, keepdims=True))
        quantized[rows] = int8_levels(values, scales[rows])
    return quantized, scales
