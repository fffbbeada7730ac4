"""In float32 PyTorch gives the same tokens as CTranslate2, with every kind of search."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pytest

from benchmarks import recordings
from tests.contract.requests import requests_for, whisper_tokenizer
from whisperbatch.engines.loading import load_engine
from whisperbatch.features import feature_extractor
from whisperbatch.options import Options
from whisperbatch.protocols import AlignRequest, Encoded, Engine

pytestmark = pytest.mark.torch

LENGTHS = (1400, 1000, 600)  # feature frames of each row
SEARCHES = (
    Options(beam_size=1),
    Options(beam_size=5),
    Options(beam_size=7, patience=1.5, length_penalty=0.5, max_new_tokens=25),
    Options(beam_size=1, repetition_penalty=1.3),
    Options(beam_size=2, no_repeat_ngram_size=2, suppress_tokens=(11, 13)),
    Options(beam_size=1, timestamps="tokens", suppress_blank=False),
    Options(beam_size=5, timestamps="tokens", max_initial_timestamp=0.0),
    Options(beam_size=1, repetition_penalty=1.3, prefix="Please enter"),
    Options(beam_size=5, timestamps="tokens", prefix="Please enter"),
)


@pytest.fixture(scope="module")
def features() -> npt.NDArray[np.float32]:
    samples = (recordings.dense("en", 60).samples / 32768).astype(np.float32)
    extract = feature_extractor("whisper", 80)
    rows = []
    for number, frames in enumerate(LENGTHS):
        row = extract(samples[number * 160_000 :][: frames * 160])
        padding = ((0, 0), (0, 2000 - frames))
        rows.append(np.pad(row, padding, constant_values=extract.pad_value(row)))
    return np.stack(rows)


Pair = tuple[tuple[Engine, Encoded], tuple[Engine, Encoded]]


@pytest.fixture(scope="module")
def pair(features: npt.NDArray[np.float32]) -> Iterator[Pair]:
    """CTranslate2's engine and PyTorch's engine, each with its encoder output."""
    ctranslate2_engine, torch_engine = (
        load_engine("base", engine=name, device="cpu", compute_type="float32")
        for name in ("ctranslate2", "torch")
    )
    yield (
        (ctranslate2_engine, ctranslate2_engine.encode(features)),
        (torch_engine, torch_engine.encode(features)),
    )
    ctranslate2_engine.close()
    torch_engine.close()


@pytest.mark.parametrize("options", SEARCHES)
def test_tokens_equal_those_of_ctranslate2(pair: Pair, options: Options) -> None:
    results = [
        [row.hypothesis for row in engine.decode(encoded, requests, options.search)]
        for engine, encoded in pair
        for requests in [requests_for(engine, LENGTHS, options)]
    ]
    for expected, actual in zip(*results, strict=True):
        assert actual.tokens == expected.tokens
        assert actual.avg_logprob == pytest.approx(expected.avg_logprob, abs=5e-3)
        assert actual.no_speech_prob == pytest.approx(expected.no_speech_prob, abs=1e-4)
    assert len({hypothesis.tokens for hypothesis in results[0]}) == len(LENGTHS)


def test_language_probabilities_equal_those_of_ctranslate2(pair: Pair) -> None:
    results = [engine.detect_language(encoded) for engine, encoded in pair]
    for expected, actual in zip(*results, strict=True):
        assert actual.keys() == expected.keys()
        assert max(abs(actual[code] - expected[code]) for code in expected) < 1e-4


def test_alignment_equals_that_of_ctranslate2(pair: Pair) -> None:
    tokenizer = whisper_tokenizer(pair[0][0])
    prompts = [tokenizer.prompt(code, "transcribe") for code in ("en", "de", "en")]
    texts = [
        tokenizer.encode("Please enter your number."),
        [],
        tokenizer.encode("Thank you, good bye."),
    ]
    requests = [
        AlignRequest(tuple(start), tuple(text), frames)
        for start, text, frames in zip(prompts, texts, LENGTHS, strict=True)
    ]
    results = [engine.align(encoded, requests) for engine, encoded in pair]
    for expected, actual, text in zip(*results, texts, strict=True):
        assert len(actual.starts) == len(text)
        np.testing.assert_allclose(actual.starts, expected.starts, atol=0.021)
        np.testing.assert_allclose(actual.ends, expected.ends, atol=0.021)
        np.testing.assert_allclose(actual.probabilities, expected.probabilities, atol=1e-3)
