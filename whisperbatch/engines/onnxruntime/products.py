"""Products with numbers of 8 bits in an ONNX graph.

    x (n, in) ---- level = round(x / step) --.
                                             |-- product of integers -- * step * step -- y (n, out)
    weights ------ level = round(w / step) --'

Each vector x has a step of its own, the largest absolute value / 127, and so has each column of the
weights. The sums of integers are exact. A result therefore depends neither on the number of vectors
in a call nor on the threads.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from whisperbatch.engines.quantization import MIN_SCALE
from whisperbatch.machine import sums_bytes_exactly
from whisperbatch.onnx_graph import MICROSOFT, OnnxGraph

ZERO: Final = 128
"""The byte that stands for zero in a vector with negative numbers."""

LEVELS: Final = 127
"""The largest level of a number with a sign."""

POSITIVE_LEVELS: Final = 255
"""The largest level of a number without a sign."""

SHORT_LEVELS: Final = 63
"""The largest level of the second factor on processors that add two products of bytes in 16 bits:
2 * 255 * 63 is the largest even number of levels whose sum fits."""


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
    """Return the largest level of the second factor of a product on this processor."""
    return LEVELS if sums_bytes_exactly() else SHORT_LEVELS


def rounded_weights(
    weights: npt.NDArray[np.float32], levels: int
) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.float32]]:
    """Return a matrix in 8 bits, and its steps.

    Args:
        weights: shape (out, in).
        levels: the largest level.

    Returns:
        The levels, shape (in, out), and the step of each column, shape (out,).
    """
    steps = (np.abs(weights).max(axis=1) / levels).clip(MIN_SCALE)
    rounded = np.rint(weights / steps[:, None]).astype(np.int8)
    return np.ascontiguousarray(rounded.T), steps.astype(np.float32)


class EightBitProducts:
    """Adds products in 8 bits to a graph.

    Args:
        graph: to which nodes are added.
        levels: the largest level of the second factor.
    """

    def __init__(self, graph: OnnxGraph, levels: int) -> None:
        self._graph, self._levels = graph, levels

    def linear(self, vectors: Rounded, weights: npt.NDArray[np.float32]) -> str:
        """Multiply vectors (n, in) by weights (out, in); return (n, out)."""
        graph = self._graph
        levels, steps = rounded_weights(weights, self._levels)
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
        product = graph.add(
            "MatMulInteger",
            vectors.levels,
            matrix,
            graph.constant(np.uint8(zero)),
            graph.constant(np.int8(0)),
        )
        return graph.add("Mul", graph.as_float32(product), vectors.steps)

    def rounded(self, vectors: str) -> Rounded:
        """Round the vectors of a matrix (n, size), each with its own step."""
        graph = self._graph
        largest = graph.add("ReduceMax", graph.add("Abs", vectors), axes=[1])
        return self._rounded(vectors, largest, LEVELS, ZERO, np.uint8)

    def rounded_positive(self, vectors: str) -> Rounded:
        """Round the vectors of a matrix (n, size) without negative numbers."""
        largest = self._graph.add("ReduceMax", vectors, axes=[1])
        return self._rounded(vectors, largest, POSITIVE_LEVELS, 0, np.uint8)

    def rounded_second(self, vectors: str) -> Rounded:
        """Round the vectors of a matrix (n, size), to be the second factor of a product."""
        graph = self._graph
        largest = graph.add("ReduceMax", graph.add("Abs", vectors), axes=[1])
        return self._rounded(vectors, largest, self._levels, 0, np.int8)

    def _rounded(
        self, vectors: str, largest: str, levels: int, zero: int, dtype: npt.DTypeLike
    ) -> Rounded:
        graph = self._graph
        steps = graph.add("Mul", largest, graph.constant(np.float32(1 / levels)))
        steps = graph.add("Max", steps, graph.constant(np.float32(MIN_SCALE)))
        flat = graph.add("Reshape", steps, graph.integers(-1))
        zeros = graph.filled(flat, zero, dtype)
        return Rounded(graph.add("QuantizeLinear", vectors, flat, zeros, axis=0), steps)
