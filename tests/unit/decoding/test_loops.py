from hypothesis import given
from hypothesis import strategies as st

from whisperbatch.decoding.loops import Repeat, repeats

WORDS = st.lists(st.sampled_from("abc"), max_size=40)


def test_repeats_are_found_where_they_are() -> None:
    assert repeats(["a", "b", "c", "c", "c", "d"]) == [Repeat(2, 5, 1)]
    words = "x thank you thank you thank you thank end"
    assert repeats(words.split()) == [Repeat(1, 8, 2)]
    assert repeats(["a", "b", "a", "b"]) == []
    assert repeats([]) == []


def test_the_longer_of_two_repeats_counts() -> None:
    assert repeats(list("aaabaaabaaab")) == [Repeat(0, 12, 4)]
    assert repeats(["a"] * 7) == [Repeat(0, 7, 1)]  # and not of period 2


def test_a_repeat_tells_how_often() -> None:
    [repeat] = repeats(["thank", "you", "thank", "you", "thank", "you", "thank"])
    assert (repeat.times, repeat.again) == (3.5, 5)


def test_a_paragraph_that_repeats() -> None:
    paragraph = [f"word{number}" for number in range(35)]
    assert repeats(paragraph * 3) == [Repeat(0, 105, 35)]


@given(WORDS)
def test_repeats_repeat_and_do_not_overlap(words: list[str]) -> None:
    end = 0
    for repeat in repeats(words):
        assert end <= repeat.start
        end = repeat.end
        assert repeat.end - repeat.start >= 3 * repeat.period
        for number in range(repeat.start + repeat.period, repeat.end):
            assert words[number] == words[number - repeat.period]


@given(WORDS, st.lists(st.sampled_from("abc"), min_size=1, max_size=5), st.integers(3, 8), WORDS)
def test_no_repeat_is_overlooked(
    before: list[str], period: list[str], times: int, after: list[str]
) -> None:
    """All of it may lie in a longer one, or most of it."""
    inside = range(len(before), len(before) + len(period) * times)
    found = repeats([*before, *(period * times), *after])
    covered = sum(len(set(inside) & set(range(r.start, r.end))) for r in found)
    assert covered > 0
