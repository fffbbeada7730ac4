"""Repetitions: loops of the model, and words that are spoken again and again."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.synthetic_words import aligned, spoken_chunk
from whisperbatch.decoding.repeats import Repeat, Verdict, find_repeats, has_room, judge, times_of
from whisperbatch.segmentation.timed_text import AlignedWord
from whisperbatch.types import Chunk, SpeechSpan

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


OTHER = [
    *("the", "call", "may", "be", "recorded", "for", "quality", "and"),
    *("training", "of", "our", "staff", "in", "all", "offices"),
]


def verdicts(
    words: list[AlignedWord], chunk: Chunk, language: str = "en"
) -> list[tuple[int, Verdict]]:
    """The number of times of each repeat, and what speaks for them."""
    repeats = find_repeats([word.text.strip() for word in words])
    found = judge(words, chunk, language, repeats)
    return [
        (len(times_of(repeat)), verdict) for repeat, verdict in zip(repeats, found, strict=True)
    ]


SPOKEN = [
    # situation, source, what is said
    ("a dictated digit", "minburg/outspoke pull request 36", "5 " * 10),
    ("a number of equal digits", "SYSTRAN/faster-whisper issue 1174", "8 " * 4),
    ("no, no, no, no, no", "debpalash/VoiceStudio pull request 356", "no " * 5),
    ("again and again and again", "Beingpax/VoiceInk pull request 565", "again and " * 4),
    ("alright, alright, alright", "linto-ai/whisper-timestamped issue 63", "alright " * 3),
    ("a stutter", "MSKazemi/yazses issue 144", "a " * 6),
    ("a refrain", "matthias-ennen/transcript issue 78", "we will rock you " * 5),
    ("a greeting that is said again", "m-bain/whisperX issue 827", "hello guys " * 4),
]


@pytest.mark.parametrize(("situation", "source", "text"), SPOKEN)
def test_spoken_repetitions_are_spoken(situation: str, source: str, text: str) -> None:
    said = text.split()
    chunk, places = spoken_chunk(said)
    words = [aligned(word, *place) for word, place in zip(said, places, strict=True)]
    [(count, verdict)] = verdicts(words, chunk)
    assert verdict.spoken == set(range(count)), (situation, source)
    assert not verdict.excess


LOOPS = [
    # situation, source, what is heard under the words of the text
    ("one word over other speech", "linto-ai/linto-stt issue 61", OTHER),
    ("over noise", "screenpipe/screenpipe pull request 4070", [""] * 12),
    ("over noise after speech", "openai/whisper issue 679", [*OTHER[:4], *[""] * 10]),
    ("over a voice with pauses", "SYSTRAN/faster-whisper issue 465", OTHER[::-1]),
    (
        "over noise and speech",
        "tinyhumansai/openhuman issue 553",
        ["", "one", "", "two", "", "six"],
    ),
]


@pytest.mark.parametrize(("situation", "source", "heard"), LOOPS)
def test_loops_are_not_spoken(situation: str, source: str, heard: list[str]) -> None:
    chunk, places = spoken_chunk(heard)
    words = [aligned("petite", *place) for place in places]
    [(count, verdict)] = verdicts(words, chunk)
    assert count == len(heard)
    assert len(verdict.spoken) <= 1, (situation, source)
    assert not verdict.excess


def test_words_that_share_a_sound_are_too_many() -> None:
    """Whisper writes one of five sounds twice: the alignment divides the sound."""
    chunk, places = spoken_chunk(["one"] * 5)
    start, end = places[2]
    middle = (start + end) // 2
    shared = [*places[:2], (start, middle), (middle, end), *places[3:]]
    [(count, verdict)] = verdicts([aligned("one", *place) for place in shared], chunk)
    assert (count, len(verdict.spoken)) == (6, 5)
    assert verdict.excess < {2, 3}
    assert len(verdict.excess) == 1


def test_no_word_is_too_many_if_a_sound_has_none() -> None:
    """The alignment gives the third sound two words, and the last sound none."""
    chunk, places = spoken_chunk(["one"] * 6)
    start, end = places[2]
    middle = (start + end) // 2
    shared = [*places[:2], (start, middle), (middle, end), *places[3:5]]
    [(count, verdict)] = verdicts([aligned("one", *place) for place in shared], chunk)
    assert (count, len(verdict.spoken), verdict.excess) == (6, 6, frozenset())


def test_similar_but_different_words_are_not_too_many() -> None:
    """In noise, the sounds differ: their number is uncertain, and all words stay."""
    chunk, places = spoken_chunk(["one"] * 5, under=0.05)
    start, end = places[2]
    middle = (start + end) // 2
    shared = [*places[:2], (start, middle), (middle, end), *places[3:]]
    [(_, verdict)] = verdicts([aligned("one", *place) for place in shared], chunk)
    assert not verdict.excess


def test_long_sentences_may_have_other_pauses() -> None:
    sentence = OTHER[:6]
    said = sentence * 3
    chunk, places = spoken_chunk(said, pause=0.1)
    words = [aligned(word, *place) for word, place in zip(said, places, strict=True)]
    [(count, verdict)] = verdicts(words, chunk)
    assert (count, verdict.spoken) == (3, frozenset({0, 1, 2}))


def test_words_need_time_and_speech() -> None:
    span = SpeechSpan(0, 16_000, before=1600, after=1600)
    assert has_room([aligned("seven", 2000, 8000)], [span], "en")
    assert not has_room([aligned("seven", 2000, 2000)], [span], "en")
    assert not has_room([aligned("seventeen", 2000, 5200)], [span], "en"), "45 letters a second"
    assert not has_room([aligned("好好好", 2000, 5200)], [span], "zh")
    assert has_room([aligned("好好", 2000, 5200)], [span], "zh")
    assert not has_room([aligned("seven", 20_000, 26_000)], [span], "en"), "no speech"
    assert not has_room([aligned("seven", 0, 6000)], [replace(span, before=5000)], "en")
