"""Matrix products that the calling thread computes alone, and scales of 8-bit weights.

NumPy's OpenBLAS divides a large product between threads. After the product, these threads wait
actively for some 25 ms, and then take processor time from the model: with a filter bank that
OpenBLAS divided, a transcription with speakers took 1.4 times as long. OpenBLAS divides a product
of matrices with more than 2 ** 18 multiplications (GEMM_MULTITHREAD_THRESHOLD = 4, in
interface/gemm.c), and a product of a matrix and a vector with 9,216 (interface/gemv.c). Larger
products are therefore computed in blocks.

Weights in 8 bits have limits, so that processors add their products with bytes exactly: without
VNNI instructions, processors add the products of two neighbouring weights in 16 bits, and clip the
sum. If the levels of the two weights add up to at most 128, 255 times their sum fits.
"""

import math
from typing import Any, Final

import numpy as np
import numpy.typing as npt

MULTIPLICATIONS: Final = 2**18  # of a block
VECTOR_MULTIPLICATIONS: Final = 9_215  # of a block with one row or one column

Array = npt.NDArray[np.float32]


def product(one: Array, two: Array, out: Array | None = None) -> Array:
    """Return the matrix product of `one` and `two`.

    Args:
        one: shape (..., rows, n).
        two: shape (..., n, columns).
        out: where the product is written, shape (..., rows, columns); None for a new array.
    """
    rows, inner = one.shape[-2:]
    columns = two.shape[-1]
    if out is None:
        batch = np.broadcast_shapes(one.shape[:-2], two.shape[:-2])
        out = np.empty((*batch, rows, columns), np.float32)
    height, width = block_shape(inner, columns)
    for top in range(0, rows, height):
        part = one[..., top : top + height, :]
        for left in range(0, columns, width):
            block: Any = (..., slice(top, top + height), slice(left, left + width))
            np.matmul(part, two[..., left : left + width], out=out[block])
    return out


def block_shape(inner: int, columns: int) -> tuple[int, int]:
    """Return the number of rows and columns of a block."""
    inner = max(inner, 1)
    square = math.isqrt(MULTIPLICATIONS // inner)
    width = max(min(columns, square, VECTOR_MULTIPLICATIONS // inner), 1)
    most = MULTIPLICATIONS if width > 1 else VECTOR_MULTIPLICATIONS
    return max(most // (inner * width), 1), width


def full_scales(weights: npt.NDArray[np.float32], *, exact_sums: bool) -> npt.NDArray[np.float32]:
    """Return the value of each row that becomes level 127.

    Args:
        weights: shape (rows, columns). The neighbours are the columns 0 and 1, 2 and 3, and so on.
        exact_sums: the processor adds in 32 bits. Then the value is the largest absolute weight of
            the row. Otherwise it is the largest sum of two neighbours, where a weight with the
            other sign counts as zero. Most weights are small, so this is only a fifth more.

    Returns:
        Shape (rows,).
    """
    if exact_sums:
        largest: npt.NDArray[np.float32] = np.abs(weights).max(axis=1)
        return largest
    even = np.pad(weights, ((0, 0), (0, weights.shape[1] % 2)))
    largest_sums: npt.NDArray[np.float32] = np.zeros(len(even), np.float32)
    for same_sign in (np.maximum(even, 0), np.minimum(even, 0)):
        sums = same_sign[:, ::2] + same_sign[:, 1::2]
        np.maximum(largest_sums, np.abs(sums).max(axis=1), out=largest_sums)
    return largest_sums
