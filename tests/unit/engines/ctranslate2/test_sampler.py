"""Sampling needs the model's file once; its weights stay in memory until the engine is closed."""

from pathlib import Path
from typing import Any

import ctranslate2
import numpy as np
import pytest

from tests.contract.tiny_model import TOKEN_IDS, tiny_model
from whisperbatch.engines.ctranslate2.engine import CTranslate2Engine
from whisperbatch.engines.ctranslate2.weights import sampler_files
from whisperbatch.engines.model_info import ModelInfo
from whisperbatch.engines.settings import CTranslate2Settings
from whisperbatch.models.model_bin import read_headers
from whisperbatch.options import SearchOptions
from whisperbatch.protocols import Decoded, DecodeRequest, Encoded, Sampling

START = tuple(TOKEN_IDS[f"<|{name}|>"] for name in ("startoftranscript", "en", "transcribe"))
PROMPT = (*START, TOKEN_IDS["<|notimestamps|>"])
OPTIONS = SearchOptions(beam_size=1, max_new_tokens=12)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tiny_model(tmp_path / "model")


def load(directory: Path, compute_type: str = "int8") -> CTranslate2Engine:
    model = ModelInfo.read(directory, "small")
    return CTranslate2Engine(
        model, device="cpu", settings=CTranslate2Settings(compute_type=compute_type)
    )


def encode(engine: CTranslate2Engine, rows: int) -> Encoded:
    features = np.random.default_rng(0).normal(size=(rows, 80, 200))
    return engine.encode(features.astype(np.float32))


def sample(engine: CTranslate2Engine, encoded: Encoded, seeds: list[int]) -> list[Decoded]:
    requests = [DecodeRequest(PROMPT, START, (), 200, Sampling(0.8, 3, seed)) for seed in seeds]
    return engine.decode(encoded, requests, OPTIONS)


def test_sampling_reads_the_models_file_once(directory: Path) -> None:
    engine = load(directory)
    encoded = encode(engine, 3)
    expected = sample(engine, encoded, [1, 2, 3])
    (directory / "model.bin").unlink()
    repeated = sample(engine, encoded, [1, 2, 3])
    assert [row.hypothesis for row in repeated] == [row.hypothesis for row in expected]
    assert len({row.hypothesis for row in expected}) == 3


def test_a_sampled_row_depends_on_its_seed_only(directory: Path) -> None:
    engine = load(directory)
    encoded = encode(engine, 3)
    together = sample(engine, encoded, [1, 2, 3])
    rows = engine.split(encoded)
    for row in (2, 0, 1):
        [alone] = sample(engine, rows[row], [row + 1])
        assert alone.hypothesis == together[row].hypothesis


@pytest.mark.parametrize("compute_type", ["int8", "float32"])
def test_the_sampler_gives_the_text_of_the_complete_model(
    directory: Path, compute_type: str
) -> None:
    engine = load(directory, compute_type)
    encoded = encode(engine, 1)
    [sampled] = sample(engine, encoded, [5])
    ctranslate2.set_random_seed(5)
    complete = ctranslate2.models.Whisper(str(directory), compute_type=compute_type)
    [result] = complete.generate(
        encoded.view,  # type: ignore[attr-defined]  # this engine's own encoder output
        [list(PROMPT)],
        beam_size=1,
        num_hypotheses=3,
        sampling_topk=0,
        sampling_temperature=0.8,
        max_length=24,
        return_scores=True,
    )
    assert sampled.hypothesis.tokens == tuple(result.sequences_ids[0])
    length = len(result.sequences_ids[0])
    assert sampled.hypothesis.avg_logprob == result.scores[0] * length / (length + 1)


def test_the_sampler_has_the_decoder_and_one_layer_of_the_encoder(
    directory: Path, tmp_path: Path
) -> None:
    files = sampler_files(directory, {"suppress_ids": [5]}, int8_weights=True)
    assert set(files) == {"model.bin", "config.json", "vocabulary.json"}
    assert b'"suppress_ids": [5]' in files["config.json"]
    (tmp_path / "sampler.bin").write_bytes(files["model.bin"])
    complete, small = read_headers(directory / "model.bin"), read_headers(tmp_path / "sampler.bin")
    missing = set(complete) - set(small)
    assert missing
    assert all(name.startswith("encoder/layer_1/") for name in missing)
    matrices = [name for name in small if name.endswith("weight") and len(small[name].shape) == 2]
    assert {small[name].dtype for name in matrices} == {1}
    assert small["decoder/projection/weight"].offset == small["decoder/embeddings/weight"].offset


def test_closing_frees_the_sampler(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files: list[Any] = []

    class Whisper(ctranslate2.models.Whisper):  # type: ignore[misc]  # untyped
        def __init__(self, *arguments: Any, **settings: Any) -> None:
            files.append(settings.get("files"))
            super().__init__(*arguments, **settings)

    monkeypatch.setattr("ctranslate2.models.Whisper", Whisper)
    engine = load(directory)
    sample(engine, encode(engine, 2), [1, 2])
    assert files[0] is None
    weights = engine._replicas.all[0].weights
    assert files[1] is files[2] is weights._sampler_files
    engine.close()
    assert weights._sampler_files is None
