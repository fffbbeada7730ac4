from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whisperbatch.engines.openvino.decoder import repeating


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
def test_what_would_come_twice(text: str, size: int, expected: str) -> None:
    found = repeating([ord(one) for one in text], size)
    assert {chr(token) for token in found} == set(expected)


@given(st.lists(st.integers(0, 2), max_size=12))
def test_no_pair_comes_twice_where_none_is_said_that_would(tokens: list[int]) -> None:
    text: list[int] = []
    for token in tokens:
        if token not in repeating(text, 2):
            text.append(token)
    pairs = list(pairwise(text))
    assert len(pairs) == len(set(pairs))
