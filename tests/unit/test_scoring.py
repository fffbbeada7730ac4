import pytest

from benchmarks.recordings import Utterance
from benchmarks.scoring import Score, start_errors, word_error_rate, words


def test_errors_are_counted_by_kind() -> None:
    score = word_error_rate("please hold the line now", "please told the the line")
    assert score == Score(words=5, substitutions=1, deletions=1, insertions=1)
    assert score.errors == 3
    assert score.rate == pytest.approx(0.6)


def test_scores_add_up() -> None:
    total = sum((Score(10, 1, 0, 0), Score(30, 0, 2, 1)), Score())
    assert total == Score(40, 1, 2, 1)
    assert total.rate == pytest.approx(0.1)


def test_silence_is_right_and_words_in_silence_are_wrong() -> None:
    assert word_error_rate("", "").rate == 0
    assert word_error_rate("...", "thank you").insertions == 2
    assert word_error_rate("", "thank you").rate == 1
    assert word_error_rate("thank you", "").deletions == 2


@pytest.mark.parametrize(
    ("language", "one", "other"),
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
def test_same_speech_written_differently_is_the_same(language: str, one: str, other: str) -> None:
    assert words(one, language) == words(other, language)


@pytest.mark.parametrize(
    ("language", "one", "other"),
    [
        ("en", "blacklist", "black list"),
        ("en", "press fifteen", "press fifty"),
        ("pl", "łódź", "lodz"),
        ("hi", "दिन", "दीन"),
    ],
)
def test_different_speech_is_different(language: str, one: str, other: str) -> None:
    assert words(one, language) != words(other, language)


def test_languages_without_spaces_are_counted_in_characters() -> None:
    assert word_error_rate("你好世界。", "你好世间", "zh") == Score(words=4, substitutions=1)


def said(*times: tuple[float, float]) -> list[Utterance]:
    return [Utterance(start, end, "x", "en") for start, end in times]


def test_starts_are_compared_after_long_pauses_only() -> None:
    utterances = said((1.0, 2.0), (2.5, 3.0), (5.0, 6.0))
    assert start_errors(utterances, [1.25, 2.5, 4.0, 5.5]) == pytest.approx([0.25, 0.5])
    assert start_errors(utterances, [1.0], min_pause=0.4) == pytest.approx([0.0, 1.5, 4.0])


def test_first_utterance_counts_only_after_silence() -> None:
    assert start_errors(said((0.1, 1.0)), [0.1]) == []


def test_without_segments_every_start_is_missed() -> None:
    assert start_errors(said((1.0, 2.0)), []) == [float("inf")]
