"""The graph of CAM++ computes what the paper describes; a NumPy version is the reference."""

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest

from tests.unit.diarization.networks.checkpoints import Arrays, random_embedding
from whisperbatch.diarization.networks.embedding_graph import embedding_graph, piece_graph
from whisperbatch.errors import ModelError

onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")

Array = npt.NDArray[np.float64]

COSINE = 0.9  # in 8 bits and in float32, with random weights, whose ranges are unknown


class Reference:
    """CAM++ layer by layer, with channels first and nothing folded."""

    def __init__(self, arrays: Arrays) -> None:
        self.arrays = {name: array.astype(np.float64) for name, array in arrays.items()}

    def __call__(self, features: Array) -> Array:
        x = self.head(features.T[None])
        x = self.relu(
            self.norm(
                self.conv(x.reshape(320, -1), "xvector.tdnn.linear", 2, 1, 2),
                "xvector.tdnn.nonlinear.batchnorm",
            )
        )
        for number, (layers, dilation) in enumerate(((12, 1), (24, 2), (16, 2)), 1):
            for layer in range(1, layers + 1):
                name = f"xvector.block{number}.tdnnd{layer}"
                x = np.concatenate([x, self.dense(x, name, dilation)])
            name = f"xvector.transit{number}"
            x = self.conv(self.relu(self.norm(x, f"{name}.nonlinear.batchnorm")), f"{name}.linear")
        x = self.relu(self.norm(x, "xvector.out_nonlinear.batchnorm"))
        stats = np.concatenate([x.mean(1), x.std(1, ddof=1)])[:, None]
        stats = self.conv(stats, "xvector.dense.linear")
        return self.norm(stats, "xvector.dense.nonlinear.batchnorm")[:, 0]

    def dense(self, x: Array, name: str, dilation: int) -> Array:
        x = self.conv(self.relu(self.norm(x, f"{name}.nonlinear1.batchnorm")), f"{name}.linear1")
        x = self.relu(self.norm(x, f"{name}.nonlinear2.batchnorm"))
        local = self.conv(x, f"{name}.cam_layer.linear_local", 1, dilation, dilation)
        segments = np.concatenate(
            [
                np.broadcast_to(part.mean(1, keepdims=True), part.shape)
                for part in np.split(x, range(100, x.shape[1], 100), axis=1)
            ],
            axis=1,
        )
        context = x.mean(1, keepdims=True) + segments
        context = self.relu(self.conv(context, f"{name}.cam_layer.linear1"))
        masked: Array = local / (1 + np.exp(-self.conv(context, f"{name}.cam_layer.linear2")))
        return masked

    def head(self, x: Array) -> Array:
        x = self.relu(self.norm(self.conv2(x, "head.conv1"), "head.bn1"))
        for name in ("head.layer1.0", "head.layer1.1", "head.layer2.0", "head.layer2.1"):
            stride = 2 if name[-1] == "0" else 1
            y = self.relu(self.norm(self.conv2(x, f"{name}.conv1", stride), f"{name}.bn1"))
            y = self.norm(self.conv2(y, f"{name}.conv2"), f"{name}.bn2")
            if stride > 1:
                x = self.norm(self.conv2(x, f"{name}.shortcut.0", 2), f"{name}.shortcut.1")
            x = self.relu(x + y)
        return self.relu(self.norm(self.conv2(x, "head.conv2", 2), "head.bn2"))

    def norm(self, x: Array, name: str) -> Array:
        values = [
            self.arrays.get(f"{name}.{part}", np.float64(default))
            for part, default in (
                ("running_mean", 0),
                ("running_var", 1),
                ("weight", 1),
                ("bias", 0),
            )
        ]
        shape = (-1, *[1] * (x.ndim - 1))
        mean, variance, weight, bias = (value.reshape(shape) for value in values)
        return (x - mean) / np.sqrt(variance + 1e-5) * weight + bias

    def conv(self, x: Array, name: str, stride: int = 1, dilation: int = 1, pad: int = 0) -> Array:
        kernel = self.arrays[f"{name}.weight"]
        padded = np.pad(x, ((0, 0), (pad, pad)))
        size = (kernel.shape[2] - 1) * dilation + 1
        frames = np.lib.stride_tricks.sliding_window_view(padded, size, axis=1)
        y: Array = np.einsum("oik,itk->ot", kernel, frames[:, ::stride, ::dilation], optimize=True)
        y += self.arrays.get(f"{name}.bias", np.zeros(len(kernel)))[:, None]
        return y

    def conv2(self, x: Array, name: str, stride: int = 1) -> Array:
        kernel = self.arrays[f"{name}.weight"]
        pad, size = kernel.shape[2] // 2, kernel.shape[2:]
        padded = np.pad(x, ((0, 0), (pad, pad), (pad, pad)))
        patches = np.lib.stride_tricks.sliding_window_view(padded, size, axis=(1, 2))
        y: Array = np.einsum("oihw,ifthw->oft", kernel, patches[:, ::stride], optimize=True)
        return y

    @staticmethod
    def relu(x: Array) -> Array:
        rectified: Array = np.maximum(x, 0)
        return rectified


@pytest.fixture(scope="module")
def arrays() -> Arrays:
    return random_embedding()


@pytest.fixture(scope="module")
def session(arrays: Arrays) -> Any:
    content = embedding_graph(arrays, eight_bits=False)
    return onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])


@pytest.mark.parametrize(
    "frames", [3, 199, 201, *(pytest.param(n, marks=pytest.mark.slow) for n in (40, 450))]
)
def test_equals_the_reference(arrays: Arrays, session: Any, frames: int) -> None:
    features = np.random.default_rng(frames).normal(0, 2, (1, frames, 80)).astype(np.float32)
    (embedding,) = session.run(None, {"feats": features})
    expected = Reference(arrays)(features[0].astype(np.float64))
    assert embedding.shape == (1, 192)
    np.testing.assert_allclose(embedding[0], expected, atol=1e-4 * np.abs(expected).max())


@pytest.mark.parametrize("longest", [147, pytest.param(200, marks=pytest.mark.slow)])
def test_the_graph_of_pieces_equals_the_reference(arrays: Arrays, longest: int) -> None:
    """The frames after the end of a shorter piece do not change its embedding."""
    content = piece_graph(arrays, longest)
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    lengths = (3, 4, 60, 101, longest - 1, longest)
    filled = np.zeros((len(lengths), longest, 81), np.float32)
    for row, frames in zip(filled, lengths, strict=True):
        row[:frames, :80] = np.random.default_rng(frames).normal(0, 2, (frames, 80))
        row[:frames, 80] = 1
    (embeddings,) = session.run(None, {"feats": filled})
    assert embeddings.shape == (len(lengths), 192)
    for row, frames, embedding in zip(filled, lengths, embeddings, strict=True):
        expected = Reference(arrays)(row[:frames, :80].astype(np.float64))
        np.testing.assert_allclose(embedding, expected, atol=1e-4 * np.abs(expected).max())


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
