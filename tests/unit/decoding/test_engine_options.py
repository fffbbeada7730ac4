from typing import Any

import pytest

from tests.unit.fakes import FakeEngine
from whisperbatch import OptionError, Options
from whisperbatch.decoding.engine_options import options_for
from whisperbatch.decoding.tokenizer import WhisperTokenizer


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({"task": "translate"}, "task='translate'"),
        ({"multilingual": True, "code_switching_output": "english"}, "code_switching_output="),
    ],
)
def test_translation_by_a_model_that_only_transcribes_is_refused(given: Any, name: str) -> None:
    with pytest.raises(OptionError, match=f"{name}.*model fake was trained for transcription only"):
        options_for(FakeEngine(can_translate=False), Options(**given))
    assert options_for(FakeEngine(), Options(**given)) == Options(**given)


def test_an_english_only_model_gets_english() -> None:
    engine = FakeEngine(multilingual=False)
    options = options_for(engine, Options(language_detection_segments=3))
    assert options == Options(language="en")
    for given in ({"language": "fr"}, {"task": "translate"}, {"languages": ("en", "fr")}):
        with pytest.raises(OptionError, match="model fake is English-only"):
            options_for(engine, Options(**given))


@pytest.mark.parametrize("multilingual", [False, True])
def test_tokens_that_every_text_needs_cannot_be_suppressed(multilingual: bool) -> None:
    engine = FakeEngine(multilingual=multilingual)
    vocabulary = WhisperTokenizer(engine.tokenizer, multilingual=multilingual)
    end, last = vocabulary.end_of_text, vocabulary.size - 1
    for tokens in (tuple(range(last + 1)), (-1, end)):
        with pytest.raises(OptionError, match=f"suppress_tokens contains {end}, the end of the"):
            options_for(engine, Options(suppress_tokens=tokens))
    with pytest.raises(OptionError, match=f"suppress_tokens contains {end - 9} of the {end}"):
        options_for(engine, Options(suppress_tokens=tuple(range(end - 9))))
    with pytest.raises(OptionError, match=f"suppress_tokens: model fake has no token {last + 1}"):
        options_for(engine, Options(suppress_tokens=(last + 1,)))
    allowed = Options(language="en", suppress_tokens=tuple(range(end - 10)))
    assert options_for(engine, allowed) == allowed
