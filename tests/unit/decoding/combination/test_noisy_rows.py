"""Improbable rows in noise are decoded again, and the texts are combined."""

from collections.abc import Sequence

import pytest

from tests.unit.fakes import Call
from tests.unit.synthetic_speech import (
    DecodedWords,
    chunk,
    decode,
    sentence,
    text,
    word_engine,
)
from whisperbatch.decoding.combination.noisy_rows import IMPROBABLE
from whisperbatch.rows import Row
from whisperbatch.segmentation import RowResult

SPOKEN = sentence("one two three four five six seven eight", 4.0)
SPANS = [(4.0, 7.2)]
TRUTH = "one two three four five six seven eight"
WRONG = "one two tree four five six seven ate"


def has_silence(call: Call) -> bool:
    """Whether the row begins before its speech."""
    return call.start < SPANS[0][0]


def wrong_without_silence(call: Call, words: Sequence[str]) -> DecodedWords:
    return DecodedWords(words if has_silence(call) else WRONG.split(), IMPROBABLE - 0.1)


@pytest.fixture(autouse=True)
def noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """All rows are noisy, unless the test says otherwise."""
    monkeypatch.setattr(Row, "is_noisy", True)


def test_the_words_of_most_decodings_are_used() -> None:
    engine = word_engine(SPOKEN, wrong_without_silence)
    [result] = decode(engine, chunk(SPANS))
    assert text(result) == TRUTH
    assert result.redecoded
    assert result.omissions == ()
    assert sorted(call.start for call in engine.calls) == [3.0, 3.5, 3.75, 4.0]
    [scored] = result.texts
    assert scored.scores.avg_logprob == pytest.approx(IMPROBABLE - 0.1)
    assert [word.start for word in scored.words] == sorted(word.start for word in scored.words)
    assert {word.span for word in scored.words} == {0}


def test_the_text_of_equal_decodings_is_unchanged() -> None:
    engine = word_engine(SPOKEN, lambda _, words: DecodedWords(words, IMPROBABLE - 0.1))
    [result] = decode(engine, chunk(SPANS))
    assert text(result) == TRUTH
    assert result.redecoded
    assert len(engine.calls) == 4


def unchanged(result: RowResult) -> bool:
    return text(result) == WRONG and not result.redecoded


def test_a_clear_row_is_not_combined(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Row, "is_noisy", False)
    engine = word_engine(SPOKEN, wrong_without_silence)
    [result] = decode(engine, chunk(SPANS))
    assert unchanged(result)
    assert len(engine.calls) == 1


def test_a_probable_row_is_not_combined() -> None:
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
    ],
)
def test_rows_are_not_combined_with_these_options(options: dict[str, object]) -> None:
    engine = word_engine(SPOKEN, wrong_without_silence)
    [result] = decode(engine, chunk(SPANS), **options)
    assert unchanged(result)
    assert len(engine.calls) == 1


@pytest.mark.parametrize(
    "spans", [[(0.0, 3.2)], [(4.0, 34.0)]], ids=["at the start of a recording", "full window"]
)
def test_a_row_without_room_for_silence_is_decoded_once(spans: list[tuple[float, float]]) -> None:
    spoken = sentence("one two three four five six seven eight " * 9, spans[0][0])
    engine = word_engine(spoken, lambda _, words: DecodedWords(words, IMPROBABLE - 0.1))
    decode(engine, chunk(spans), coverage_threshold=None, compression_ratio_threshold=None)
    assert len(engine.calls) == 1


def test_what_a_decoding_skips_is_not_lost() -> None:
    """Only the first decoding has the sentence: the others skip it."""

    def skips(call: Call, words: Sequence[str]) -> DecodedWords:
        return DecodedWords(words[:1] if has_silence(call) else words, IMPROBABLE - 0.1)

    [result] = decode(word_engine(SPOKEN, skips), chunk(SPANS))
    assert text(result) == TRUTH


def test_a_combination_that_leaves_speech_without_words_is_not_used() -> None:
    def fewer(call: Call, words: Sequence[str]) -> DecodedWords:
        return DecodedWords(words[:4] if has_silence(call) else words, IMPROBABLE - 0.1)

    [result] = decode(word_engine(SPOKEN, fewer), chunk(SPANS))
    assert text(result) == TRUTH
    assert result.omissions == ()


def test_a_row_without_text_is_decoded_once() -> None:
    engine = word_engine([], lambda *_: DecodedWords((), IMPROBABLE - 0.1))
    [result] = decode(engine, chunk(SPANS), coverage_threshold=None)
    assert text(result) == ""
    assert len(engine.calls) == 1
