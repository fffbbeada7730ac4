"""Products in 8 bits are exact on this processor, even if all numbers are as large as possible."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from whisperbatch.diarization.networks.graph import LEVELS, EightBitGraph
from whisperbatch.runtimes.machine import sums_bytes_exactly
from whisperbatch.runtimes.onnx_graph import Port
from whisperbatch.runtimes.onnx_sessions import open_session

Multiply = Callable[[EightBitGraph, str, Any], str]

PEAK = 400.0  # above the largest sum


def matrix(graph: EightBitGraph, x: str, weights: Any) -> str:
    return graph.add("MatMul", x, graph.quantize_weights(weights, 1))


def convolution(graph: EightBitGraph, x: str, weights: Any) -> str:
    bias = graph.constant(np.zeros(len(weights)))
    return graph.add("Conv", x, graph.quantize_weights(weights, 0), bias, pads=[1] * 4)


@pytest.mark.parametrize(
    ("multiply", "shape", "inputs", "size"),
    [
        (matrix, (2, 74, 128), 0, (128, 96)),
        (convolution, (1, 32, 20, 30), 1, (32, 32, 3, 3)),
    ],
)
@pytest.mark.parametrize("weights", ["equal", "every second", "random"])
def test_sums_are_exact(
    multiply: Multiply, shape: tuple[int, ...], inputs: int, size: tuple[int, ...], weights: str
) -> None:
    numbers = np.ones(size)
    if weights == "every second":  # of the input channels
        np.moveaxis(numbers, inputs, 0)[1::2] = 0
    elif weights == "random":
        numbers = np.abs(np.random.default_rng(0).standard_normal(size))
    graph = EightBitGraph({}, exact_sums=sums_bytes_exactly())
    # without rounding after it, onnxruntime would compute a convolution in float32
    product = graph.rectify(multiply(graph, graph.rectify("x", 1.0), numbers), PEAK)
    ports = [Port(name, ["n"] * len(shape)) for name in ("x", product)]
    session = open_session(graph.finish("product", ports[:1], ports[1:]), threads=1)
    (found,) = session.run(None, {"x": np.ones(shape, np.float32)})
    # every input is 1: a result is the sum of the weights, which saturation would halve
    outputs_first = numbers.T if multiply is matrix else numbers
    expected = outputs_first.reshape(len(outputs_first), -1).sum(axis=1)
    sums = found[0, 0] if multiply is matrix else found[0, :, 5, 5]
    np.testing.assert_allclose(sums, expected, rtol=0.02, atol=PEAK / LEVELS)
