"""Improbable rows in noise are decoded again, and the most typical text is used."""

from collections.abc import Sequence
from itertools import product
from random import Random

import numpy as np
import pytest

from tests.unit.fakes import Call
from tests.unit.synthetic_speech import DecodedWords, chunk, decode, sentence, text, word_engine
from whisperbatch import Options
from whisperbatch.decoding.consensus import (
    IMPROBABLE,
    first_stays_typical,
    most_typical,
    moved,
    word_distance,
)
from whisperbatch.recording import Row
from whisperbatch.segmentation import RowResult
from whisperbatch.types import SAMPLING_RATE

TRUTH = "one two three four five six seven eight"
WRONG = "one two tree four five six seven ate"
SPOKEN = sentence(TRUTH, 4.0)
SPANS = [(4.0, 7.2)]


def is_moved(call: Call) -> bool:
    """Whether the row begins before its speech."""
    return call.start < SPANS[0][0]


def wrong_at_first(call: Call, words: Sequence[str]) -> DecodedWords:
    return DecodedWords(words if is_moved(call) else WRONG.split(), IMPROBABLE - 0.1)


@pytest.fixture(autouse=True)
def noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """All rows are noisy, unless the test says otherwise."""
    monkeypatch.setattr(Row, "is_noisy", True)


def test_the_most_typical_text_is_used() -> None:
    engine = word_engine(SPOKEN, wrong_at_first)
    [result] = decode(engine, chunk(SPANS))
    assert text(result) == TRUTH
    assert result.redecoded
    assert result.omissions == ()
    assert sorted(call.start for call in engine.calls) == [3.0, 3.5, 3.75, 4.0]


def test_a_single_different_text_is_not_used() -> None:
    def wrong_once(call: Call, words: Sequence[str]) -> DecodedWords:
        return DecodedWords(WRONG.split() if call.start == 3.0 else words, IMPROBABLE - 0.1)

    [result] = decode(word_engine(SPOKEN, wrong_once), chunk(SPANS))
    assert text(result) == TRUTH
    assert result.redecoded


@pytest.mark.parametrize(
    "others",
    [{}, {3.75: ["once", *TRUTH.split()[1:]], 3.5: WRONG.split()}],
    ids=["equal texts", "texts with different errors"],
)
def test_a_text_that_cannot_decide_is_not_decoded(others: dict[float, list[str]]) -> None:
    def moved_text(call: Call, words: Sequence[str]) -> DecodedWords:
        return DecodedWords(others.get(call.start, words), IMPROBABLE - 0.1)

    engine = word_engine(SPOKEN, moved_text)
    [result] = decode(engine, chunk(SPANS))
    assert text(result) == TRUTH
    assert sorted(call.start for call in engine.calls) == [3.5, 3.75, 4.0]


def test_the_first_text_stays_typical_if_no_other_text_can_decide() -> None:
    random = Random(0)  # noqa: S311 - texts, not secrets

    def some_text() -> list[str]:
        return random.choices("ab", k=random.randint(0, 3))

    settled = 0
    for _ in range(300):
        texts = [some_text() for _ in range(random.randint(1, 3))]
        others = [list(words) for k in range(4) for words in product("abc", repeat=k)]
        chosen = {most_typical([*texts, other]) for other in others} | {most_typical(texts)}
        if first_stays_typical(texts):
            settled += 1
            assert chosen == {0}
        else:
            assert len(texts) > 1
    assert 50 < settled < 250


def unchanged(result: RowResult) -> bool:
    return text(result) == WRONG and not result.redecoded


def test_a_clear_row_is_decoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Row, "is_noisy", False)
    engine = word_engine(SPOKEN, wrong_at_first)
    [result] = decode(engine, chunk(SPANS))
    assert unchanged(result)
    assert len(engine.calls) == 1


def test_a_probable_row_is_decoded_once() -> None:
    engine = word_engine(SPOKEN, lambda *_: DecodedWords(WRONG.split(), IMPROBABLE + 0.01))
    [result] = decode(engine, chunk(SPANS))
    assert unchanged(result)
    assert len(engine.calls) == 1


@pytest.mark.parametrize(
    "options",
    [
        {"log_prob_threshold": None},
        {"temperature": 0.4},
        {"task": "translate"},
        {"condition_on_previous_text": True},
        {"timestamps": "tokens"},
        {"coverage_threshold": None},
        {"vad": False, "speech_pad": Options().speech_pad},
    ],
)
def test_with_these_options_rows_are_decoded_once(options: dict[str, object]) -> None:
    engine = word_engine(SPOKEN, wrong_at_first)
    [result] = decode(engine, chunk(SPANS), **options)
    assert unchanged(result)
    assert len(engine.calls) == 1


@pytest.mark.parametrize(
    "spans",
    [[(0.0, 3.2)], [(4.0, 33.95)], [(4.0, 6.9)]],
    ids=["at the start of a recording", "full window", "less than three seconds"],
)
def test_rows_that_cannot_be_compared_are_decoded_once(spans: list[tuple[float, float]]) -> None:
    spoken = sentence(f"{TRUTH} " * 9, spans[0][0])
    engine = word_engine(spoken, lambda _, words: DecodedWords(words, IMPROBABLE - 0.1))
    [result] = decode(engine, chunk(spans), compression_ratio_threshold=None, coverage_threshold=30)
    assert len(engine.calls) == 1
    assert not result.redecoded


@pytest.mark.parametrize("kept", range(7))
def test_texts_that_skip_speech_do_not_take_part(kept: int) -> None:
    """Only the first decoding has the whole sentence."""

    def skips(call: Call, words: Sequence[str]) -> DecodedWords:
        return DecodedWords(words[:kept] if is_moved(call) else words, IMPROBABLE - 0.1)

    [result] = decode(word_engine(SPOKEN, skips), chunk(SPANS), coverage_threshold=0.3)
    assert text(result) == TRUTH
    assert result.omissions == ()


def test_what_a_retry_found_stays() -> None:
    """The model skips the end of the row, unless the row is split."""
    spoken = sentence(f"{TRUTH} nine ten eleven twelve", 4.0) + sentence(TRUTH, 12.0)
    spans = [(4.0, 8.8), (12.0, 15.2)]

    def skips(call: Call, words: Sequence[str]) -> DecodedWords:
        return DecodedWords(words if len(words) < 20 else words[:-6], IMPROBABLE - 0.1)

    [result] = decode(word_engine(spoken, skips), chunk(spans))
    assert text(result) == f"{TRUTH} nine ten eleven twelve {TRUTH}"
    assert result.omissions == ()


@pytest.mark.parametrize(
    "wrong",
    [
        DecodedWords(TRUTH.replace("eight", "ate").split(), -1.1, 0.7),
        DecodedWords((TRUTH + " eight" * 30).split(), IMPROBABLE - 0.1),
    ],
    ids=["improbable", "repetitive"],
)
def test_texts_with_other_faults_do_not_take_part(wrong: DecodedWords) -> None:
    def at_other_places(call: Call, words: Sequence[str]) -> DecodedWords:
        return wrong if is_moved(call) else DecodedWords(words, IMPROBABLE - 0.1)

    [result] = decode(word_engine(SPOKEN, at_other_places), chunk(SPANS))
    assert text(result) == TRUTH
    assert result.omissions == ()


def test_a_row_without_text_is_not_compared() -> None:
    engine = word_engine([], lambda *_: DecodedWords((), IMPROBABLE - 0.1))
    [result] = decode(engine, chunk(SPANS))
    assert text(result) == ""
    assert 3.75 not in {call.start for call in engine.calls}


def test_a_chunk_moves_within_the_room_of_its_window() -> None:
    whole = chunk([(100.0, 129.8)])
    places = moved(whole)
    assert [whole.start - place.start for place in places] == [400, 800, 1600]
    for place in places:
        assert place.speech == whole.speech
        assert place.length <= 30 * SAMPLING_RATE
        offset = whole.start - place.start
        np.testing.assert_array_equal(place.samples[offset:][: whole.length], whole.samples)
        assert not place.samples[:offset].any()
    assert moved(chunk([(0.0, 5.0)])) == []
    assert moved(chunk([(0.079, 5.0)])) == []
    assert len(moved(chunk([(0.08, 5.0)]))) == 3


def test_the_text_with_the_fewest_differences_is_the_most_typical() -> None:
    texts = [
        "this text is to give",
        "this test is to give",
        "his test is to give",
        "this test live",
    ]
    assert most_typical([text.split() for text in texts]) == 1
    assert most_typical([["a"], ["b"]]) == 0
    assert most_typical([["a"], ["b"], ["b"]]) == 1


@pytest.mark.parametrize(
    ("first", "second", "distance"),
    [
        ("", "", 0),
        ("", "a b", 2),
        ("a b", "", 2),
        ("a b c", "a b c", 0),
        ("a b c", "a x c", 1),
        ("a b c", "a c", 1),
        ("a c", "a b c", 1),
        ("a b c d", "b c d e", 2),
        ("cannot come", "can not come", 2),
    ],
)
def test_word_distance(first: str, second: str, distance: int) -> None:
    assert word_distance(first.split(), second.split()) == distance
    assert word_distance(second.split(), first.split()) == distance
