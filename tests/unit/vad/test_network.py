"""Silero's network with products: its nodes, and its probabilities beside those of the original."""

from typing import TypeAlias

import numpy as np
import onnx
import onnxruntime
import pytest

from whisperbatch.vad.levels import FRAME
from whisperbatch.vad.silero import CELLS, CONTEXT, network_with_products
from whisperbatch.vad.weights import find_weights

Session: TypeAlias = onnxruntime.InferenceSession


@pytest.fixture(scope="module")
def network() -> bytes:
    return network_with_products(find_weights())


@pytest.fixture(scope="module")
def sessions(network: bytes) -> tuple[Session, Session]:
    """The network as it is installed, and with products."""
    original, providers = find_weights().read_bytes(), ["CPUExecutionProvider"]
    return Session(original, providers=providers), Session(network, providers=providers)


def test_the_convolutions_are_products(network: bytes) -> None:
    operators = [node.op_type for node in onnx.load_from_string(network).graph.node]
    assert operators.count("MatMul") == 5
    assert operators.count("Conv") == 1  # after the LSTM: one filter of one sample


@pytest.mark.parametrize("frames", [1, 2, 64])
@pytest.mark.parametrize("level", [0.0, 1e-3, 0.1, 1.0])
def test_probabilities_are_those_of_the_original(
    sessions: tuple[Session, Session], frames: int, level: float
) -> None:
    rng = np.random.default_rng(frames)
    inputs = {
        "input": level * rng.standard_normal((frames, CONTEXT + FRAME)).astype(np.float32),
        "h": rng.standard_normal((1, 1, CELLS)).astype(np.float32),
        "c": rng.standard_normal((1, 1, CELLS)).astype(np.float32),
    }
    expected, found = (session.run(None, inputs) for session in sessions)
    for expected_array, array in zip(expected, found, strict=True):
        np.testing.assert_allclose(array, expected_array, rtol=1e-4, atol=1e-5)


def test_unused_weights_are_left_out(network: bytes) -> None:
    assert len(network) < 1.01 * find_weights().stat().st_size
