"""Builds the OpenVINO nodes of Whisper's encoder.

Graphs are built node by node from the arrays of CTranslate2's model.bin, without an export or a
conversion of the model.
"""

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from whisperbatch.dependencies import interface_note
from whisperbatch.engines.layout import LAYER_NORM_EPSILON, Arrays, Layout
from whisperbatch.engines.quantization import stored_scales
from whisperbatch.errors import MissingExtraError, ModelError
from whisperbatch.models.files import one_line
from whisperbatch.runtimes.openvino_package import Precision, fastest_precision, open_core

Node: TypeAlias = Any  # OpenVINO is imported only when it is used


def core_and_precision() -> tuple[Any, Precision]:
    """Return OpenVINO's core, and the precision to compute in.

    Raises:
        MissingExtraError: OpenVINO is not installed.
        ModelError: OpenVINO does not work on this machine.
    """
    try:
        core = open_core()
        return core, fastest_precision(core)
    except ImportError as error:
        missing = "OpenVINO is not installed: pip install 'whisperbatch[openvino]'"
        note = interface_note(error)
        raise MissingExtraError(f"{error}{note}" if note else missing) from error
    except RuntimeError as error:
        raise ModelError(f"OpenVINO does not work on this machine: {one_line(error)}") from error


class NodeBuilder:
    """Builds the nodes of a graph.

    Args:
        ops: the module `openvino.opset13`.
        arrays: the model's arrays, by CTranslate2's names.
    """

    def __init__(self, ops: Any, arrays: Arrays) -> None:  # noqa: ANN401 - a module
        self.ops, self._arrays = ops, arrays
        self.layout = Layout.from_arrays(arrays, "encoder")

    def integers(self, *values: int) -> Node:
        """Return a constant vector of integers."""
        return self.ops.constant(np.array(values, np.int64))

    def integer(self, value: int) -> Node:
        """Return a constant integer."""
        return self.ops.constant(np.int64(value))

    def weights(self, name: str) -> Node:
        """Return an array in float32, stored as in model.bin."""
        array = self.as_float32(self._arrays[name])
        scales = stored_scales(self._arrays, name)
        return array if scales is None else self.ops.multiply(array, self.ops.constant(scales))

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

    def split_heads(self, hidden: Node) -> tuple[Node, ...]:
        """Split the output of a linear layer into queries, keys and values of each head.

        Args:
            hidden: shape (rows, length, 3 * d_model). Queries, keys and values are computed by one
                matrix.

        Returns:
            Three nodes of shape (rows, heads, length, head_size).
        """
        shape = self.integers(0, 0, 3 * self.layout.heads, self.layout.head_size)
        heads = self.ops.transpose(
            self.ops.reshape(hidden, shape, special_zero=True), self.integers(0, 2, 1, 3)
        )
        return tuple(self.ops.split(heads, self.integer(1), 3).outputs())

    def merge_heads(self, attended: Node) -> Node:
        """Reshape (rows, heads, length, head_size) to (rows, length, d_model)."""
        transposed = self.ops.transpose(attended, self.integers(0, 2, 1, 3))
        shape = self.integers(0, 0, self.layout.d_model)
        return self.ops.reshape(transposed, shape, special_zero=True)
