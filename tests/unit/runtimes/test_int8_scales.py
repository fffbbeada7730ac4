"""Weights whose products with bytes are added exactly in 16 bits."""

import numpy as np
import pytest

from whisperbatch.runtimes.matrix_products import full_scales


@pytest.mark.parametrize("columns", [1, 2, 7, 64])
def test_two_neighbours_add_up_to_at_most_128_levels(columns: int) -> None:
    weights = np.random.default_rng(columns).standard_normal((500, columns)).astype(np.float32)
    largest = full_scales(weights, exact_sums=False)
    levels = np.rint(weights / largest[:, None] * 127).astype(int)
    even = np.pad(levels, ((0, 0), (0, columns % 2)))
    for same_sign in (np.maximum(even, 0), np.minimum(even, 0)):
        sums = np.abs(same_sign[:, ::2] + same_sign[:, 1::2])
        assert sums.max() in {127, 128}
        assert 255 * sums.max() < 2**15


def test_neighbours_of_different_signs_do_not_limit_each_other() -> None:
    weights = np.array([[3, -4, 1, 1], [2, 2, -3, 1]], np.float32)
    assert full_scales(weights, exact_sums=False).tolist() == [4, 4]
    assert full_scales(weights, exact_sums=True).tolist() == [4, 3]
