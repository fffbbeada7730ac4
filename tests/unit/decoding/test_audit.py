import pytest

from tests.unit.decoding.test_words import span
from whisperbatch.decoding.audit import too_fast, uncovered
from whisperbatch.decoding.words import AlignedWord
from whisperbatch.types import to_samples


def word(text: str, start: float, end: float, number: int = 0) -> AlignedWord:
    times = to_samples(start), to_samples(end)
    return AlignedWord(text, *times, 0.9, number, aligned=times)


def holes(*found: tuple[float, float, float]) -> list[tuple[int, int, int]]:
    return [
        (to_samples(start), to_samples(end), to_samples(length)) for start, end, length in found
    ]


def seen(words: list[AlignedWord], *spans: tuple[float, ...]) -> list[tuple[int, int, int]]:
    found = uncovered(words, [span(*one) for one in spans])
    return [(hole.start, hole.end, hole.speech) for hole in found]


def test_speech_with_words_has_no_holes() -> None:
    words = [word(" good", 0.0, 0.5), word(" morning", 0.5, 1.2)]
    assert seen(words, (0.0, 1.2)) == []


def test_speech_before_between_and_after_words() -> None:
    words = [word(" good", 2.0, 2.5), word(" morning", 6.0, 6.5)]
    assert seen(words, (0.0, 9.0)) == holes((0, 2, 2), (2.5, 6, 3.5), (6.5, 9, 2.5))


def test_a_hole_goes_on_across_a_pause_that_does_not_count() -> None:
    assert seen([word(" good", 0.0, 0.5)], (0.0, 2.0), (5.0, 8.0)) == holes((0.5, 8, 4.5))
    between = [word(" good", 0.0, 0.5), word(" day", 5.0, 5.5, 1)]
    assert seen(between, (0.0, 2.0), (5.0, 8.0)) == holes((0.5, 2, 1.5), (5.5, 8, 2.5))


def test_a_word_covers_no_more_than_it_takes_to_say_it_slowly() -> None:
    stretched = [word(" good", 0.0, 5.0)]  # half a second, and 0.12 s a letter
    assert seen(stretched, (0.0, 5.0)) == holes((0.98, 5, 4.02))


def test_margins_are_not_speech() -> None:
    assert seen([], (0.0, 2.0, 0.1, 0.3)) == holes((0.1, 1.7, 1.6))
    assert seen([word(" good", 0.1, 0.7)], (0.0, 0.8, 0.1, 0.1)) == []


def test_no_words_leave_all_speech_uncovered() -> None:
    assert seen([], (1.0, 2.0), (4.0, 5.5)) == holes((1, 5.5, 2.5))


@pytest.mark.parametrize("pace", [0.01, 0.1])
def test_words_that_there_is_no_time_for(pace: float) -> None:
    said = [word(" spoken", 0.0, 0.6), word(" slowly", 0.6, 1.2)]
    rest = [word(" more", 1.2 + n * pace, 1.2 + (n + 1) * pace) for n in range(8)]
    assert too_fast([*said, *rest], "en") == (list(range(2, 10)) if pace < 0.05 else [])


def test_the_alignment_tells_not_the_place_in_speech() -> None:
    """Where the detector has missed speech, words are moved together."""
    words = [
        AlignedWord(" more", 0, 160, 0.9, 0, aligned=(to_samples(n), to_samples(n + 0.5)))
        for n in range(8)
    ]
    assert too_fast(words, "en") == []


def test_a_few_hurried_letters_are_jitter() -> None:
    words = [word(" it", 0.0, 0.02), word(" is", 0.02, 0.04), word(" so", 0.04, 0.06)]
    assert too_fast(words, "en") == []


def test_characters_that_are_syllables_take_longer() -> None:
    words = [word(c, n * 0.03, (n + 1) * 0.03) for n, c in enumerate("请输入您的号码")]
    assert too_fast(words, "zh") == list(range(7))
    slower = [word(c, n * 0.08, (n + 1) * 0.08) for n, c in enumerate("请输入您的号码")]
    assert too_fast(slower, "zh") == []
