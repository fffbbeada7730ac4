"""The graph of the segmentation network; a NumPy version of each kind of layer is the reference."""

import numpy as np
import numpy.typing as npt
import pytest

from tests.unit.diarization.networks.checkpoints import Arrays, random_segmentation
from whisperbatch.diarization.networks.segmentation_graph import (
    BLOCK,
    segmentation_graph,
    sinc_filters,
)
from whisperbatch.diarization.segmentation import STEP, WINDOW_SAMPLES
from whisperbatch.errors import ModelError

onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")

Array = npt.NDArray[np.float64]


def normalise(x: Array, arrays: Arrays, name: str) -> Array:
    scaled = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)
    weight, bias = (arrays[f"sincnet.{name}.{part}"][:, None] for part in ("weight", "bias"))
    normalised: Array = scaled * weight + bias
    return normalised


def leaky(x: Array) -> Array:
    return np.where(x > 0, x, 0.01 * x)


def convolve(x: Array, kernel: Array, stride: int = 1) -> Array:
    frames = np.lib.stride_tricks.sliding_window_view(x, kernel.shape[2], axis=1)[:, ::stride]
    y: Array = np.einsum("oik,itk->ot", kernel, frames, optimize=True)
    return y


def lstm(x: Array, arrays: Arrays, suffix: str) -> Array:
    """One direction: (frames, inputs) -> (frames, 128)."""
    weights, recurrent = (arrays[f"lstm.weight_{part}_{suffix}"] for part in ("ih", "hh"))
    inputs = x @ weights.T + arrays[f"lstm.bias_ih_{suffix}"] + arrays[f"lstm.bias_hh_{suffix}"]
    hidden = cell = np.zeros(128)
    outputs = []
    for step in inputs:
        gates = (step + recurrent @ hidden).reshape(4, 128)
        enter, forget, leave = (1 / (1 + np.exp(-gates[gate])) for gate in (0, 1, 3))
        cell = forget * cell + enter * np.tanh(gates[2])
        hidden = leave * np.tanh(cell)
        outputs.append(hidden)
    return np.array(outputs)


def reference(samples: Array, arrays: Arrays) -> Array:
    bank = "sincnet.conv1d.0.filterbank"
    filters = sinc_filters(
        arrays[f"{bank}.low_hz_"][:, 0], arrays[f"{bank}.band_hz_"][:, 0], arrays[f"{bank}.window_"]
    )
    x = np.abs(convolve(normalise(samples[None], arrays, "wav_norm1d"), filters[:, None], 10))
    for layer in range(3):
        if layer:
            name = f"sincnet.conv1d.{layer}"
            x = convolve(x, arrays[f"{name}.weight"]) + arrays[f"{name}.bias"][:, None]
        x = x[:, : x.shape[1] // 3 * 3].reshape(len(x), -1, 3).max(2)
        x = leaky(normalise(x, arrays, f"norm1d.{layer}"))
    x = x.T
    for layer in range(4):
        forward = lstm(x, arrays, f"l{layer}")
        backward = lstm(x[::-1], arrays, f"l{layer}_reverse")[::-1]
        x = np.concatenate([forward, backward], axis=1)
    for name in ("linear.0", "linear.1"):
        x = leaky(x @ arrays[f"{name}.weight"].T + arrays[f"{name}.bias"])
    x = x @ arrays["classifier.weight"].T + arrays["classifier.bias"]
    logarithms: Array = x - np.log(np.exp(x).sum(1, keepdims=True))
    return logarithms


@pytest.mark.parametrize("sign", [1, -1])
def test_equals_the_reference(sign: int) -> None:
    """Two windows with an offset, the second louder; a negative weight turns the samples around."""
    arrays = random_segmentation()
    arrays["sincnet.wav_norm1d.weight"] *= sign
    session = onnxruntime.InferenceSession(
        segmentation_graph(arrays), providers=["CPUExecutionProvider"]
    )
    samples = np.random.default_rng(1).normal(0, 0.1, WINDOW_SAMPLES + STEP).astype(np.float32)
    samples[WINDOW_SAMPLES:] *= 5
    samples += 0.2
    blocks = np.lib.stride_tricks.sliding_window_view(samples, BLOCK)[::STEP]
    (result,) = session.run(None, {"blocks": blocks[:, None]})
    assert result.shape == (2, 589, 7)
    for row, start in zip(result, (0, STEP), strict=True):
        window = samples[start : start + WINDOW_SAMPLES].astype(np.float64)
        np.testing.assert_allclose(row, reference(window, arrays), atol=1e-4)


def test_filters_pass_their_band() -> None:
    filters = sinc_filters(np.array([950.0]), np.array([150.0]), np.hamming(251)[:125])
    assert filters.shape == (2, 251)
    np.testing.assert_allclose(filters[0], filters[0, ::-1])
    np.testing.assert_allclose(filters[1], -filters[1, ::-1])
    response = np.abs(np.fft.rfft(filters, 16_000))  # by Hz
    assert (response[:, 1100] > 10 * response[:, 800]).all()  # the band is 1000 to 1200 Hz
    assert (response[:, 1100] > 10 * response[:, 1400]).all()


def test_wrong_weights_are_refused() -> None:
    arrays = random_segmentation()
    arrays["lstm.weight_hh_l2"] = arrays["lstm.weight_hh_l2"][:, :64]
    with pytest.raises(
        ModelError, match=r"lstm.weight_hh_l2 .* \(512, 64\) instead of \(512, 128\)"
    ):
        segmentation_graph(arrays)
