"""Sampled tokens have their probabilities, and do not depend on the other rows."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest

from whisperbatch.decoding.prompts import WhisperTokenizer
from whisperbatch.engines.ctranslate2.engine import CTranslate2Engine
from whisperbatch.engines.loading import load_engine
from whisperbatch.options import SearchOptions
from whisperbatch.protocols import DecodeRequest, Engine, Sampling

SHARE_TOLERANCE = 0.1  # of 400 samples: 4 standard deviations of a share of one half
SAMPLES = 400
BATCH = 40
CANDIDATES = 6
FRAMES = 100


@pytest.fixture(
    scope="module",
    params=[
        "ctranslate2",
        "openvino",
        "onnxruntime",
        pytest.param("torch", marks=[pytest.mark.torch, pytest.mark.slow]),
    ],
)
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    loaded = load_engine("tiny.en", engine=request.param, device="cpu")
    yield loaded
    loaded.close()


@pytest.fixture(scope="module")
def features() -> npt.NDArray[np.float32]:
    return np.random.default_rng(1).normal(0, 0.3, (1, 80, FRAMES)).astype(np.float32)


def prompt_of(engine: Engine) -> DecodeRequest:
    vocabulary = WhisperTokenizer(engine.tokenizer, multilingual=engine.is_multilingual)
    start = tuple(vocabulary.prompt("en", "transcribe"))
    return DecodeRequest((*start, vocabulary.no_timestamps), start, (), FRAMES)


def probable_tokens(
    engine: Engine, features: npt.NDArray[np.float32], request: DecodeRequest
) -> set[int]:
    """The first tokens of the most probable texts, each found by suppressing the others."""
    encoded = engine.encode(features)
    tokens: set[int] = set()
    for _ in range(CANDIDATES):
        options = SearchOptions(beam_size=1, max_new_tokens=1, suppress_tokens=(-1, *tokens))
        [decoded] = engine.decode(encoded, [request], options)
        tokens |= set(decoded.hypothesis.tokens)
    return tokens


@pytest.mark.parametrize("temperature", [pytest.param(0.5, marks=pytest.mark.slow), 1.0])
def test_sampled_tokens_have_their_probabilities(
    engine: Engine, features: npt.NDArray[np.float32], temperature: float
) -> None:
    """All tokens but a few are suppressed, so that each is drawn often."""
    if isinstance(engine, CTranslate2Engine):
        pytest.skip("CTranslate2 draws the tokens itself")
    request = prompt_of(engine)
    allowed = probable_tokens(engine, features, request)
    others = set(range(engine.tokenizer.get_vocab_size())) - allowed
    options = SearchOptions(beam_size=1, max_new_tokens=1, suppress_tokens=tuple(sorted(others)))
    encoded = engine.join(engine.split(engine.encode(features)) * BATCH)
    counts: Counter[int] = Counter()
    logprobs: dict[int, float] = {}
    for start in range(0, SAMPLES, BATCH):
        requests = [
            replace(request, sampling=Sampling(temperature, 1, start + row)) for row in range(BATCH)
        ]
        for decoded in engine.decode(encoded, requests, options):
            [token] = decoded.hypothesis.tokens
            counts[token] += 1
            logprobs[token] = 2 * decoded.hypothesis.avg_logprob  # a mean of two tokens
    assert set(counts) <= allowed
    weights = {token: np.exp(logprob / temperature) for token, logprob in logprobs.items()}
    for token, weight in weights.items():
        expected = weight / sum(weights.values())
        assert counts[token] / SAMPLES == pytest.approx(expected, abs=SHARE_TOLERANCE)
    assert len(counts) > 1


def test_a_sampled_row_does_not_depend_on_the_other_rows(
    engine: Engine, features: npt.NDArray[np.float32]
) -> None:
    request = prompt_of(engine)
    options = SearchOptions(beam_size=1, max_new_tokens=20)
    single = engine.encode(features)
    encoded = engine.join(engine.split(single) * 5)
    requests = [replace(request, sampling=Sampling(0.8, 3, seed)) for seed in range(5)]
    together = engine.decode(encoded, requests, options)
    for row in (3, 1, 4):
        [alone] = engine.decode(single, [requests[row]], options)
        assert alone.hypothesis == together[row].hypothesis
        np.testing.assert_array_equal(alone.alignment.starts, together[row].alignment.starts)
    assert len({row.hypothesis.tokens for row in together}) > 1
