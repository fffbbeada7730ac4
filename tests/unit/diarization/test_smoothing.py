"""Where a segment is divided: at clear changes of speaker only."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from whisperbatch.diarization.assignment import MIN_PAUSE, MIN_UNITS, WordRun, divide_words
from whisperbatch.types import to_samples

WORD = to_samples(0.4)


def words(speakers: str, pauses: dict[int, int] | None = None, length: int = WORD) -> list[WordRun]:
    """Return a word for each letter, with a pause before some of them."""
    result, at = [], 0
    for number, letter in enumerate(speakers):
        at += (pauses or {}).get(number, 0)
        result.append(WordRun(number, number + 1, at, at + length, {ord(letter): length}, length))
        at += length
    return result


def parts(runs: list[WordRun]) -> list[tuple[int, int, str]]:
    return [(run.first, run.stop, chr(run.speaker)) for run in divide_words(runs)]


def test_a_single_word_between_words_of_another_is_no_part() -> None:
    assert parts(words("AAABAAA")) == [(0, 7, "A")]
    assert parts(words("AAAB")) == [(0, 4, "A")]


def test_several_long_words_are_a_part() -> None:
    assert parts(words("AAABB")) == [(0, 3, "A"), (3, 5, "B")]


def test_several_short_words_are_no_part() -> None:
    assert parts(words("AAAABB", length=to_samples(0.3))) == [(0, 6, "A")]


@pytest.mark.parametrize(
    ("pause", "count"), [(0, 1), (MIN_PAUSE - 1, 1), (MIN_PAUSE, 2)], ids=["none", "short", "long"]
)
def test_a_single_word_after_a_pause_is_a_part(pause: int, count: int) -> None:
    assert len(parts(words("AAAB", {3: pause}))) == count


def test_the_longer_side_decides() -> None:
    assert parts(words("ABBB")) == [(0, 4, "B")]
    assert parts(words("AB")) == [(0, 2, "A")]  # as long: the first to speak


def test_a_word_joins_its_longer_neighbour() -> None:
    assert parts(words("AABCCC")) == [(0, 2, "A"), (2, 6, "C")]


def test_a_pause_without_a_change_divides_nothing() -> None:
    assert parts(words("AAAA", {2: 5 * MIN_PAUSE})) == [(0, 4, "A")]


@settings(max_examples=200)
@given(
    st.text("ABC", min_size=1, max_size=20),
    st.dictionaries(st.integers(0, 19), st.sampled_from((1000, MIN_PAUSE, 30_000))),
    st.sampled_from((800, 3000, WORD)),
)
def test_parts_are_all_words_with_clear_changes(
    speakers: str, pauses: dict[int, int], length: int
) -> None:
    given_words = words(speakers, pauses, length)
    found = divide_words(given_words)
    assert [n for run in found for n in range(run.first, run.stop)] == list(range(len(speakers)))
    for one, other in pairwise(found):
        assert one.speaker != other.speaker
        pause = other.start - one.end
        assert pause >= MIN_PAUSE or min(one.units, other.units) >= MIN_UNITS
    assert sum(run.spoken for run in found) == len(speakers) * length


def test_no_words_have_no_parts() -> None:
    assert divide_words([]) == []
