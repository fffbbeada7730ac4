"""`suppress_blank`: whether a text may begin with a blank or with its end, on every engine."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from whisperbatch.decoding.prompts import WhisperTokenizer
from whisperbatch.engines.loading import load_engine
from whisperbatch.options import SearchOptions
from whisperbatch.protocols import DecodeRequest, Engine, Sampling

FRAMES = 100
VOCABULARY = 51864  # with timestamp tokens, which CTranslate2 does not suppress itself
IMPROBABLE = " Petersburg"


@pytest.fixture(
    scope="module",
    params=["ctranslate2", "onnxruntime", pytest.param("torch", marks=pytest.mark.torch)],
)
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    loaded = load_engine("tiny.en", engine=request.param, device="cpu")
    yield loaded
    loaded.close()


@pytest.mark.parametrize("beam_size", [1, 2])
@pytest.mark.parametrize("sampling", [None, Sampling(0.01, 1, 0)])
def test_only_false_allows_a_blank_or_the_end_as_first_token(
    engine: Engine, beam_size: int, sampling: Sampling | None
) -> None:
    """All tokens but a blank, the end of the text and an improbable word are suppressed."""
    vocabulary = WhisperTokenizer(engine.tokenizer, multilingual=engine.is_multilingual)
    [blank] = engine.tokenizer.encode(" ", add_special_tokens=False).ids
    [word] = engine.tokenizer.encode(IMPROBABLE, add_special_tokens=False).ids
    others = set(range(VOCABULARY)) - {blank, word, vocabulary.end_of_text}
    options = SearchOptions(
        beam_size=beam_size, max_new_tokens=1, suppress_tokens=tuple(sorted(others))
    )
    start = tuple(vocabulary.prompt("en", "transcribe"))
    prompt = (*start, vocabulary.no_timestamps)
    request = DecodeRequest(prompt, start, (), FRAMES, sampling)
    silence = engine.encode(np.full((1, 80, FRAMES), -1.0, np.float32))
    [suppressed] = engine.decode(silence, [request], options)
    assert suppressed.hypothesis.tokens == (word,)
    [allowed] = engine.decode(silence, [request], replace(options, suppress_blank=False))
    assert allowed.hypothesis.tokens in ((), (blank,))
