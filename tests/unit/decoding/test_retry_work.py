"""The limit on the work of retries; parts of a try that cannot be better are not decoded."""

import logging
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Any

import pytest

from tests.unit.decoding.test_retries import decoded_row
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
    text,
    word_engine,
)
from whisperbatch.decoding import retries
from whisperbatch.decoding.retries import (
    WORK_PER_CHUNK,
    WORK_PER_SECOND,
    RetryBudget,
    first_limit,
    report_limit,
    request_work,
)
from whisperbatch.options import MAX_NEW_TOKENS
from whisperbatch.segmentation import RowResult
from whisperbatch.types import to_seconds

ALPHABET = sentence(" ".join(f"word{letter}" for letter in "abcdefghijklmnopqrstuvwxyz"), 0.0)
TWO_PHRASES = [(0.0, 3.2), (4.0, 7.2)]

ALL_FAIL: dict[str, Any] = {
    "compression_ratio_threshold": 0.0,
    "temperature": tuple(number / 10 for number in range(21))[1:],
    "best_of": 100,
}
SENSIBLE: dict[str, Any] = {"beam_size": 10, "temperature": (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)}


def improves(call: Call, words: Sequence[str]) -> DecodedWords:
    """Each text repeats itself, and each retry is a little better, so that retries go on."""
    return DecodedWords([*words, *["um"] * max(60 - 3 * call.number, 2)], -3.0)


def work_of(calls: Sequence[Call]) -> int:
    return sum(
        (call.sampling.best_of if call.sampling else call.options.beam_size)
        * (call.options.max_new_tokens or MAX_NEW_TOKENS)
        for call in calls
    )


@pytest.mark.parametrize(
    "options", [ALL_FAIL, {**ALL_FAIL, "beam_size": 32}, {**ALL_FAIL, "log_prob_threshold": 0.0}]
)
@pytest.mark.parametrize("spans", [TWO_PHRASES, TWO_PHRASES[:1], [(0.0, 0.4)]])
def test_no_option_exceeds_the_limit(
    options: dict[str, Any], spans: list[tuple[float, float]], caplog: pytest.LogCaptureFixture
) -> None:
    engine = word_engine(ALPHABET, improves)
    source = chunk(spans)
    with caplog.at_level(logging.WARNING):
        [result] = decode(engine, source, **options)
    retries = engine.calls[1:]
    assert 0 < work_of(retries) <= WORK_PER_CHUNK + WORK_PER_SECOND * to_seconds(source.length)
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "no more retries" in caplog.text
    assert result.redecoded


def test_the_best_text_is_used_at_the_limit() -> None:
    def fails_less(call: Call, words: Sequence[str]) -> DecodedWords:
        return DecodedWords([*words, *([] if call.options.no_repeat_ngram_size else ["um"] * 60)])

    engine = word_engine(ALPHABET, fails_less)
    [result] = decode(engine, chunk(TWO_PHRASES), **ALL_FAIL)
    assert "um" not in text(result).split()


def test_the_limit_is_a_warning_once_for_each_recording(caplog: pytest.LogCaptureFixture) -> None:
    chunks = [chunk(TWO_PHRASES), chunk(TWO_PHRASES, index=1), chunk(TWO_PHRASES, recording=1)]
    with caplog.at_level(logging.INFO):
        decode(word_engine(ALPHABET, improves), *chunks, **ALL_FAIL)
    reports = [r for r in caplog.records if "no more retries" in r.getMessage()]
    levels = sorted((r.getMessage().partition(",")[0], r.levelname) for r in reports)
    assert levels == [
        *(("recording 0", "INFO"), ("recording 0", "WARNING")),
        ("recording 1", "WARNING"),
    ]


def test_chunks_that_reach_the_limit_at_the_same_time_cause_one_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The chunks of a recording are decoded in several threads."""
    decoded = decoded_row("hello")
    logger = logging.getLogger("whisperbatch.decoding.retries")
    slow = SlowHandler()
    logger.addHandler(slow)
    try:
        with caplog.at_level(logging.INFO), ThreadPoolExecutor(2) as pool:
            list(pool.map(report_limit, [decoded] * 2))
    finally:
        logger.removeHandler(slow)
    assert sorted(record.levelname for record in caplog.records) == ["INFO", "WARNING"]
    assert decoded.row.recording.limited_chunks == 2


class SlowHandler(logging.Handler):
    """A handler that needs a long time for each record."""

    def emit(self, record: logging.LogRecord) -> None:
        time.sleep(0.05)


def test_the_text_at_the_limit_does_not_depend_on_the_batch() -> None:
    alone = [
        text(result)
        for spans in (TWO_PHRASES, TWO_PHRASES[:1])
        for result in decode(word_engine(ALPHABET, stubborn), chunk(spans), **ALL_FAIL)
    ]
    together = decode(
        word_engine(ALPHABET, stubborn), chunk(TWO_PHRASES), chunk(TWO_PHRASES[:1]), **ALL_FAIL
    )
    assert [text(result) for result in together] == alone


def stubborn(call: Call, words: Sequence[str]) -> DecodedWords:
    return DecodedWords([*words, *["um"] * 60], -3.0)


@pytest.mark.parametrize("options", [{}, SENSIBLE, {"beam_size": 1}])
@pytest.mark.parametrize("spans", [TWO_PHRASES, TWO_PHRASES[:1], [(0.0, 0.4)]])
def test_sensible_options_do_not_reach_the_limit(
    options: dict[str, Any], spans: list[tuple[float, float]], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        decode(word_engine(ALPHABET, stubborn), chunk(spans), **options)
    assert not caplog.records


def test_a_refused_retry_spends_the_budget() -> None:
    budget = RetryBudget(chunk(TWO_PHRASES))
    assert budget.take(4000)
    assert not budget.take(10**6)
    assert budget.spent
    assert not budget.take(1)


def test_many_hypotheses_get_the_token_limit_of_their_speech() -> None:
    short, long = chunk([(0.0, 0.4)]), chunk(TWO_PHRASES)
    assert [first_limit(source, 10) for source in (short, long)] == [224, 224]
    assert [first_limit(source, 11) for source in (short, long)] == [56, 224]
    assert request_work(short, 5, None) == 200 + 5 * 56
    assert request_work(short, 5, 10) == 200 + 5 * 10
    engine = word_engine(ALPHABET)
    decode(engine, short, long, beam_size=11)
    assert {call.options.max_new_tokens for call in engine.calls} == {56, None}


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
