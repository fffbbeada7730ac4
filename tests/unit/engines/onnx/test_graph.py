"""Products in 8 bits are near those in float32, and do not depend on the other vectors."""

import numpy as np
import numpy.typing as npt
import onnxruntime
import pytest

from whisperbatch.engines.arrays import MAX_LEVEL
from whisperbatch.engines.onnx import graph as onnx_graph
from whisperbatch.engines.onnx.graph import (
    POSITIVE_LEVELS,
    SHORT_LEVELS,
    ZERO,
    EightBitProducts,
    rounded_weights,
    second_levels,
)
from whisperbatch.runtimes.onnx_graph import OnnxGraph, Port

Array = npt.NDArray[np.float32]

INNER, OUTER = 192, 64
RANDOM = np.random.default_rng(0)


def run(graph: OnnxGraph, output: str, **inputs: Array) -> Array:
    ports = [Port(name, [f"{name}{n}" for n in range(x.ndim)]) for name, x in inputs.items()]
    content = graph.finish("test", ports, [Port(output, ("n", "m"))])
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    result: Array = session.run(None, inputs)[0]
    return result


def linear(vectors: Array, weights: Array, levels: int) -> Array:
    graph = OnnxGraph()
    eight_bits = EightBitProducts(graph, levels)
    output = eight_bits.linear(eight_bits.rounded("vectors"), weights)
    return run(graph, output, vectors=vectors)


@pytest.mark.parametrize("levels", sorted({SHORT_LEVELS, second_levels()}))
def test_a_linear_layer_is_near_float32(levels: int) -> None:
    vectors = RANDOM.standard_normal((33, INNER)).astype(np.float32)
    vectors *= 10.0 ** RANDOM.integers(-3, 3, (33, 1))  # each has its own step
    weights = RANDOM.standard_normal((OUTER, INNER)).astype(np.float32)
    expected = vectors @ weights.T
    result = linear(vectors, weights, levels)
    errors = np.linalg.norm(result - expected, axis=1) / np.linalg.norm(expected, axis=1)
    assert 0 < errors.max() < 0.03
    for row in range(len(vectors)):
        assert np.array_equal(linear(vectors[row : row + 1], weights, levels)[0], result[row])


PAIRS = [(127, 0), (0, 127), (64, 63), (-127, 0), (-64, -63), (127, -127)]
"""Neighbouring weights whose levels are the weights themselves."""


@pytest.mark.parametrize("count", [1, 2, 3, 5, 8, 9, 40])
@pytest.mark.parametrize(
    ("levels", "pair"),
    [
        *((SHORT_LEVELS, pair) for pair in PAIRS),
        pytest.param(
            *(MAX_LEVEL, (127, 127)),
            marks=pytest.mark.skipif(
                second_levels() != MAX_LEVEL, reason="this processor adds products in 16 bits"
            ),
        ),
    ],
)
def test_the_largest_sums_are_exact(levels: int, pair: tuple[int, int], count: int) -> None:
    """Processors that add two products in 16 bits would clip larger sums."""
    weights = np.tile(np.array(pair, np.float32), (OUTER, INNER // 2))
    vectors = np.full((count, INNER), 127, np.float32)
    vectors[::2, ::3] = -127
    vectors[1::2] *= -1
    result = linear(vectors, weights, levels)
    assert np.array_equal(result, vectors @ weights.T)


def test_zeros_stay_zeros() -> None:
    vectors = np.zeros((2, INNER), np.float32)
    vectors[1] = 1
    weights = RANDOM.standard_normal((OUTER - 3, INNER)).astype(np.float32)
    result = linear(vectors, weights, SHORT_LEVELS)
    assert result.shape == (2, OUTER - 3)
    assert not result[0].any()


@pytest.mark.parametrize("positive", [False, True])
def test_a_product_of_computed_matrices_is_near_float32(*, positive: bool) -> None:
    first = RANDOM.standard_normal((5, INNER)).astype(np.float32)
    first = np.abs(first) if positive else first
    second = RANDOM.standard_normal((OUTER, INNER)).astype(np.float32)
    graph = OnnxGraph()
    eight_bits = EightBitProducts(graph, second_levels())
    columns = eight_bits.rounded_second("second", "columns")
    levels = graph.add("Transpose", columns.levels, perm=[1, 0])
    rounded = eight_bits.rounded_positive if positive else eight_bits.rounded
    product = eight_bits.product(rounded("first", "rows"), levels, zero=0 if positive else ZERO)
    steps = graph.add("Reshape", columns.steps, graph.integers(1, -1))
    result = run(graph, graph.add("Mul", product, steps), first=first, second=second)
    expected = first @ second.T
    assert np.linalg.norm(result - expected) / np.linalg.norm(expected) < 0.03


@pytest.mark.parametrize("exact_sums", [False, True])
def test_weights_are_rounded_in_blocks(
    monkeypatch: pytest.MonkeyPatch, *, exact_sums: bool
) -> None:
    weights = RANDOM.standard_normal((10, 9)).astype(np.float16)
    levels, steps = rounded_weights(weights, exact_sums=exact_sums)
    monkeypatch.setattr(onnx_graph, "ROWS_AT_A_TIME", 3)
    block_levels, block_steps = rounded_weights(weights, exact_sums=exact_sums)
    assert np.array_equal(block_levels, levels)
    assert np.array_equal(block_steps, steps)
    assert np.abs(levels.T * steps[:, None] - weights).max() <= steps.max() / 2 + 1e-6
    if exact_sums:
        assert np.abs(levels).max(axis=0).tolist() == [MAX_LEVEL] * 10
    for sign in (1, -1):
        positive = np.maximum(sign * levels.astype(int), 0)
        sums = positive[:8:2] + positive[1:8:2]
        assert exact_sums or POSITIVE_LEVELS * sums.max() < 2**15


def test_short_levels_are_the_largest_whose_sums_fit() -> None:
    assert 2 * POSITIVE_LEVELS * SHORT_LEVELS < 2**15 <= 2 * POSITIVE_LEVELS * (SHORT_LEVELS + 1)
