"""The ONNX graphs of Whisper: the nodes that encoder and decoder share, and loaded graphs.

Graphs are built node by node from the arrays of CTranslate2's model.bin, without an export or a
conversion of the model. Hidden states have shape (n, d_model): the positions of one row, or the
tokens of all sequences.

Products are computed with numbers of 8 bits:

    x (n, in) ---- level = round(x / step) --.
                                             |-- product of integers -- * step * step -- y (n, out)
    weights ------ level = round(w / step) --'

Each vector x has its own step: its largest absolute value / 127. Each output channel of the weights
also has its own step. The sums of integers are exact. A result therefore depends neither on the
number of vectors in a call nor on the threads.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from whisperbatch.engines.arrays import (
    LAYER_NORM_EPSILON,
    MAX_LEVEL,
    MIN_SCALE,
    Arrays,
    Layout,
    int8_levels,
    int8_scales,
    stored_scales,
)
from whisperbatch.models.files import one_line
from whisperbatch.runtimes.machine import sums_bytes_exactly
from whisperbatch.runtimes.matrix_products import full_scales
from whisperbatch.runtimes.onnx_graph import MICROSOFT, OnnxGraph
from whisperbatch.runtimes.onnx_sessions import open_session

ZERO: Final = 128
"""The byte that stands for zero in a vector with negative numbers."""

POSITIVE_LEVELS: Final = 255
"""The largest level of a number without a sign."""

SHORT_LEVELS: Final = 64
"""The largest level of a computed second factor on processors that add two products of bytes in 16
bits: 2 * 255 * 64 is less than 32,768."""

ROWS_AT_A_TIME: Final = 256  # rounded together: they fit into the processor's cache

ZeroPoints: TypeAlias = tuple[str, int, str]
"""A kind of matrix, the number that stands for zero, and its type: a vector of zero points."""


@dataclass(frozen=True, slots=True)
class Rounded:
    """Vectors in 8 bits.

    Attributes:
        levels: bytes, with the vectors in the last axis.
        steps: the values of a level, shape (..., 1).
    """

    levels: str
    steps: str


def second_levels() -> int:
    """Return the largest level of a computed second factor of a product on this processor."""
    return MAX_LEVEL if sums_bytes_exactly() else SHORT_LEVELS


def rounded_weights(
    weights: npt.NDArray[Any], *, exact_sums: bool
) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.float32]]:
    """Return a matrix in 8 bits, and its steps.

    Args:
        weights: shape (out, in).
        exact_sums: the processor adds products of bytes in 32 bits; see `full_scales`.

    Returns:
        The levels, shape (in, out), and the step of each column, shape (out,).
    """
    rounded = np.empty(weights.shape[::-1], np.int8)
    steps = np.empty(len(weights), np.float32)
    for start in range(0, len(weights), ROWS_AT_A_TIME):
        block = weights[start : start + ROWS_AT_A_TIME].astype(np.float32)
        part = slice(start, start + len(block))
        with np.errstate(invalid="ignore", over="ignore"):  # weights may be damaged
            largest = full_scales(block, exact_sums=exact_sums)
            steps[part] = int8_scales(largest)
            rounded[:, part] = int8_levels(block, steps[part, None]).T
    return rounded, steps


class EightBitProducts:
    """Adds products in 8 bits to a graph.

    Args:
        graph: to which nodes are added.
        levels: the largest level of a computed second factor: `MAX_LEVEL` or `SHORT_LEVELS`.
    """

    def __init__(self, graph: OnnxGraph, levels: int) -> None:
        self._graph, self._levels = graph, levels
        self._zeros: dict[ZeroPoints, str] = {}

    def linear(self, vectors: Rounded, weights: npt.NDArray[Any]) -> str:
        """Multiply vectors (n, in) by weights (out, in); return (n, out)."""
        graph = self._graph
        levels, steps = rounded_weights(weights, exact_sums=self._levels == MAX_LEVEL)
        product = graph.add(
            "MatMulIntegerToFloat",
            vectors.levels,
            graph.constant(levels),
            graph.constant(np.float32(1)),
            graph.constant(steps),
            graph.constant(np.uint8(ZERO)),
            domain=MICROSOFT,
        )
        return graph.add("Mul", product, vectors.steps)

    def product(self, vectors: Rounded, matrix: str, *, zero: int) -> str:
        """Multiply vectors (..., n, in) by computed matrices (..., in, out), in 8 bits.

        The result has still to be multiplied by the steps of the matrices.

        Args:
            vectors: the first factor.
            matrix: the second factor, as levels.
            zero: the byte that stands for zero in the vectors.
        """
        graph = self._graph
        one = graph.constant(np.float32(1))
        byte = graph.constant(np.uint8(zero))
        factors = (vectors.levels, matrix, one, one, byte)
        product = graph.add("MatMulIntegerToFloat", *factors, domain=MICROSOFT)
        return graph.add("Mul", product, vectors.steps)

    def rounded(self, vectors: str, kind: str = "hidden") -> Rounded:
        """Round the vectors of a matrix (n, size), each with its own step.

        Args:
            vectors: the matrix.
            kind: matrices of one kind have the same number of vectors.
        """
        return self._rounded(vectors, self._largest(vectors), MAX_LEVEL, (kind, ZERO, "u1"))

    def rounded_positive(self, vectors: str, kind: str) -> Rounded:
        """Round the vectors of a matrix (n, size) without negative numbers. See `rounded`."""
        largest = self._graph.add("ReduceMax", vectors, axes=[1])
        return self._rounded(vectors, largest, POSITIVE_LEVELS, (kind, 0, "u1"))

    def rounded_second(self, vectors: str, kind: str) -> Rounded:
        """Round the vectors of a matrix, to be the second factor of a product. See `rounded`."""
        return self._rounded(vectors, self._largest(vectors), self._levels, (kind, 0, "i1"))

    def _largest(self, vectors: str) -> str:
        """Return the largest absolute value of each vector (n, 1)."""
        graph = self._graph  # without a matrix of absolute values, whose memory takes time
        smallest = graph.add("ReduceMin", vectors, axes=[1])
        return graph.add(
            "Max", graph.add("ReduceMax", vectors, axes=[1]), graph.add("Neg", smallest)
        )

    def _rounded(self, vectors: str, largest: str, levels: int, zero: ZeroPoints) -> Rounded:
        graph = self._graph
        steps = graph.add("Mul", largest, graph.constant(np.float32(1 / levels)))
        steps = graph.add("Max", steps, graph.constant(np.float32(MIN_SCALE)))
        flat = graph.add("Reshape", steps, graph.integers(-1))
        if zero not in self._zeros:
            self._zeros[zero] = graph.filled(flat, zero[1], zero[2])
        return Rounded(graph.add("QuantizeLinear", vectors, flat, self._zeros[zero], axis=0), steps)


class NodeBuilder:
    """Builds the nodes of a graph.

    Args:
        arrays: the model's arrays, by CTranslate2's names.
        part: "encoder" or "decoder".
        levels: the largest level of a computed second factor of a product.

    Attributes:
        graph: to which the nodes are added.
        products: adds products in 8 bits to the graph.
        layout: sizes of the part.
    """

    def __init__(self, arrays: Arrays, part: str, levels: int) -> None:
        self.graph = OnnxGraph()
        self.products = EightBitProducts(self.graph, levels)
        self.layout = Layout.from_arrays(arrays, part)
        self._arrays = arrays

    def stored(self, name: str) -> npt.NDArray[Any]:
        """Return an array of the model in the type in which it is stored, if this is a float."""
        array, scales = self._arrays[name], stored_scales(self._arrays, name)
        return array if scales is None else array * scales

    def array(self, name: str) -> npt.NDArray[np.float32]:
        """Return an array of the model in float32."""
        return self.stored(name).astype(np.float32)

    def weights(self, name: str) -> str:
        """Return an array of the model as a constant in float32."""
        return self.graph.constant(self.array(name))

    def linear(self, hidden: str, name: str) -> str:
        """Apply a linear layer: (n, in) to (n, out)."""
        return self.linear_parts(self.products.rounded(hidden), name, 1)[0]

    def linear_parts(self, hidden: Rounded, name: str, count: int) -> list[str]:
        """Apply a linear layer to rounded vectors; return its output in equal parts.

        A product for each part takes less time than a product that is split afterwards.
        """
        weights, biases = self.array(f"{name}/weight"), self.array(f"{name}/bias")
        return [
            self.graph.add("Add", self.products.linear(hidden, rows), self.graph.constant(bias))
            for rows, bias in zip(np.split(weights, count), np.split(biases, count), strict=True)
        ]

    def layer_norm(self, hidden: str, name: str) -> str:
        """Apply layer normalisation."""
        return self.graph.add(
            "LayerNormalization",
            hidden,
            self.weights(f"{name}/gamma"),
            self.weights(f"{name}/beta"),
            axis=-1,
            epsilon=LAYER_NORM_EPSILON,
        )

    def feed_forward(self, hidden: str, name: str) -> str:
        """Apply the feed-forward half of a layer, with its residual connection."""
        inner = self.layer_norm(hidden, f"{name}/ffn/layer_norm")
        inner = self.gelu(self.linear(inner, f"{name}/ffn/linear_0"))
        return self.graph.add("Add", hidden, self.linear(inner, f"{name}/ffn/linear_1"))

    def gelu(self, hidden: str) -> str:
        """Apply the exact GELU, with the error function."""
        return self.graph.add("Gelu", hidden, domain=MICROSOFT)


class Session:
    """A loaded graph. Thread-safe; releases the GIL while it works.

    Args:
        name: of the graph, for errors.
        content: of the .onnx file.
        threads: number of threads that compute a call, with the calling thread. Calls at the same
            time share all but their own threads.
        keep_memory: keep the memory of intermediate results for the next call.

    Raises:
        RuntimeError: onnxruntime cannot load the graph.
    """

    def __init__(
        self, name: str, content: bytes, threads: int, *, keep_memory: bool = False
    ) -> None:
        self._name = name
        try:
            self._session: Any = open_session(content, threads, keep_memory=keep_memory)
        except Exception as error:  # see `open_session`
            raise RuntimeError(f"onnxruntime cannot load {name}: {one_line(error)}") from error

    def __call__(self, inputs: Mapping[str, npt.NDArray[Any]]) -> list[npt.NDArray[Any]]:
        """Return the outputs.

        Args:
            inputs: by name; contiguous arrays are not copied.

        Raises:
            RuntimeError: onnxruntime cannot compute the graph.
        """
        contiguous = {name: np.ascontiguousarray(array) for name, array in inputs.items()}
        try:
            outputs: list[npt.NDArray[Any]] = self._session.run(None, contiguous)
        except Exception as error:  # as above
            message = f"onnxruntime cannot compute {self._name}: {one_line(error)}"
            raise RuntimeError(message) from error
        return outputs
