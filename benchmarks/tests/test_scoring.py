"""Measures of transcripts: word errors, segment starts, made-up and missed words."""

import pytest

from benchmarks.recordings import Utterance
from benchmarks.scoring import (
    Score,
    TimedWord,
    character_error_rate,
    made_up,
    missed,
    spread,
    start_errors,
    word_error_rate,
    words,
)


def test_errors_are_counted_by_kind() -> None:
    score = word_error_rate("please hold the line now", "please told the the line")
    assert score == Score(words=5, substitutions=1, deletions=1, insertions=1)
    assert score.errors == 3
    assert score.rate == pytest.approx(0.6)


def test_scores_add_up() -> None:
    total = sum((Score(10, 1, 0, 0), Score(30, 0, 2, 1)), Score())
    assert total == Score(40, 1, 2, 1)
    assert total.rate == pytest.approx(0.1)


def test_an_empty_truth_has_no_words_and_counts_insertions() -> None:
    assert word_error_rate("", "").rate == 0
    assert word_error_rate("...", "thank you").insertions == 2
    assert word_error_rate("", "thank you").rate == 1
    assert word_error_rate("thank you", "").deletions == 2


@pytest.mark.parametrize(
    ("language", "text", "variant"),
    [
        ("en", "Press one, or press 2.", "press 1 or press two"),
        ("en", "dial 1234", "dial 1-2-3-4"),
        (
            "en",
            "One two three four five six seven eight nine ten.",
            "1, 2, 3, 4, 5, 6, 7, 8, 9, 10",
        ),
        ("en", "I'm sorry, that's cancelled.", "I am sorry that is canceled"),
        ("es", "Opción inválida, pulse dos", "opcion invalida pulse 2"),
        ("fr", "Appuyez sur un.", "appuyez sur 1"),
        ("it", "perché no", "perche no"),
        ("ru", "ещё три", "Еще 3."),
        ("hi", "एक दो तीन।", "1, 2, 3"),
        ("ja", "一二三。", "1 2 3"),
        ("zh", "十。你好", "10 你好"),
    ],
)
def test_spellings_of_the_same_speech_are_equal(language: str, text: str, variant: str) -> None:
    assert words(text, language) == words(variant, language)


@pytest.mark.parametrize(
    ("language", "text", "variant"),
    [
        ("en", "blacklist", "black list"),
        ("en", "press fifteen", "press fifty"),
        ("pl", "łódź", "lodz"),
        ("hi", "दिन", "दीन"),
    ],
)
def test_different_speech_is_different(language: str, text: str, variant: str) -> None:
    assert words(text, language) != words(variant, language)


def test_languages_without_spaces_are_counted_in_characters() -> None:
    assert word_error_rate("你好世界。", "你好世间", "zh") == Score(words=4, substitutions=1)


def utterances_at(*times: tuple[float, float]) -> list[Utterance]:
    return [Utterance(start, end, "x", "en") for start, end in times]


def test_starts_are_compared_only_after_long_pauses() -> None:
    utterances = utterances_at((1.0, 2.0), (2.5, 3.0), (5.0, 6.0))
    assert start_errors(utterances, [1.25, 2.5, 4.0, 5.5]) == pytest.approx([0.25, 0.5])
    assert start_errors(utterances, [1.0], min_pause=0.4) == pytest.approx([0.0, 1.5, 4.0])


def test_first_utterance_counts_only_after_silence() -> None:
    assert start_errors(utterances_at((0.1, 1.0)), [0.1]) == []


def test_without_segments_start_errors_are_infinite() -> None:
    assert start_errors(utterances_at((1.0, 2.0)), []) == [float("inf")]


def test_character_errors_count_the_spaces_between_words() -> None:
    assert character_error_rate("please hold", "pleases held") == Score(11, 1, 0, 1)
    assert character_error_rate("black list", "blacklist") == Score(words=10, deletions=1)
    assert character_error_rate("", "hm, yes") == Score(insertions=6)
    assert character_error_rate("你好世界。", "你好世间", "zh") == Score(words=4, substitutions=1)


def words_at(*times: tuple[float, float], text: str = "x") -> list[TimedWord]:
    return [TimedWord(start, end, text) for start, end in times]


@pytest.mark.parametrize(
    ("word", "count"),
    [
        ((0.0, 0.4), 0),  # the first utterance is at 0.2
        ((2.6, 3.0), 1),
        ((2.4, 3.0), 0),  # within 0.5 s of the first utterance, which ends at 2
        ((9.0, 9.4), 1),
        ((9.0, 9.6), 0),  # within 0.5 s of the second utterance, from 10 to 12
        ((1.0, 11.0), 0),
        ((12.2, 12.4), 0),  # the gap is too short for any word
        ((14.6, 14.9), 1),
        ((19.0, 22.0), 1),  # ends after the recording
    ],
)
def test_words_far_from_all_speech_are_made_up(word: tuple[float, float], count: int) -> None:
    utterances = utterances_at((0.2, 2.0), (10.0, 12.0), (12.6, 14.0))
    assert made_up(utterances, words_at(word), 20.0) == count


def test_made_up_words_are_counted_after_normalization() -> None:
    assert made_up([], words_at((0, 1), (1, 2), text="I'm"), 10) == 4
    assert made_up([], words_at((0, 1), text="..."), 10) == 0
    assert made_up(utterances_at((0, 10)), words_at((1, 2)), 10) == 0
    assert made_up(utterances_at((4, 6)), words_at((0, 0.5)), 10) == 1


def utterances_of(*texts: str) -> list[Utterance]:
    return [Utterance(number, number + 0.5, text, "en") for number, text in enumerate(texts)]


def test_utterances_without_any_of_their_words_are_missed() -> None:
    utterances = utterances_of("please hold", "press one", "...", "thank you for calling")
    assert missed(utterances, "Please hold. Thank you for calling.") == [utterances[1]]
    assert missed(utterances, "please told, press 1, thanks for crawling") == []
    assert missed(utterances, "") == [utterances[0], utterances[1], utterances[3]]
    assert missed([], "hello") == []
    # The words are recognized, but at another place.
    swapped = utterances_of("press one", "good morning everybody")
    assert missed(swapped, "good morning everybody press one") == swapped[:1]


def test_the_time_of_a_segment_is_divided_among_its_words() -> None:
    assert spread(1.0, 3.0, " one three ") == [
        TimedWord(1.0, 1.75, "one"),
        TimedWord(1.75, 3.0, "three"),
    ]
    assert [word.text for word in spread(0, 1, "你好 ", "zh")] == ["你", "好"]
    assert spread(0, 1, "  ") == []
