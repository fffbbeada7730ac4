"""In float32 PyTorch gives the same tokens as CTranslate2, with every kind of search."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pytest

from benchmarks import recordings
from whisperbatch.decoding.tokenizer import WhisperTokenizer
from whisperbatch.engines.ctranslate2.engine import CTranslate2Engine
from whisperbatch.features import feature_extractor
from whisperbatch.models.registry import find_model
from whisperbatch.options import DecodeOptions
from whisperbatch.protocols import Encoded, Engine

pytestmark = pytest.mark.torch

LENGTHS = (1400, 1000, 600)  # feature frames of each row
SEARCHES = (
    DecodeOptions(beam_size=1),
    DecodeOptions(beam_size=5),
    DecodeOptions(beam_size=7, patience=1.5, length_penalty=0.5, max_new_tokens=25),
    DecodeOptions(beam_size=1, repetition_penalty=1.3),
    DecodeOptions(beam_size=2, no_repeat_ngram_size=2, suppress_tokens=(11, 13)),
    DecodeOptions(beam_size=1, timestamps="tokens", suppress_blank=False),
    DecodeOptions(beam_size=5, timestamps="tokens", max_initial_timestamp=0.0),
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
    from whisperbatch.engines.torch.engine import TorchEngine  # noqa: PLC0415 - not always installed

    directory = find_model("base")
    ctranslate2_engine = CTranslate2Engine(
        directory,
        name="base",
        device="cpu",
        compute_type="float32",
        encoder="ctranslate2",
        decoder="ctranslate2",
    )
    torch_engine = TorchEngine(directory, name="base", device="cpu", compute_type="float32")
    yield (
        (ctranslate2_engine, ctranslate2_engine.encode(features)),
        (torch_engine, torch_engine.encode(features)),
    )
    ctranslate2_engine.close()
    torch_engine.close()


def whisper_tokenizer(engine: Engine) -> WhisperTokenizer:
    return WhisperTokenizer(engine.tokenizer, multilingual=engine.is_multilingual)


@pytest.mark.parametrize("options", SEARCHES)
def test_tokens_equal_those_of_ctranslate2(pair: Pair, options: DecodeOptions) -> None:
    results = []
    for engine, encoded in pair:
        tokenizer = whisper_tokenizer(engine)
        prompt = tokenizer.prompt("en", "transcribe")
        if options.timestamps == "alignment":
            prompt = [*prompt, tokenizer.no_timestamps]
        results.append(engine.generate(encoded, [prompt] * len(LENGTHS), options))
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
    results = [engine.align(encoded, prompts, texts, LENGTHS) for engine, encoded in pair]
    for expected, actual, text in zip(*results, texts, strict=True):
        assert len(actual.starts) == len(text)
        np.testing.assert_allclose(actual.starts, expected.starts, atol=0.021)
        np.testing.assert_allclose(actual.ends, expected.ends, atol=0.021)
        np.testing.assert_allclose(actual.probabilities, expected.probabilities, atol=1e-3)
