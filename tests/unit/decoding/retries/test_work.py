"""The limit on the work of retries holds for all options, and sensible options never reach it."""

import logging
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.unit.decoding.retries.test_retry_evidence import decoded_row
from tests.unit.fakes import Call
from tests.unit.synthetic_speech import DecodedWords, chunk, decode, sentence, text, word_engine
from whisperbatch.decoding.retries import (
    WORK_PER_CHUNK,
    WORK_PER_SECOND,
    RetryBudget,
    first_limit,
    report_limit,
    request_work,
)
from whisperbatch.options import MAX_NEW_TOKENS
from whisperbatch.types import to_seconds

SPOKEN = sentence(" ".join(f"word{letter}" for letter in "abcdefghijklmnopqrstuvwxyz"), 0.0)
SPANS = [(0.0, 3.2), (4.0, 7.2)]

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
@pytest.mark.parametrize("spans", [SPANS, SPANS[:1], [(0.0, 0.4)]])
def test_no_option_exceeds_the_limit(
    options: dict[str, Any], spans: list[tuple[float, float]], caplog: pytest.LogCaptureFixture
) -> None:
    engine = word_engine(SPOKEN, improves)
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

    engine = word_engine(SPOKEN, fails_less)
    [result] = decode(engine, chunk(SPANS), **ALL_FAIL)
    assert "um" not in text(result).split()


def test_the_limit_is_a_warning_once_for_each_recording(caplog: pytest.LogCaptureFixture) -> None:
    chunks = [chunk(SPANS), chunk(SPANS, index=1), chunk(SPANS, recording=1)]
    with caplog.at_level(logging.INFO):
        decode(word_engine(SPOKEN, improves), *chunks, **ALL_FAIL)
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
        for spans in (SPANS, SPANS[:1])
        for result in decode(word_engine(SPOKEN, stubborn), chunk(spans), **ALL_FAIL)
    ]
    together = decode(word_engine(SPOKEN, stubborn), chunk(SPANS), chunk(SPANS[:1]), **ALL_FAIL)
    assert [text(result) for result in together] == alone


def stubborn(call: Call, words: Sequence[str]) -> DecodedWords:
    return DecodedWords([*words, *["um"] * 60], -3.0)


@pytest.mark.parametrize("options", [{}, SENSIBLE, {"beam_size": 1}])
@pytest.mark.parametrize("spans", [SPANS, SPANS[:1], [(0.0, 0.4)]])
def test_sensible_options_do_not_reach_the_limit(
    options: dict[str, Any], spans: list[tuple[float, float]], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        decode(word_engine(SPOKEN, stubborn), chunk(spans), **options)
    assert not caplog.records


def test_a_refused_retry_spends_the_budget() -> None:
    budget = RetryBudget(chunk(SPANS))
    assert budget.take(4000)
    assert not budget.take(10**6)
    assert budget.spent
    assert not budget.take(1)


def test_many_hypotheses_get_the_token_limit_of_their_speech() -> None:
    short, long = chunk([(0.0, 0.4)]), chunk(SPANS)
    assert [first_limit(source, 10) for source in (short, long)] == [224, 224]
    assert [first_limit(source, 11) for source in (short, long)] == [56, 224]
    assert request_work(short, 5, None) == 200 + 5 * 56
    assert request_work(short, 5, 10) == 200 + 5 * 10
    engine = word_engine(SPOKEN)
    decode(engine, short, long, beam_size=11)
    assert {call.options.max_new_tokens for call in engine.calls} == {56, None}
