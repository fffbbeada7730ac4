"""PyTorch decodes as CTranslate2 does: in float32 to the token, for every search there is."""

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

LENGTHS = (1400, 1000, 600)  # frames
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
        made = extract(samples[number * 160_000 :][: frames * 160])
        padding = ((0, 0), (0, 2000 - frames))
        rows.append(np.pad(made, padding, constant_values=extract.pad_value(made)))
    return np.stack(rows)


Pair = tuple[tuple[Engine, Encoded], tuple[Engine, Encoded]]


@pytest.fixture(scope="module")
def pair(features: npt.NDArray[np.float32]) -> Iterator[Pair]:
    """CTranslate2's engine and PyTorch's, each with what it hears."""
    from whisperbatch.engines.torch.engine import TorchEngine  # noqa: PLC0415 - not always there

    directory = find_model("base")
    theirs = CTranslate2Engine(
        directory,
        name="base",
        device="cpu",
        compute_type="float32",
        encoder="ctranslate2",
        decoder="ctranslate2",
    )
    ours = TorchEngine(directory, name="base", device="cpu", compute_type="float32")
    yield (theirs, theirs.encode(features)), (ours, ours.encode(features))
    theirs.close()
    ours.close()


def vocabulary(engine: Engine) -> WhisperTokenizer:
    return WhisperTokenizer(engine.tokenizer, multilingual=engine.is_multilingual)


@pytest.mark.parametrize("options", SEARCHES)
def test_the_tokens_are_those_of_ctranslate2(pair: Pair, options: DecodeOptions) -> None:
    found = []
    for engine, encoded in pair:
        words = vocabulary(engine)
        prompt = words.prompt("en", "transcribe")
        if options.timestamps == "alignment":
            prompt = [*prompt, words.no_timestamps]
        found.append(engine.generate(encoded, [prompt] * len(LENGTHS), options))
    for wanted, own in zip(*found, strict=True):
        assert own.tokens == wanted.tokens
        assert own.avg_logprob == pytest.approx(wanted.avg_logprob, abs=5e-3)
        assert own.no_speech_prob == pytest.approx(wanted.no_speech_prob, abs=1e-4)
    assert len({one.tokens for one in found[0]}) == len(LENGTHS)


def test_languages_are_as_likely(pair: Pair) -> None:
    wanted, own = (engine.detect_language(encoded) for engine, encoded in pair)
    for one, other in zip(wanted, own, strict=True):
        assert one.keys() == other.keys()
        assert max(abs(one[code] - other[code]) for code in one) < 1e-4


def test_texts_lie_where_ctranslate2_places_them(pair: Pair) -> None:
    words = vocabulary(pair[0][0])
    starts = [words.prompt(code, "transcribe") for code in ("en", "de", "en")]
    texts = [words.encode("Please enter your number."), [], words.encode("Thank you, good bye.")]
    wanted, own = (engine.align(encoded, starts, texts, LENGTHS) for engine, encoded in pair)
    for one, other, text in zip(wanted, own, texts, strict=True):
        assert len(other.starts) == len(text)
        np.testing.assert_allclose(other.starts, one.starts, atol=0.021)
        np.testing.assert_allclose(other.ends, one.ends, atol=0.021)
        np.testing.assert_allclose(other.probabilities, one.probabilities, atol=1e-3)
