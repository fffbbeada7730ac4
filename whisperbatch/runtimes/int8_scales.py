"""Limits of weights in 8 bits, so that processors add their products with bytes exactly.

Processors without VNNI instructions add the products of two neighbouring weights in 16 bits, and
clip the sum. If the levels of the two weights add up to at most 128, 255 times their sum fits.
"""

import numpy as np
import numpy.typing as npt


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
