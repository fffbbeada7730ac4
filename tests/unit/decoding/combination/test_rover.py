"""Several texts of the same speech are combined: each word is that of most texts."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whisperbatch.decoding.combination import combine
from whisperbatch.decoding.combination.rover import MAX_GAP, aligned_pairs
from whisperbatch.segmentation.timed_text import AlignedWord


def words(text: str, offset: int = 0, probability: float = 0.5) -> list[AlignedWord]:
    """Words of a second each, with pauses of a second."""
    return [
        AlignedWord(f" {word}", 2 * number + offset, 2 * number + 1 + offset, probability, 0)
        for number, word in enumerate(text.split())
    ]


def combined(reference: str, *others: str) -> str:
    result = combine(words(reference), [words(other) for other in others])
    return "".join(word.text for word in result).strip()


@pytest.mark.parametrize(
    ("reference", "others", "expected"),
    [
        ("a b c", (), "a b c"),
        ("a b c", ("a x c", "a y c"), "a b c"),  # a draw
        ("a b c", ("a x c",), "a b c"),
        ("a b c", ("a x c", "a x c"), "a x c"),
        ("a b c", ("a x c", "a x c", "a b c"), "a b c"),
        ("a b c", ("a c", "a c"), "a c"),
        ("a b c", ("a b d c", "a b d c"), "a b d c"),
        ("a b c", ("a b d c", "a b e c"), "a b c"),
        ("a b c", ("a b d c", "a b d c", "a b c"), "a b c"),  # half of the texts
        ("a b", ("x y a b", "x y a b"), "x y a b"),
        ("a b", ("a b x", "a b x"), "a b x"),
        ("A, b.", ("a b", "a b"), "A, b."),  # without case and punctuation
        ("a", ("", "", ""), ""),
        ("", ("a", "a", "a"), "a"),
    ],
)
def test_most_texts_decide(reference: str, others: tuple[str, ...], expected: str) -> None:
    assert combined(reference, *others) == expected


def test_a_text_that_skips_a_sentence_is_not_counted_there() -> None:
    sentence = " ".join("abcdefghij"[: MAX_GAP + 1])
    assert combined(f"x {sentence} y", "x y", "x y", "x y") == f"x {sentence} y"
    short = " ".join("abcdefghij"[:MAX_GAP])
    assert combined(f"x {short} y", "x y", "x y", "x y") == "x y"


def test_a_word_that_replaces_another_has_its_times_and_its_own_probability() -> None:
    reference = words("a b c")
    other = words("a x c", offset=100, probability=0.9)
    replaced = combine(reference, [other, other])
    assert [(word.start, word.end) for word in replaced] == [(0, 1), (2, 3), (4, 5)]
    assert [word.probability for word in replaced] == [0.5, 0.9, 0.5]


texts = st.lists(st.sampled_from("abcd"), max_size=12).map(" ".join)


@given(texts, st.lists(texts, max_size=4), st.integers(-30, 30))
def test_times_never_decrease(reference: str, others: list[str], offset: int) -> None:
    result = combine(words(reference), [words(other, offset) for other in others])
    assert all(word.start <= word.end for word in result)
    for word, following in pairwise(result):
        assert word.end <= following.start


@given(texts, st.lists(texts, max_size=3))
def test_a_text_that_most_texts_equal_is_the_result(text: str, others: list[str]) -> None:
    assert combined(text, *[text] * (len(others) + 1), *others) == text


@given(texts.map(str.split), texts.map(str.split))
def test_an_alignment_has_every_word_once_and_the_lowest_cost(
    first: list[str], second: list[str]
) -> None:
    pairs = aligned_pairs(first, second)
    assert [old for old, _ in pairs if old is not None] == list(range(len(first)))
    assert [new for _, new in pairs if new is not None] == list(range(len(second)))
    cost = sum(old is None or new is None or first[old] != second[new] for old, new in pairs)
    assert cost == distance(tuple(first), tuple(second))


def distance(first: tuple[str, ...], second: tuple[str, ...]) -> int:
    """The edit distance, row by row."""
    row = list(range(len(second) + 1))
    for number, word in enumerate(first, start=1):
        diagonal, row[0] = row[0], number
        for column, other in enumerate(second, start=1):
            diagonal, row[column] = (
                row[column],
                min(diagonal + (word != other), row[column] + 1, row[column - 1] + 1),
            )
    return row[-1]
