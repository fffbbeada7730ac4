import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models

from tests.unit.fakes import multilingual_tokenizer, tokenizer
from whisperbatch import ModelError
from whisperbatch.decoding.prompts import WhisperTokenizer
from whisperbatch.text.languages import LANGUAGES

ENGLISH = WhisperTokenizer(tokenizer(), multilingual=False)
BASE = WhisperTokenizer(multilingual_tokenizer(), multilingual=True)

TEXTS = {
    "en": " Mr. O'Brien didn't pay $3.50 (he said).",
    "es": " ¿Cómo está usted? ¡Muy bien!",
    "ru": " Нажмите решётку, пожалуйста.",
    "zh": "请输入您的密码。",
    "ja": "もう一度お試しください。",
    "hi": " कृपया प्रतीक्षा करें।",
    "th": "กรุณารอสักครู่",
    "yue": "唔該等陣。",
}


def encode(text: str) -> list[int]:
    return list(multilingual_tokenizer().encode(text, add_special_tokens=False).ids)


def test_special_tokens_are_those_of_whisper() -> None:
    for wrapped, plain in ((ENGLISH, tokenizer()), (BASE, multilingual_tokenizer())):
        assert wrapped.end_of_text == plain.token_to_id("<|endoftext|>")
        assert wrapped.no_timestamps == plain.token_to_id("<|notimestamps|>")
        assert wrapped.size == plain.get_vocab_size() + 1501  # 0.00 to 30.00 s in steps of 20 ms


def test_prompts() -> None:
    name = multilingual_tokenizer().id_to_token
    assert [name(token) for token in BASE.prompt("fr", "translate")] == [
        "<|startoftranscript|>",
        "<|fr|>",
        "<|translate|>",
    ]
    assert [name(token) for token in BASE.prompt("fr", "transcribe")][2] == "<|transcribe|>"
    start = tokenizer().token_to_id("<|startoftranscript|>")
    assert ENGLISH.prompt("en", "transcribe") == [start]


def test_changing_a_prompt_does_not_change_later_prompts() -> None:
    BASE.prompt("de", "transcribe").append(1)
    assert len(BASE.prompt("de", "transcribe")) == 3


def test_base_has_all_languages_except_cantonese() -> None:
    assert {language for language in LANGUAGES if not BASE.has_language(language)} == {"yue"}


def test_timestamps_count_in_steps_of_20_ms() -> None:
    assert BASE.timestamp(BASE.no_timestamps + 1) == 0.0
    assert BASE.timestamp(BASE.no_timestamps + 2) == 0.02
    assert BASE.timestamp(BASE.size - 1) == 30.0
    for token in (0, BASE.end_of_text, BASE.no_timestamps):
        assert BASE.timestamp(token) is None


def test_text_has_no_special_tokens() -> None:
    first = BASE.no_timestamps + 1
    tokens = [first, *encode(" Hello."), first + 50, BASE.end_of_text]
    assert BASE.text(tokens) == " Hello."
    assert BASE.text([first, BASE.end_of_text]) == BASE.text([]) == ""


@pytest.mark.parametrize("language", TEXTS)
def test_words_contain_every_token_once_in_order(language: str) -> None:
    tokens = encode(TEXTS[language])
    groups = BASE.words(tokens, language)
    assert [token for group in groups for token in group] == tokens
    assert "".join(BASE.text(group) for group in groups) == TEXTS[language]


def test_words_are_split_at_spaces_and_punctuation() -> None:
    tokens = encode(TEXTS["en"])
    assert [BASE.text(group) for group in BASE.words(tokens, "en")] == [
        *(" Mr", ".", " O", "'Brien", " didn't", " pay", " $3", ".50", " (he", " said).")
    ]


def test_words_of_unspaced_languages_are_characters() -> None:
    groups = BASE.words(encode(TEXTS["ja"]), "ja")
    assert len(groups) > 6
    assert all(" " not in BASE.text(group) for group in groups)


def test_no_tokens_make_no_words() -> None:
    assert BASE.words([], "en") == []
    assert BASE.words([], "zh") == []


@given(
    st.lists(st.integers(0, BASE.end_of_text - 1), max_size=30), st.sampled_from(("en", "zh", "ru"))
)
def test_no_token_is_lost(tokens: list[int], language: str) -> None:
    """Even if decoding stops within a character and leaves bytes that are not valid UTF-8."""
    groups = BASE.words(tokens, language)
    assert [token for group in groups for token in group] == tokens


def test_a_tokenizer_of_another_model_is_refused() -> None:
    vocabulary = WhisperTokenizer(Tokenizer(models.BPE()), multilingual=True)
    with pytest.raises(ModelError, match=r"has no <\|endoftext\|>"):
        _ = vocabulary.end_of_text
