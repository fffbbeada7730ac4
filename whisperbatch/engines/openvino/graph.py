"""The nodes that Whisper's encoder and decoder have in common, on OpenVINO.

Graphs are built from the arrays of CTranslate2's model.bin, node by node; nothing is exported or
converted beforehand.
"""

from typing import Any, Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from whisperbatch.engines.layout import Arrays, Layout
from whisperbatch.errors import MissingExtraError

EPSILON: Final = 1e-5  # of layer normalisation, PyTorch's
EIGHT_BITS: Final = 127
GROUP: Final = 64  # numbers that share a scale: half the error of one for a whole row
TINY: Final = 1e-30
MATRIX: Final = 2
AT_ONCE: Final = 4096  # rows of a matrix: there is never a second one of it in float32

Precision = Literal["bf16", "f32"]
Node: TypeAlias = Any  # OpenVINO is not imported before it is used


def open_core(*, exact: bool) -> tuple[Any, Precision]:
    """OpenVINO's core, and the precision to compute in.

    Args:
        exact: float32, even where the processor has bfloat16.

    Raises:
        MissingExtraError: OpenVINO is not installed.
    """
    try:
        import openvino  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise MissingExtraError(
            "OpenVINO is not installed: pip install 'whisperbatch[openvino]'"
        ) from error
    core = openvino.Core()
    capabilities = core.get_property("CPU", "OPTIMIZATION_CAPABILITIES")
    return core, "bf16" if "BF16" in capabilities and not exact else "f32"


class Graph:
    """Makes nodes.

    Args:
        ops: the module `openvino.opset13`.
        arrays: by CTranslate2's names.
        part: "encoder" or "decoder".
        small: keep matrices in eight bits; they are multiplied in the model's precision all the
            same.
    """

    def __init__(self, ops: Any, arrays: Arrays, part: str, *, small: bool = False) -> None:  # noqa: ANN401 - a module
        self.ops, self._arrays, self._small = ops, arrays, small
        self.layout = Layout.of(arrays, part)

    def constant(self, *values: int) -> Node:
        """A vector of whole numbers."""
        return self.ops.constant(np.array(values, np.int64))

    def number(self, value: int) -> Node:
        """One whole number."""
        return self.ops.constant(np.int64(value))

    def weights(self, name: str) -> Node:
        """An array, kept as small as it is stored, or in eight bits."""
        stored = self._arrays[name]
        if (scale := self._arrays.get(f"{name}_scale")) is not None:
            ones = (1,) * (stored.ndim - scale.ndim)
            each = 1 / scale.astype(np.float32).reshape(*scale.shape, *ones)  # of rows, or of all
            return self.ops.multiply(self.plain(stored), self.ops.constant(each))
        if not self._small or stored.ndim != MATRIX or stored.shape[1] % GROUP:
            return self.plain(stored)
        small, scales = eight_bits(stored)
        found = self.ops.multiply(self.plain(small), self.ops.constant(scales))
        return self.ops.reshape(found, self.constant(*stored.shape), special_zero=False)

    def plain(self, stored: npt.NDArray[Any]) -> Node:
        """An array as it is stored."""
        return self.ops.convert(self.ops.constant(np.ascontiguousarray(stored)), "f32")

    def linear(self, hidden: Node, name: str) -> Node:
        """(..., in) to (..., out)."""
        product = self.ops.matmul(
            hidden, self.weights(f"{name}/weight"), transpose_a=False, transpose_b=True
        )
        return self.ops.add(product, self.weights(f"{name}/bias"))

    def normalised(self, hidden: Node, name: str) -> Node:
        """Layer normalisation."""
        found = self.ops.mvn(
            hidden,
            self.constant(-1),
            normalize_variance=True,
            eps=EPSILON,
            eps_mode="inside_sqrt",
        )
        scaled = self.ops.multiply(found, self.weights(f"{name}/gamma"))
        return self.ops.add(scaled, self.weights(f"{name}/beta"))

    def fed_forward(self, hidden: Node, name: str) -> Node:
        """A layer's second half, with what goes past it."""
        within = self.normalised(hidden, f"{name}/ffn/layer_norm")
        within = self.ops.gelu(self.linear(within, f"{name}/ffn/linear_0"), "erf")
        return self.ops.add(hidden, self.linear(within, f"{name}/ffn/linear_1"))

    def by_head(self, hidden: Node, stacked: int) -> tuple[Node, ...]:
        """(rows, length, stacked * d_model) to `stacked` of (rows, heads, length, d_model / heads).

        Queries, keys and values are stacked in one matrix.
        """
        shape = self.constant(0, 0, stacked * self.layout.heads, self.layout.size)
        apart = self.ops.transpose(
            self.ops.reshape(hidden, shape, special_zero=True), self.constant(0, 2, 1, 3)
        )
        return tuple(self.ops.split(apart, self.number(1), stacked).outputs())

    def together(self, attended: Node) -> Node:
        """(rows, heads, length, d_model / heads) to (rows, length, d_model)."""
        turned = self.ops.transpose(attended, self.constant(0, 2, 1, 3))
        return self.ops.reshape(turned, self.constant(0, 0, self.layout.d_model), special_zero=True)


def eight_bits(
    weights: npt.NDArray[Any],
) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.float32]]:
    """A matrix in eight bits, and what to multiply it by.

    Args:
        weights: shape (rows, columns), columns a multiple of `GROUP`.

    Returns:
        Shape (rows, columns / GROUP, GROUP), and (rows, columns / GROUP, 1).
    """
    groups = weights.reshape(len(weights), -1, GROUP)
    small = np.empty(groups.shape, np.int8)
    scale = np.empty((*groups.shape[:2], 1), np.float32)
    for start in range(0, len(weights), AT_ONCE):
        part = slice(start, start + AT_ONCE)
        plain = groups[part].astype(np.float32)
        scale[part] = np.maximum(np.abs(plain).max(axis=2, keepdims=True), TINY) / EIGHT_BITS
        small[part] = np.rint(plain / scale[part])
    return small, scale
