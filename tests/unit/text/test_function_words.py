"""The lists of function words are written as the code compares them."""

import pytest

from whisperbatch.text import function_words
from whisperbatch.text.function_words import leaning, opening, trailing
from whisperbatch.text.languages import LANGUAGES, UNSPACED, is_right_to_left

TABLES = (function_words._OPENING, function_words._LEANING, function_words._TRAILING)
WANTED = ("en", "de", "fr", "es", "it", "pt", "nl", "pl", "ru", "uk", "ar", "he", "hi", "ko", "tr")


@pytest.mark.parametrize("language", WANTED)
def test_the_languages_of_most_users_have_lists(language: str) -> None:
    assert len(opening(language) | leaning(language) | trailing(language)) > 30


@pytest.mark.parametrize("table", TABLES)
def test_words_are_in_lower_case_once_each(table: dict[str, str]) -> None:
    for language, text in table.items():
        assert language in LANGUAGES
        assert language not in UNSPACED
        words = text.split()
        assert len(words) == len(set(words)), language
        assert text == text.lower()


@pytest.mark.parametrize(("language", "word"), [("el", "ΤΗΣ"), ("de", "AUẞER"), ("fr", "À")])
def test_words_are_found_in_any_case(language: str, word: str) -> None:
    assert word.casefold() in opening(language) | leaning(language)


def test_a_word_belongs_to_the_next_or_to_the_previous_word() -> None:
    for language in LANGUAGES:
        assert not (opening(language) | leaning(language)) & trailing(language), language


def test_other_languages_have_no_words() -> None:
    assert opening("sw") == leaning("sw") == trailing("sw") == frozenset()


def test_right_to_left_languages() -> None:
    found = {language for language in LANGUAGES if is_right_to_left(language)}
    assert found == {"ar", "fa", "he", "ps", "sd", "ur", "yi"}
