"""Code-switching: doubtful rows are decoded in each possible language."""

import pytest

from tests.unit.decoding.languages.spoken import invented, speech_engine, transcribed
from tests.unit.synthetic_speech import text

CASES = (
    # situation, source, spoken, label of the row, languages of the parts
    (
        "the sentences after a change are labelled like the neighbour before",
        "SYSTRAN/faster-whisper#1476",
        "ru ru it it it",
        "ru",
        "ru it",
    ),
    (
        "a window straddles the change from German to English",
        "SYSTRAN/faster-whisper#1322",
        "de de de en en",
        "en",
        "de en",
    ),
    (
        "the language changes in the middle of a chunk, and the rest is translated",
        "kaixxx/noScribe#294",
        "en en en nl nl nl",
        "en",
        "en nl",
    ),
    (
        "a paragraph in another language, and back",
        "ggml-org/whisper.cpp#749",
        "en en fr fr de",
        "de",
        "en fr de",
    ),
    (
        "all of a chunk has the language of its neighbours",
        "SYSTRAN/faster-whisper#918",
        "en en en en",
        "it",
        "en",
    ),
    (
        "English and Hebrew in one recording",
        "jhj0517/Whisper-WebUI#491",
        "he he en he he",
        "he",
        "he en he",
    ),
)


@pytest.mark.parametrize(("situation", "source", "spoken", "label", "expected"), CASES)
def test_every_part_gets_its_language(
    situation: str, source: str, spoken: str, label: str, expected: str
) -> None:
    engine = speech_engine(spoken)
    result = transcribed(engine, spoken, label, multilingual=True)
    assert [part.language for part in result.texts] == expected.split(), (situation, source)
    assert len(text(result).split()) == 10 * len(spoken.split())  # no word is lost
    assert result.redecoded
    assert result.doubts == ()


def test_probable_text_costs_nothing() -> None:
    engine = speech_engine("en en en")
    result = transcribed(engine, "en en en", "en", multilingual=True)
    assert [part.language for part in result.texts] == ["en"]
    assert (len(engine.calls), len(engine.scored)) == (1, 0)
    assert not result.redecoded


def test_improbable_text_in_its_own_language_stays() -> None:
    """Speech that is hard to understand: the windows agree with the label."""
    engine = speech_engine("en en en", lambda _, __: -0.6)
    result = transcribed(engine, "en en en", "en", multilingual=True)
    assert [part.language for part in result.texts] == ["en"]
    assert len(engine.scored) == 3
    assert not result.redecoded


def test_windows_without_a_probable_language_do_not_count() -> None:
    """A German window that sounds English with 0.43 (SYSTRAN/faster-whisper#1322)."""
    engine = speech_engine(
        "de de en", lambda _, __: -0.6, {"en": {"en": 0.43, "de": 0.3, "fr": 0.0}}
    )
    result = transcribed(engine, "de de en", "de", multilingual=True)
    assert [part.language for part in result.texts] == ["de"]


def test_text_that_is_clearly_better_in_the_language_of_the_row_keeps_it() -> None:
    """The sound says French, the text says English: an accent, or names."""
    engine = speech_engine("en en fr fr", lambda spoken, written: -0.4 if written == "en" else -0.8)
    result = transcribed(engine, "en en fr fr", "en", multilingual=True)
    assert [part.language for part in result.texts] == ["en"]
    assert len(text(result).split()) == 40


def test_only_the_given_languages_are_possible() -> None:
    engine = speech_engine("en en fr fr")
    result = transcribed(engine, "en en fr fr", "en", multilingual=True, languages=("en", "de"))
    assert "fr" not in [part.language for part in result.texts]


def test_the_sound_decides_the_language_of_a_translation() -> None:
    engine = speech_engine("en en fr fr", lambda _, __: -0.5)
    result = transcribed(
        engine, "en en fr fr", "fr", multilingual=True, code_switching_output="english"
    )
    tokens = [engine.tokenizer.id_to_token(call.prompt[2]) for call in engine.calls]
    languages = [engine.tokenizer.id_to_token(call.prompt[1]) for call in engine.calls]
    assert list(zip(languages, tokens, strict=True))[1:] == [
        ("<|en|>", "<|transcribe|>"),
        ("<|fr|>", "<|translate|>"),
    ]
    assert {part.language for part in result.texts} == {"en"}


def test_without_multilingual_the_text_is_not_changed() -> None:
    engine = speech_engine("en en fr fr", invented)
    result = transcribed(engine, "en en fr fr", "en", language="en")
    assert [part.language for part in result.texts] == ["en"]
    assert len(result.texts) == 1
