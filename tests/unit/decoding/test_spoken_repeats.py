"""Which repetitions are spoken: alignment, VAD and sound agree. Loops of the model are not."""

from dataclasses import replace

import pytest

from tests.unit.synthetic_words import aligned, spoken_chunk
from whisperbatch.decoding.repeats import Verdict, find_repeats, has_room, judge, times_of
from whisperbatch.segmentation.timed_text import AlignedWord
from whisperbatch.types import Chunk, SpeechSpan

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
