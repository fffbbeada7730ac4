"""Products with numbers of 8 bits in an ONNX graph.

    x (n, in) ---- level = round(x / step) --.
                                             |-- product of integers -- * step * step -- y (n, out)
    weights ------ level = round(w / step) --'

Each vector x has its own step: its largest absolute value / 127. Each output channel of the weights
also has its own step. The sums of integers are exact. A result therefore depends neither on the
number of vectors in a call nor on the threads.
"""

from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from whisperbatch.engines.quantization import MAX_LEVEL, MIN_SCALE, int8_levels, int8_scales
from whisperbatch.machine import sums_bytes_exactly
from whisperbatch.runtimes.int8_scales import full_scales
from whisperbatch.runtimes.onnx_graph import MICROSOFT, OnnxGraph

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
