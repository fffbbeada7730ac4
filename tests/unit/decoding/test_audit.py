import pytest

from tests.unit.decoding.test_words import span
from whisperbatch.decoding.audit import all_uncovered_speech, too_fast_runs
from whisperbatch.segmentation.timed_text import AlignedWord
from whisperbatch.types import to_samples


def word(text: str, start: float, end: float, span_index: int = 0) -> AlignedWord:
    times = to_samples(start), to_samples(end)
    return AlignedWord(text, *times, 0.9, span_index, aligned=times)


def gaps(*gaps: tuple[float, float, float]) -> list[tuple[int, int, int]]:
    return [(to_samples(start), to_samples(end), to_samples(length)) for start, end, length in gaps]


def uncovered(words: list[AlignedWord], *spans: tuple[float, ...]) -> list[tuple[int, int, int]]:
    speech = [span(*times) for times in spans]
    return [(gap.start, gap.end, gap.speech) for gap in all_uncovered_speech(words, speech)]


def test_words_cover_their_speech() -> None:
    words = [word(" good", 0.0, 0.5), word(" morning", 0.5, 1.2)]
    assert uncovered(words, (0.0, 1.2)) == []


def test_speech_before_between_and_after_words() -> None:
    words = [word(" good", 2.0, 2.5), word(" morning", 6.0, 6.5)]
    assert uncovered(words, (0.0, 9.0)) == gaps((0, 2, 2), (2.5, 6, 3.5), (6.5, 9, 2.5))


def test_uncovered_speech_continues_across_a_pause_without_counting_it() -> None:
    assert uncovered([word(" good", 0.0, 0.5)], (0.0, 2.0), (5.0, 8.0)) == gaps((0.5, 8, 4.5))
    words = [word(" good", 0.0, 0.5), word(" day", 5.0, 5.5, 1)]
    assert uncovered(words, (0.0, 2.0), (5.0, 8.0)) == gaps((0.5, 2, 1.5), (5.5, 8, 2.5))


def test_a_word_covers_at_most_its_slow_duration() -> None:
    stretched = [word(" good", 0.0, 5.0)]  # 0.5 s, and 0.12 s for each letter
    assert uncovered(stretched, (0.0, 5.0)) == gaps((0.98, 5, 4.02))


def test_margins_are_not_speech() -> None:
    assert uncovered([], (0.0, 2.0, 0.1, 0.3)) == gaps((0.1, 1.7, 1.6))
    assert uncovered([word(" good", 0.1, 0.7)], (0.0, 0.8, 0.1, 0.1)) == []


def test_without_words_all_speech_is_uncovered() -> None:
    assert uncovered([], (1.0, 2.0), (4.0, 5.5)) == gaps((1, 5.5, 2.5))


@pytest.mark.parametrize("pace", [0.01, 0.1])
def test_words_too_short_for_their_letters_are_too_fast(pace: float) -> None:
    spoken = [word(" spoken", 0.0, 0.6), word(" slowly", 0.6, 1.2)]
    looping = [word(" more", 1.2 + n * pace, 1.2 + (n + 1) * pace) for n in range(8)]
    fast = list(range(2, 10)) if pace < 0.05 else []
    assert too_fast_runs([*spoken, *looping], "en") == fast


def test_the_rate_is_measured_by_the_alignment() -> None:
    """If the VAD has missed speech, words are moved close together, but they are not too fast."""
    words = [
        AlignedWord(" more", 0, 160, 0.9, 0, aligned=(to_samples(n), to_samples(n + 0.5)))
        for n in range(8)
    ]
    assert too_fast_runs(words, "en") == []


def test_a_few_fast_letters_are_jitter() -> None:
    words = [word(" it", 0.0, 0.02), word(" is", 0.02, 0.04), word(" so", 0.04, 0.06)]
    assert too_fast_runs(words, "en") == []


def test_characters_that_are_syllables_take_longer() -> None:
    words = [word(c, n * 0.03, (n + 1) * 0.03) for n, c in enumerate("请输入您的号码")]
    assert too_fast_runs(words, "zh") == list(range(7))
    slower = [word(c, n * 0.08, (n + 1) * 0.08) for n, c in enumerate("请输入您的号码")]
    assert too_fast_runs(slower, "zh") == []
