"""The graphs of the networks, with random weights.

tests/model/test_diarization_networks.py compares the networks with PyTorch, with real weights.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest

from tests.unit.diarization.networks.checkpoints import (
    Arrays,
    random_embedding,
    random_segmentation,
)
from whisperbatch.diarization.networks.embedding_graph import embedding_graph, piece_graph
from whisperbatch.diarization.networks.graph import LEVELS, EightBitGraph
from whisperbatch.diarization.networks.segmentation_graph import (
    BLOCK,
    segmentation_graph,
    sinc_filters,
)
from whisperbatch.diarization.segmentation import STEP, WINDOW_SAMPLES
from whisperbatch.errors import ModelError
from whisperbatch.runtimes.machine import sums_bytes_exactly
from whisperbatch.runtimes.onnx_graph import Port
from whisperbatch.runtimes.onnx_sessions import open_session

onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")

Array = npt.NDArray[np.float64]

COSINE = 0.9  # in 8 bits and in float32, with random weights, whose ranges are unknown


@pytest.fixture(scope="module")
def arrays() -> Arrays:
    return random_embedding()


@pytest.fixture(scope="module")
def session(arrays: Arrays) -> Any:
    content = embedding_graph(arrays, eight_bits=False)
    return onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])


@pytest.mark.parametrize("longest", [147, pytest.param(200, marks=pytest.mark.slow)])
def test_the_graph_of_pieces_equals_the_graph_of_the_network(
    arrays: Arrays, session: Any, longest: int
) -> None:
    """The frames after the end of a shorter piece do not change its embedding."""
    content = piece_graph(arrays, longest)
    pieces = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    lengths = (3, 4, 60, 101, longest - 1, longest)
    filled = np.zeros((len(lengths), longest, 81), np.float32)
    for row, frames in zip(filled, lengths, strict=True):
        row[:frames, :80] = np.random.default_rng(frames).normal(0, 2, (frames, 80))
        row[:frames, 80] = 1
    (embeddings,) = pieces.run(None, {"feats": filled})
    assert embeddings.shape == (len(lengths), 192)
    for row, frames, embedding in zip(filled, lengths, embeddings, strict=True):
        (expected,) = session.run(None, {"feats": row[None, :frames, :80]})
        np.testing.assert_allclose(embedding, expected[0], atol=1e-4 * np.abs(expected).max())


@pytest.mark.parametrize("exact_sums", [True, False])
def test_eight_bits_change_the_direction_little(
    arrays: Arrays, session: Any, exact_sums: bool
) -> None:
    content = embedding_graph(arrays, exact_sums=exact_sums)
    eight_bits = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    features = np.random.default_rng(0).normal(0, 2, (2, 150, 80)).astype(np.float32)
    (expected,) = session.run(None, {"feats": features})
    (found,) = eight_bits.run(None, {"feats": features})
    norms = np.linalg.norm(expected, axis=1) * np.linalg.norm(found, axis=1)
    assert ((expected * found).sum(axis=1) / norms > COSINE).all()


def test_limited_weights_are_added_exactly_in_16_bits(arrays: Arrays) -> None:
    graph = onnx.load_from_string(embedding_graph(arrays, exact_sums=False)).graph
    weights = [onnx.numpy_helper.to_array(array) for array in graph.initializer]
    matrices = [array for array in weights if array.dtype == np.int8 and array.ndim > 1]
    assert len(matrices) > 100
    for matrix in matrices:
        inputs = matrix.T if matrix.ndim == 2 else np.moveaxis(matrix, 1, -1)
        levels = inputs.astype(int)
        for same_sign in (np.maximum(levels, 0), np.minimum(levels, 0)):
            assert np.abs(same_sign[..., ::2] + same_sign[..., 1::2]).max() <= 128


def test_a_single_frame_has_no_deviation(session: Any) -> None:
    (embedding,) = session.run(None, {"feats": np.ones((2, 1, 80), np.float32)})
    assert np.isfinite(embedding).all()


@pytest.mark.parametrize("change", ["missing", "shape", "nan", "variance"])
def test_wrong_weights_are_refused(arrays: Arrays, change: str) -> None:
    name = "xvector.block2.tdnnd7.nonlinear2.batchnorm.running_var"
    changed = {"missing": None, "shape": np.ones(3), "nan": np.full(128, np.nan)}
    value = changed.get(change, np.full(128, -1.0))
    broken = arrays | ({} if value is None else {name: value})
    if value is None:
        del broken[name]
    with pytest.raises(ModelError, match=name):
        embedding_graph(broken)


pytest.importorskip("onnx")


def test_a_negative_weight_turns_the_samples_around() -> None:
    """The first layer takes absolute values: its graph must know the sign of the weight."""
    samples = np.random.default_rng(1).normal(0.2, 0.1, WINDOW_SAMPLES).astype(np.float32)
    results = []
    for sign in (1, -1):
        arrays = random_segmentation()
        arrays["sincnet.wav_norm1d.weight"] *= sign
        session = onnxruntime.InferenceSession(
            segmentation_graph(arrays), providers=["CPUExecutionProvider"]
        )
        blocks = np.lib.stride_tricks.sliding_window_view(sign * samples, BLOCK)[::STEP]
        results.append(session.run(None, {"blocks": blocks[:, None]})[0])
    upright, inverted = results
    assert upright.shape == (1, 589, 7)
    np.testing.assert_allclose(upright, inverted, atol=1e-4)


def test_filters_pass_their_band() -> None:
    filters = sinc_filters(np.array([950.0]), np.array([150.0]), np.hamming(251)[:125])
    assert filters.shape == (2, 251)
    np.testing.assert_allclose(filters[0], filters[0, ::-1])
    np.testing.assert_allclose(filters[1], -filters[1, ::-1])
    response = np.abs(np.fft.rfft(filters, 16_000))  # by Hz
    assert (response[:, 1100] > 10 * response[:, 800]).all()  # the band is 1000 to 1200 Hz
    assert (response[:, 1100] > 10 * response[:, 1400]).all()


def test_wrong_segmentation_weights_are_refused() -> None:
    arrays = random_segmentation()
    arrays["lstm.weight_hh_l2"] = arrays["lstm.weight_hh_l2"][:, :64]
    with pytest.raises(
        ModelError, match=r"lstm.weight_hh_l2 .* \(512, 64\) instead of \(512, 128\)"
    ):
        segmentation_graph(arrays)


Multiply = Callable[[EightBitGraph, str, Any], str]

PEAK = 400.0  # above the largest sum


def matrix(graph: EightBitGraph, x: str, weights: Any) -> str:
    return graph.add("MatMul", x, graph.quantize_weights(weights, 1))


def convolution(graph: EightBitGraph, x: str, weights: Any) -> str:
    bias = graph.constant(np.zeros(len(weights)))
    return graph.add("Conv", x, graph.quantize_weights(weights, 0), bias, pads=[1] * 4)


@pytest.mark.parametrize(
    ("multiply", "shape", "inputs", "size"),
    [(matrix, (2, 74, 128), 0, (128, 96)), (convolution, (1, 32, 20, 30), 1, (32, 32, 3, 3))],
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
