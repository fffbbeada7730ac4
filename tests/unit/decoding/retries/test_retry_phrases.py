"""Retries that decode phrases alone: several difficult voices, and repeated announcements."""

from collections.abc import Sequence

import pytest

from tests.unit.fakes import Call
from tests.unit.synthetic_speech import (
    EARLY,
    SPANS,
    SPOKEN,
    TEXT,
    DecodedWords,
    chunk,
    decode,
    segments,
    sentence,
    text,
    word_engine,
)

ANNOUNCEMENT = "please hold the line you are next"
STARTS = (0.0, 4.0, 8.0, 12.0)
PHRASES = [word for start in STARTS for word in sentence(ANNOUNCEMENT, start)]
PHRASE_SPANS = [(start, start + 2.8) for start in STARTS]


@pytest.mark.parametrize(
    ("avg_logprob", "no_speech_prob", "options", "used"),
    [
        (-0.9, 0.1, {}, True),
        (-0.9, 0.3, {}, False),
        (-0.5, 0.5, {}, True),
        (-0.5, 0.7, {}, False),
        (-0.9, 0.3, {"log_prob_threshold": -1.2}, True),
        (-0.9, 0.3, {"no_speech_threshold": 0.9}, True),
        (-0.9, 0.3, {"log_prob_threshold": None}, True),
        (-0.9, 0.3, {"no_speech_threshold": None}, True),
    ],
)
def test_new_text_for_speech_without_text_must_be_probable(
    avg_logprob: float, no_speech_prob: float, options: dict[str, float | None], used: bool
) -> None:
    """The later half has no text at first."""

    def later_half_alone(call: Call, words: Sequence[str]) -> DecodedWords:
        if call.start >= 3.5:
            return DecodedWords(words, avg_logprob, no_speech_prob)
        return DecodedWords(words[: len(EARLY)])

    [result] = decode(word_engine(SPOKEN, later_half_alone), chunk(SPANS), **options)
    early = " ".join(word.word for word in EARLY)
    assert text(result) == (TEXT if used else early)
    assert [omission.reason for omission in result.omissions] == ([] if used else ["missed"])


def test_improbable_text_for_speech_that_had_text_stays() -> None:
    """A split that adds no new text needs no higher probability: the audit alone compares."""

    def repeats(call: Call, words: Sequence[str]) -> DecodedWords:
        whole = call.end - call.start > 5
        return DecodedWords([*words, *words, *words] if whole else words, -0.2 if whole else -0.9)

    [result] = decode(word_engine(SPOKEN, repeats), chunk(SPANS))
    assert text(result) == TEXT


def is_one_phrase(call: Call) -> bool:
    return call.end - call.start < 4


def test_a_repeated_announcement_is_kept_as_often_as_it_is_spoken() -> None:
    """With several announcements in a row, the text repeats more often than the speech."""

    def loops(call: Call, words: Sequence[str]) -> DecodedWords:
        return DecodedWords(words if is_one_phrase(call) else ANNOUNCEMENT.split() * 12)

    [result] = decode(word_engine(PHRASES, loops), chunk(PHRASE_SPANS))
    assert text(result) == " ".join([ANNOUNCEMENT] * 4)
    assert result.omissions == ()


def test_several_voices_that_are_only_decoded_alone_are_decoded_alone() -> None:
    def empty(call: Call, words: Sequence[str]) -> DecodedWords:
        return DecodedWords(words if is_one_phrase(call) else ())

    [result] = decode(word_engine(PHRASES, empty), chunk(PHRASE_SPANS))
    assert text(result) == " ".join([ANNOUNCEMENT] * 4)
    assert result.omissions == ()


def test_speech_with_text_stays_together_when_other_speech_is_decoded_in_pieces() -> None:
    """The first two phrases have text; the last two are decoded only if each is alone."""

    def early_only(call: Call, words: Sequence[str]) -> DecodedWords:
        if is_one_phrase(call) and call.start >= 7:
            return DecodedWords(words)
        return DecodedWords(words[:14] if call.start < 7 else ())

    engine = word_engine(PHRASES, early_only)
    [result] = decode(engine, chunk(PHRASE_SPANS))
    assert [round(segment.start) for segment in segments(result)] == [0, 4, 8, 12]
    assert result.omissions == ()


def test_pieces_are_not_divided_again() -> None:
    engine = word_engine(PHRASES, lambda *_: DecodedWords(()))
    [result] = decode(engine, chunk(PHRASE_SPANS))
    assert [omission.reason for omission in result.omissions] == ["missed"]
    assert len(engine.calls) <= 15
