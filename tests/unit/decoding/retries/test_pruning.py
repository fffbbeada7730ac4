"""Parts of a try are not decoded if the try cannot be better; the result is the same."""

from collections.abc import Sequence
from random import Random

import pytest

from tests.unit.fakes import Call
from tests.unit.synthetic_speech import (
    EARLY,
    SPANS,
    SPOKEN,
    DecodedWords,
    chunk,
    decode,
    segments,
    sentence,
    word_engine,
)
from whisperbatch.decoding import retries
from whisperbatch.segmentation import RowResult

PHRASES = range(8)
LONG = [
    word
    for number in PHRASES
    for word in sentence(" ".join(f"word{number}{letter}" for letter in "abcdef"), 3.5 * number)
]
LONG_SPANS = [(3.5 * number, 3.5 * number + 2.4) for number in PHRASES]


def test_the_other_part_is_not_decoded_if_the_faulty_part_is_no_better() -> None:
    early = {word.word for word in EARLY}

    def loses_the_end(_: Call, words: Sequence[str]) -> DecodedWords:
        return DecodedWords([word for word in words if word in early])

    engine = word_engine(SPOKEN, loses_the_end)
    decode(engine, chunk(SPANS))
    spans = [(call.start, call.end) for call in engine.calls]
    assert spans[:2] == [(0, 7.2), (4, 7.2)]
    assert (0, 3.2) not in spans


def test_speech_that_is_too_short_to_gain_enough_is_decoded_once() -> None:
    engine = word_engine(sentence("a", 2.0), lambda *_: DecodedWords([]))
    [result] = decode(engine, chunk([(2.0, 2.2)]))
    assert len(engine.calls) == 1
    assert not result.redecoded
    [omission] = result.omissions
    assert (omission.start, omission.end, omission.reason) == (2.0, 2.2, "missed")


def decoded(seed: int) -> tuple[RowResult, int]:
    """Decode a chunk. Each row loses some words, and has any log-probability."""

    def faulty(call: Call, words: Sequence[str]) -> DecodedWords:
        chance = Random(f"{seed} {call.start} {call.end} {call.options.beam_size}")  # noqa: S311
        lost = chance.choice([0, 0, 0.3, 0.7])
        first = chance.randint(0, len(words))
        gap = range(first, first + round(lost * len(words)))
        kept = [word for index, word in enumerate(words) if index not in gap]
        loop = kept[-2:] * 20 if chance.random() < 0.1 else []
        no_speech = chance.choice([0.0, 0.3, 0.7])
        return DecodedWords([*kept, *loop], chance.choice([-0.2, -0.7, -1.2]), no_speech)

    engine = word_engine(LONG, faulty)
    [result] = decode(engine, chunk(LONG_SPANS), coverage_threshold=0.5)
    return result, len(engine.calls)


def test_the_result_is_the_same_as_if_all_parts_were_decoded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pruned = [decoded(seed) for seed in range(40)]

    def all_indices(attempt: retries._Try) -> list[int]:
        return [] if attempt.decoded else list(range(len(attempt.requests)))

    monkeypatch.setattr(retries._Try, "next_indices", all_indices)
    complete = [decoded(seed) for seed in range(40)]
    for (result, calls), (expected, all_calls) in zip(pruned, complete, strict=True):
        assert segments(result) == segments(expected)
        assert result.omissions == expected.omissions
        assert result.redecoded == expected.redecoded
        assert calls <= all_calls
    assert sum(calls for _, calls in pruned) < 0.95 * sum(calls for _, calls in complete)
