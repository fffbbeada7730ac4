from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whisperbatch.engines.search import blocked_by_ngrams


@pytest.mark.parametrize(
    ("text", "size", "expected"),
    [
        ("", 2, ""),
        ("a", 2, ""),
        ("aba", 2, "b"),
        ("abcab", 3, "c"),
        ("abcb", 3, ""),
        ("abacab", 2, "a"),
        ("abacaba", 2, "bc"),
        ("abc", 1, "abc"),
    ],
)
def test_tokens_that_would_repeat_an_ngram_are_blocked(text: str, size: int, expected: str) -> None:
    blocked = blocked_by_ngrams([ord(letter) for letter in text], size)
    assert {chr(token) for token in blocked} == set(expected)


@given(st.lists(st.integers(0, 2), max_size=12))
def test_a_text_without_blocked_tokens_repeats_no_bigram(tokens: list[int]) -> None:
    text: list[int] = []
    for token in tokens:
        if token not in blocked_by_ngrams(text, 2):
            text.append(token)
    bigrams = list(pairwise(text))
    assert len(bigrams) == len(set(bigrams))
