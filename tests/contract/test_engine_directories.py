"""Every engine runs each kind of model directory that users bring, with the same tokens."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from tests.contract.engines import load_exact, requests_for, whisper_tokenizer
from tests.contract.model_directories import MODEL_DIRECTORIES, write_model_directory
from whisperbatch import EngineError, OptionError, Options
from whisperbatch.decoding.engine_options import options_for
from whisperbatch.features import feature_extractor
from whisperbatch.protocols import AlignRequest, Engine

__all__ = ["write_model_directory"]  # a fixture

FRAMES = (1000, 600, 200)  # feature frames of each row
OPTIONS = Options(beam_size=1, max_new_tokens=12)  # a random model never ends its text
TORCH = pytest.param("torch", marks=[pytest.mark.torch, pytest.mark.slow])
ENGINES = ("ctranslate2", "openvino", "onnxruntime", TORCH)
# what these lack or have, other directories lack or have, too
SLOW = (
    "base without tokenizer",
    "base without alignment heads",
    "tiny.en without tokenizer",
    "tiny.en without alignment heads",
    "random, 51865 tokens, 128 mels",
    "random, 51866 tokens, 128 mels",
)


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else [])
        for name in MODEL_DIRECTORIES
    ],
)
def directory(request: pytest.FixtureRequest, write_model_directory: Callable[[str], Path]) -> Path:
    return write_model_directory(request.param)


def features_for(engine: Engine) -> npt.NDArray[np.float32]:
    extract = feature_extractor("whisper", engine.n_mels)
    noise = np.random.default_rng(0).standard_normal((3, 160_000)).astype(np.float32)
    rows = []
    for samples, frames in zip(0.1 * noise, FRAMES, strict=True):
        row = extract(samples[: frames * 160])
        rows.append(np.pad(row, ((0, 0), (0, 1500 - frames)), constant_values=row.min()))
    return np.stack(rows)


@pytest.mark.parametrize("name", ENGINES)
def test_an_engine_decodes_and_aligns(directory: Path, name: str) -> None:
    engine = load_exact(directory, name)
    features = features_for(engine)
    encoded = engine.encode(features)
    requests = requests_for(engine, FRAMES, OPTIONS)
    decoded = engine.decode(encoded, requests, OPTIONS.search)
    tokenizer = whisper_tokenizer(engine)
    for row, request in zip(decoded, requests, strict=True):
        tokens = row.hypothesis.tokens
        assert 0 < len(tokens) <= 12
        assert len(row.alignment.starts) == len(tokenizer.text_tokens(tokens))
        assert (row.alignment.starts <= row.alignment.ends).all()
        assert (row.alignment.ends <= request.frames / 100 + 0.05).all()
    for number, expected in enumerate(decoded):
        [alone] = engine.decode(
            engine.encode(features[number : number + 1]), [requests[number]], OPTIONS.search
        )
        # with these small sizes the last digits may differ; see test_row_independence.py
        assert alone.hypothesis.tokens == expected.hypothesis.tokens
        score = expected.hypothesis.avg_logprob
        assert alone.hypothesis.avg_logprob == pytest.approx(score, abs=1e-4)
    texts = [AlignRequest(request.start, (1, 2, 3), request.frames) for request in requests]
    assert [len(row.starts) for row in engine.align(encoded, texts)] == [3, 3, 3]
    if engine.is_multilingual:
        for scores in engine.detect_language(encoded):
            assert sum(scores.values()) == pytest.approx(1, abs=1e-4)
            has_cantonese = engine.tokenizer.token_to_id("<|yue|>") is not None
            assert ("yue" in scores) == has_cantonese
    else:
        with pytest.raises(EngineError, match="English-only"):
            engine.detect_language(encoded)
    engine.close()


@pytest.mark.parametrize("name", [TORCH])
def test_the_engines_find_the_same_tokens_in_float32(directory: Path, name: str) -> None:
    results = []
    for engine in (load_exact(directory, "ctranslate2"), load_exact(directory, name)):
        requests = requests_for(engine, FRAMES, OPTIONS)
        encoded = engine.encode(features_for(engine))
        results.append(
            [row.hypothesis.tokens for row in engine.decode(encoded, requests, OPTIONS.search)]
        )
        engine.close()
    assert results[0] == results[1]


@pytest.mark.parametrize("name", ENGINES)
def test_a_model_with_a_shortened_decoder_does_not_translate(
    write_model_directory: Callable[[str], Path], name: str
) -> None:
    engine = load_exact(write_model_directory("random, 51866 tokens, short decoder"), name)
    assert engine.is_multilingual
    assert not engine.can_translate
    with pytest.raises(OptionError, match=r"task='translate': model .* for transcription only"):
        options_for(engine, Options(task="translate"))
    engine.close()
    whole = load_exact(write_model_directory("random, 51865 tokens, 128 mels"), name)
    assert whole.can_translate
    whole.close()
