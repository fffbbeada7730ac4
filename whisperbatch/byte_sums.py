"""Limits of weights in 8 bits, so that processors add their products with bytes exactly.

Processors without VNNI instructions add the products of two neighbouring weights in 16 bits, and
clip the sum. If the two weights add up to at most 128, 255 times their sum fits into 16 bits.
"""

from typing import Any

import numpy as np
import numpy.typing as npt


def largest_of_rows(
    weights: npt.NDArray[np.float32], *, exact_sums: bool
) -> npt.NDArray[np.float32]:
    """Return the number of each row that gets the level 127.

    Args:
        weights: shape (rows, columns). The neighbours are the columns 0 and 1, 2 and 3, and so on.
        exact_sums: the processor adds in 32 bits. Then the number is the largest absolute value.
            Otherwise it is the largest sum of the positive, or of the negative, numbers of two
            neighbours. Most weights are small, so this is only a fifth more.

    Returns:
        Shape (rows,).
    """
    if exact_sums:
        largest: npt.NDArray[np.float32] = np.abs(weights).max(axis=1)
        return largest
    even = np.pad(weights, ((0, 0), (0, weights.shape[1] % 2)))
    pairs: npt.NDArray[Any] = np.zeros(len(even), np.float32)
    for same_sign in (np.maximum(even, 0), np.minimum(even, 0)):
        sums = same_sign[:, ::2] + same_sign[:, 1::2]
        np.maximum(pairs, np.abs(sums).max(axis=1), out=pairs)
    return pairs
