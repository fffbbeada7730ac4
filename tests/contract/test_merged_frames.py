"""Merged frames: a group is computed like its positions would be."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks import recordings
from tests.contract.engines import requests_for
from tests.contract.tiny_model import tiny_model
from whisperbatch import Options
from whisperbatch.engines.loading import load_engine
from whisperbatch.engines.onnx.encoder import EncoderOutput, log_sizes
from whisperbatch.engines.onnx.openvino_graphs import EncoderGraphs
from whisperbatch.features import feature_extractor
from whisperbatch.models import find_model
from whisperbatch.models.model_bin import read_arrays
from whisperbatch.protocols import AlignRequest, Engine
from whisperbatch.runtimes.openvino_package import open_core


def load(model: str | Path, kept_frames: float | None) -> Engine:
    return load_engine(model, engine="openvino", device="cpu", kept_frames=kept_frames)


@pytest.fixture(scope="module")
def features() -> np.ndarray:
    rng = np.random.default_rng(0)
    return rng.standard_normal((2, 80, 3000)).astype(np.float32)


def test_the_two_parts_of_the_encoder_compute_what_the_whole_encoder_computes(
    features: np.ndarray,
) -> None:
    core = open_core()
    arrays = read_arrays(find_model("tiny.en") / "model.bin", "encoder/")
    graphs = EncoderGraphs(arrays)
    whole, start, end = (
        core.compile_model(build(), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
        for build in (graphs.whole, graphs.start, graphs.end)
    )
    hidden = start([features[:1]])[0]
    states = end([hidden, log_sizes(np.ones(1500, np.int64))[None, None, None]])[0]
    np.testing.assert_allclose(states, whole([features[:1]])[0], atol=1e-3)


def test_a_model_without_a_measured_share_keeps_all_frames(tiny_directory: Path) -> None:
    engine = load(tiny_directory, None)
    encoded = engine.encode(np.zeros((1, 80, 3000), np.float32))
    assert isinstance(encoded, EncoderOutput)
    assert encoded.sizes is None
    assert encoded.states[0].shape[0] == 1500
    engine.close()


def test_the_encoder_counts_a_group_as_often_as_it_has_positions() -> None:
    arrays = read_arrays(find_model("tiny.en") / "model.bin", "encoder/")
    graph = EncoderGraphs(arrays).end()
    end = open_core().compile_model(graph, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    rng = np.random.default_rng(0)
    sizes = rng.integers(1, 9, 100)
    states = rng.standard_normal((1, 100, 384)).astype(np.float32)
    merged = end([states, log_sizes(sizes)[None, None, None]])[0]
    repeated = np.repeat(states, sizes, axis=1)
    expected = end([repeated, np.zeros((1, 1, 1, sizes.sum()), np.float32)])[0]
    assert len(expected[0]) == sizes.sum() > 300
    np.testing.assert_allclose(np.repeat(merged, sizes, axis=1), expected, atol=1e-3)


@pytest.mark.slow
def test_the_decoder_attends_to_a_group_as_to_its_positions() -> None:
    """Probabilities, times and languages from groups are near those from a state per position."""
    samples = (recordings.dense("en", 60).samples / 32768).astype(np.float32)
    extract = feature_extractor("whisper", 80)
    speech = np.stack([extract(samples[start : start + 480_000]) for start in (0, 480_000)])
    merging, whole = load("base", 0.5), load("base", 1.0)
    encoded = merging.encode(speech)
    assert isinstance(encoded, EncoderOutput)
    assert [states.shape for states in encoded.states] == [(768, 512)] * 2
    by_position = EncoderOutput(tuple(encoded.by_position()))
    assert [states.shape for states in by_position.states] == [(1500, 512)] * 2
    for beam_size in (1, 5):
        options = Options(beam_size=beam_size, max_new_tokens=40)
        requests = requests_for(merging, (3000, 3000), options)
        decoded = merging.decode(encoded, requests, options.search)
        expected = whole.decode(by_position, requests, options.search)
        for row, other in zip(decoded, expected, strict=True):
            score = other.hypothesis.avg_logprob
            assert row.hypothesis.avg_logprob == pytest.approx(score, abs=0.02)
    languages, expected_languages = (
        engine.detect_language(output)
        for engine, output in ((merging, encoded), (whole, by_position))
    )
    for scores, others in zip(languages, expected_languages, strict=True):
        assert scores == pytest.approx(others, abs=5e-3)
    texts = [AlignRequest(requests[0].start, row.hypothesis.tokens, 3000) for row in decoded]
    for alignment, other_alignment in zip(
        merging.align(encoded, texts), whole.align(by_position, texts), strict=True
    ):
        assert np.abs(alignment.starts - other_alignment.starts).max() <= 0.1
    merging.close()
    whole.close()


@pytest.mark.parametrize(
    ("frames", "kept_frames", "groups"),
    [
        (2, 0.6, 1),  # windows that are shorter than 1 s keep all positions
        (6, 0.6, 3),
        (66, 0.6, 33),
        (3000, 0.6, 896),  # 14 * 64; exactly 0.6 are 900
        pytest.param(4, 0.6, 2, marks=pytest.mark.slow),
        pytest.param(10, 0.6, 5, marks=pytest.mark.slow),
        pytest.param(1000, 0.6, 300, marks=pytest.mark.slow),
        (4, 0.25, 2),
        (10, 0.25, 5),
        (1000, 0.25, 128),  # 2 * 64; exactly 0.25 are 125
        pytest.param(2, 0.25, 1, marks=pytest.mark.slow),
        pytest.param(6, 0.25, 3, marks=pytest.mark.slow),
        pytest.param(66, 0.25, 33, marks=pytest.mark.slow),
        pytest.param(3000, 0.25, 384, marks=pytest.mark.slow),
    ],
)
def test_windows_of_every_length_are_merged(
    tiny_directory: Path, frames: int, kept_frames: float, groups: int
) -> None:
    engine = load(tiny_directory, kept_frames)
    rng = np.random.default_rng(frames)
    encoded = engine.encode(rng.standard_normal((2, 80, frames)).astype(np.float32))
    assert isinstance(encoded, EncoderOutput)
    assert encoded.sizes is not None
    assert [sizes.shape for sizes in encoded.sizes] == [(groups,)] * 2
    assert [sizes.sum() for sizes in encoded.sizes] == [frames // 2] * 2
    options = Options(beam_size=1, max_new_tokens=3)
    decoded = engine.decode(encoded, requests_for(engine, (frames,) * 2, options), options.search)
    assert [len(row.hypothesis.tokens) for row in decoded] == [3, 3]
    engine.close()


def test_rows_are_merged_apart_from_each_other(features: np.ndarray) -> None:
    engine = load("tiny.en", 0.5)
    windows = np.ascontiguousarray(features[:, :, :1000])
    first, second = engine.split(engine.encode(windows))
    again = engine.split(engine.encode(windows[::-1]))
    for row, other in ((first, again[1]), (second, again[0])):
        assert isinstance(row, EncoderOutput)
        assert isinstance(other, EncoderOutput)
        assert row.states[0].tobytes() == other.states[0].tobytes()
        assert np.array_equal(row.sizes, other.sizes)  # type: ignore[arg-type]
    engine.close()


@pytest.mark.slow
@pytest.mark.parametrize("beam_size", [1, 5])
def test_a_noisy_row_keeps_all_frames_and_changes_no_other_row(
    features: np.ndarray, beam_size: int
) -> None:
    engine = load("base", 0.5)
    batch = np.stack([features[0], features[0] / 10, features[1]])  # the second: a range of 10 dB
    encoded = engine.encode(batch)
    assert isinstance(encoded, EncoderOutput)
    assert [len(states) for states in encoded.states] == [768, 1500, 768]
    options = Options(beam_size=beam_size, max_new_tokens=10)
    requests = requests_for(engine, (3000, 2000, 1000), options)
    together = engine.decode(encoded, requests, options.search)
    languages = engine.detect_language(encoded)
    for row, (request, decoded) in enumerate(zip(requests, together, strict=True)):
        alone = engine.encode(batch[row][None])
        [other] = engine.decode(alone, [request], options.search)
        assert decoded.hypothesis == other.hypothesis
        assert np.array_equal(decoded.alignment.starts, other.alignment.starts)
        assert engine.detect_language(alone) == [languages[row]]
    engine.close()


@pytest.fixture(scope="module")
def tiny_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model(tmp_path_factory.mktemp("models") / "tiny")
