"""Products of matrices, int8 scales, and ONNX sessions."""

import sys

import numpy as np
import pytest

from whisperbatch.runtimes.matrix_products import (
    MULTIPLICATIONS,
    VECTOR_MULTIPLICATIONS,
    block_shape,
    full_scales,
    product,
)
from whisperbatch.runtimes.onnx_graph import OnnxGraph, Port
from whisperbatch.runtimes.onnx_sessions import open_session


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


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ((160, 256), (256, 80)),
        ((8, 70, 64), (8, 64, 1051)),  # a batch of matrices
        ((8, 70, 64), (64, 33)),  # one matrix for the batch
        ((3000, 192), (192, 1)),
        ((1, 512), (512, 99)),
        ((0, 192), (192, 4)),
        ((5, 192), (192, 0)),
        ((5, 0), (0, 3)),
    ],
)
def test_the_product_is_numpys(one: tuple[int, ...], two: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    first, second = (rng.normal(size=shape).astype(np.float32) for shape in (one, two))
    expected = np.matmul(first.astype(np.float64), second.astype(np.float64))
    found = product(first, second)
    assert found.dtype == np.float32
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-3)
    out = np.full(expected.shape, np.nan, np.float32)
    assert product(first, second, out) is out
    assert np.array_equal(out, found)


def test_views_are_multiplied_as_arrays_are() -> None:
    rng = np.random.default_rng(1)
    keys = rng.normal(size=(8, 500, 64)).astype(np.float32)
    queries = rng.normal(size=(8, 30, 64)).astype(np.float32)
    view = keys.transpose(0, 2, 1)
    np.testing.assert_allclose(product(queries, view), queries @ view, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("inner", [1, 64, 192, 256, 512, 1280, 20_000])
@pytest.mark.parametrize("columns", [1, 2, 7, 80, 1051])
def test_openblas_computes_each_block_with_one_thread(inner: int, columns: int) -> None:
    height, width = block_shape(inner, columns)
    assert height >= 1
    assert 1 <= width <= columns
    if height * width == 1:
        return
    assert height * width * inner <= MULTIPLICATIONS
    if width == 1:
        assert height * inner <= VECTOR_MULTIPLICATIONS
    assert width * inner <= VECTOR_MULTIPLICATIONS  # also if a block has a single row


def test_a_session_does_not_keep_the_content_of_its_graph() -> None:
    graph = OnnxGraph()
    doubled = graph.add("Add", "x", "x")
    content = graph.finish("double", [Port("x", (2,))], [Port(doubled, (2,))])
    references = sys.getrefcount(content)
    session = open_session(content, threads=1)
    assert sys.getrefcount(content) == references
    (output,) = session.run(None, {"x": np.array([1, 3], np.float32)})
    assert output.tolist() == [2, 6]
