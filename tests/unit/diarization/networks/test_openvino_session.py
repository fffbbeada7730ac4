from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.unit.diarization.networks.checkpoints import random_embedding, random_segmentation
from tests.unit.machines import AMX, NO_AMX, use_machine
from whisperbatch.diarization.clustering import normalise
from whisperbatch.diarization.embeddings import PIECE_FRAMES
from whisperbatch.diarization.networks import (
    EmbeddingNetwork,
    SegmentationNetwork,
    networks,
)
from whisperbatch.diarization.networks.embedding_graph import BANDS, embedding_graph, piece_graph
from whisperbatch.diarization.networks.networks import OpenVinoSession
from whisperbatch.diarization.networks.segmentation_graph import BLOCK, SHARED, segmentation_graph
from whisperbatch.diarization.segmentation import WINDOW_SAMPLES
from whisperbatch.errors import ModelError
from whisperbatch.runtimes.openvino_package import fastest_precision, openvino_is_faster


@pytest.mark.parametrize(
    ("features", "openvino", "expected"),
    [
        (AMX, "2026.4.0", True),
        (AMX, "2026.3.0", False),
        (AMX, None, False),
        (NO_AMX, "2026.4.0", False),
    ],
)
def test_openvino_is_used_on_processors_with_amx(
    monkeypatch: pytest.MonkeyPatch, features: str, openvino: str | None, expected: bool
) -> None:
    use_machine(monkeypatch, features, openvino)
    assert openvino_is_faster("a part") == expected


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("onnx")
    pytest.importorskip("openvino")
    path = tmp_path_factory.mktemp("networks") / "segmentation.onnx"
    path.write_bytes(segmentation_graph(random_segmentation()))
    return path


def test_openvino_computes_the_same_function(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    openvino: Any = pytest.importorskip("openvino")
    samples = np.random.default_rng(0).normal(0, 0.1, WINDOW_SAMPLES).astype(np.float32)
    monkeypatch.setattr(networks, "openvino_is_faster", lambda _: False)
    expected = SegmentationNetwork(path)(samples)
    monkeypatch.setattr(networks, "openvino_is_faster", lambda _: True)
    network = SegmentationNetwork(path)
    assert network.precision == fastest_precision(openvino.Core())
    np.testing.assert_allclose(np.exp(network(samples)), np.exp(expected), atol=0.02)


def test_openvino_computes_the_same_embeddings(path: Path) -> None:
    arrays = random_embedding()
    file, pieces = path.with_name("embedding.onnx"), path.with_name("pieces.onnx")
    file.write_bytes(embedding_graph(arrays, eight_bits=False))
    pieces.write_bytes(piece_graph(arrays, PIECE_FRAMES))
    expected = EmbeddingNetwork(file)
    assert not expected.precision
    network = EmbeddingNetwork(file, pieces=pieces)
    assert network.precision
    rng = np.random.default_rng(0)
    lengths = (PIECE_FRAMES, 20, PIECE_FRAMES - 1, 73, PIECE_FRAMES)
    noise = [rng.normal(0, 3, (frames, BANDS)).astype(np.float32) for frames in lengths]
    found, right = (normalise(each(noise)) for each in (network, expected))
    assert (found != right).any()
    assert (found * right).sum(axis=1) == pytest.approx(1, abs=0.002)


def test_a_network_is_compiled_once(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WHISPERBATCH_CACHE", str(tmp_path))
    shape = (1 + SHARED, 1, BLOCK)
    rows = np.random.default_rng(0).normal(0, 0.1, shape).astype(np.float32)
    compiled = []

    def compile_network(*arguments: Any) -> Any:
        compiled.append(arguments[2])
        return original(*arguments)

    original = networks._compile
    monkeypatch.setattr(networks, "_compile", compile_network)
    expected = OpenVinoSession(path, shape)(rows)
    np.testing.assert_array_equal(OpenVinoSession(path, shape)(rows), expected)
    assert compiled == [shape]
    OpenVinoSession(path, (2 + SHARED, 1, BLOCK))
    OpenVinoSession(path, shape, calls=2)
    other = tmp_path / "other.onnx"
    other.write_bytes(segmentation_graph(random_segmentation(1)))
    assert (OpenVinoSession(other, shape)(rows) != expected).any()
    assert len(compiled) == len(list((tmp_path / "openvino").iterdir())) == 4


def test_threads_share_a_session(path: Path) -> None:
    session = OpenVinoSession(path, (2 + SHARED, 1, BLOCK))
    shape = (4, 2 + SHARED, 1, BLOCK)
    calls = list(np.random.default_rng(0).normal(0, 0.1, shape).astype(np.float32))
    calls[2] = calls[2][:-1]
    expected = [session(rows) for rows in calls]
    assert [len(rows) for rows in expected] == [2, 2, 1, 2]
    with ThreadPoolExecutor(4) as pool:
        for found, right in zip(pool.map(session, calls), expected, strict=True):
            np.testing.assert_array_equal(found, right)


def test_a_file_that_openvino_cannot_load_is_a_model_error(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("no such\noperation")

    monkeypatch.setattr(networks, "openvino_is_faster", lambda _: True)
    monkeypatch.setattr(networks, "OpenVinoSession", fail)
    message = r"OpenVINO cannot load the network \(no such operation\)"
    with pytest.raises(ModelError, match=message):
        SegmentationNetwork(path)
    with pytest.raises(ModelError, match=message):
        EmbeddingNetwork(path, pieces=path)
