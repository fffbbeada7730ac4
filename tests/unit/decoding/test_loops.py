from hypothesis import given
from hypothesis import strategies as st

from whisperbatch.decoding.repeats import Repeat, find_repeats

WORDS = st.lists(st.sampled_from("abc"), max_size=40)


def test_repeats_have_start_end_and_period() -> None:
    assert find_repeats(["a", "b", "c", "c", "c", "d"]) == [Repeat(2, 5, 1)]
    words = "x thank you thank you thank you thank end"
    assert find_repeats(words.split()) == [Repeat(1, 8, 2)]
    assert find_repeats(["a", "b", "a", "b"]) == []
    assert find_repeats([]) == []


def test_the_longer_of_two_repeats_counts() -> None:
    assert find_repeats(list("aaabaaabaaab")) == [Repeat(0, 12, 4)]
    assert find_repeats(["a"] * 7) == [Repeat(0, 7, 1)]  # not of period 2


def test_times_and_number_of_repeated_words() -> None:
    [repeat] = find_repeats(["thank", "you", "thank", "you", "thank", "you", "thank"])
    assert (repeat.times, repeat.repeated_words) == (3.5, 5)


def test_a_repeated_paragraph_is_found() -> None:
    paragraph = [f"word{number}" for number in range(35)]
    assert find_repeats(paragraph * 3) == [Repeat(0, 105, 35)]


@given(WORDS)
def test_repeats_are_periodic_and_do_not_overlap(words: list[str]) -> None:
    end = 0
    for repeat in find_repeats(words):
        assert end <= repeat.start
        end = repeat.end
        assert repeat.end - repeat.start >= 3 * repeat.period
        for number in range(repeat.start + repeat.period, repeat.end):
            assert words[number] == words[number - repeat.period]


@given(WORDS, st.lists(st.sampled_from("abc"), min_size=1, max_size=5), st.integers(3, 8), WORDS)
def test_every_repeat_is_found(
    before: list[str], period: list[str], times: int, after: list[str]
) -> None:
    """At least in part: another repeat that overlaps it may be longer."""
    inside = range(len(before), len(before) + len(period) * times)
    repeats = find_repeats([*before, *(period * times), *after])
    covered = sum(len(set(inside) & set(range(r.start, r.end))) for r in repeats)
    assert covered > 0
