"""Batches are decoded, and the failed rows of several batches are decoded again together."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

import pytest

from tests.unit.fakes import Call, FakeEngine
from tests.unit.synthetic_speech import (
    EARLY,
    SPANS,
    SPOKEN,
    TEXT,
    DecodedWords,
    RampExtractor,
    chunk,
    rows,
    text,
    word_engine,
)
from whisperbatch.decoding.batch_decoder import BatchDecoder
from whisperbatch.errors import EngineError, WhisperBatchError
from whisperbatch.options import Options
from whisperbatch.rows import FLUSH, End, Item, Row
from whisperbatch.scheduling import DecodingStage

T = TypeVar("T")

LONG = SPANS  # loses its later half, unless it is split
SHORT = [(0.0, 3.2)]
HALF = TEXT[: TEXT.index(" alpha")]
BATCH_SIZE = 2


def stops_early(call: Call, words: Sequence[str]) -> DecodedWords:
    return DecodedWords(words if call.end - call.start < 5 else words[: len(words) // 2], -0.1)


def isolated(function: Callable[[list[Row]], Sequence[T]], rows: list[Row]) -> dict[Row, T]:
    """End the recordings of all rows if the function fails, as the pipeline does."""
    try:
        return dict(zip(rows, function(rows), strict=True)) if rows else {}
    except WhisperBatchError as error:
        for row in rows:
            row.recording.fail(error)
        return {}


def stage(engine: FakeEngine) -> DecodingStage:
    options = Options(language="en", speech_pad=0.0, batch_size=BATCH_SIZE)
    decoder = BatchDecoder(engine, RampExtractor(), options)
    return DecodingStage(decoder, isolated, workers=1, batch_size=BATCH_SIZE, first=BATCH_SIZE)


def items(*speech: list[tuple[float, float]], recordings: Sequence[int] = (0,) * 9) -> list[Row]:
    chunks = [
        chunk(spans, index, recording)
        for index, (spans, recording) in enumerate(zip(speech, recordings, strict=False))
    ]
    return [replace(row, language="en") for row in rows(*chunks)]


def batches(rows: Sequence[Row]) -> list[list[Item]]:
    return [list(rows[start : start + BATCH_SIZE]) for start in range(0, len(rows), BATCH_SIZE)]


def texts(engine: FakeEngine, batches: list[list[Item]]) -> list[str]:
    return [
        item.source if isinstance(item, End) else text(item[1]) for item in stage(engine)(batches)
    ]


def test_results_do_not_wait_for_the_next_batch() -> None:
    first_arrived = threading.Event()
    arrived_before: list[bool] = []

    def waits_from_the_second_batch_on(_: Call, words: Sequence[str]) -> DecodedWords:
        if len(engine.batch_sizes["decode"]) > 1:
            arrived_before.append(first_arrived.wait(5))
        return DecodedWords(words, -0.1)

    engine = word_engine(EARLY, waits_from_the_second_batch_on)
    results = stage(engine)(batches(items(SHORT, SHORT, SHORT, SHORT)))
    next(results)
    first_arrived.set()
    assert len(list(results)) == 3
    assert arrived_before == [True, True]


def test_failed_rows_of_two_batches_share_the_calls_of_their_retries() -> None:
    engine = word_engine(SPOKEN, stops_early)
    found = texts(engine, batches(items(SHORT, SHORT, SHORT, LONG, LONG, SHORT)))
    assert found == [HALF, HALF, HALF, TEXT, TEXT, HALF]
    # the first decoding, each window length in its own call; then four parts, two in each call
    assert engine.batch_sizes["decode"] == [2, 1, 1, 1, 1, 2, 2]


def test_rows_of_the_first_batch_do_not_wait() -> None:
    engine = word_engine(SPOKEN, stops_early)
    found = texts(engine, batches(items(LONG, SHORT, SHORT, LONG)))
    assert found == [TEXT, HALF, HALF, TEXT]
    assert len(engine.batch_sizes["decode"]) == 6  # the retries of the two rows are not together


def test_failed_rows_at_a_flush_and_at_the_end_are_retried() -> None:
    engine = word_engine(SPOKEN, stops_early)
    first, second, third, last = items(SHORT, SHORT, SHORT, LONG)
    end = End(first.recording, "end", 8.0)
    found = texts(engine, [[first, second], [third, last, FLUSH], [end]])
    assert found == [HALF, HALF, HALF, TEXT, "end"]


def test_a_failing_retry_ends_only_its_recordings() -> None:
    """The second recording has no failed row; the text of the first ends before its lost row."""
    rows = items(SHORT, LONG, SHORT, SHORT, recordings=[0, 0, 0, 1])
    ends = [End(rows[0].recording, "first", 8.0), End(rows[3].recording, "second", 8.0)]
    engine = word_engine(SPOKEN, stops_early, failing={"decode": {3}})
    found = texts(engine, [*batches(rows), [*ends]])
    assert found == [HALF, HALF, "first", "second"]
    assert rows[0].recording.error
    assert not rows[3].recording.error


def test_an_abandoned_stage_stops_its_workers() -> None:
    engine = word_engine(SPOKEN, stops_early)
    results = stage(engine)(batches(items(*[LONG] * 9)))
    next(results)
    results.close()
    with pytest.raises(StopIteration):
        next(results)


def test_an_error_that_is_not_contained_ends_the_stage() -> None:
    engine = word_engine(SPOKEN, stops_early, failing={"decode": {1}})
    decoder = BatchDecoder(engine, RampExtractor(), Options(language="en", speech_pad=0.0))

    def together(function: Callable[[list[Row]], Sequence[T]], rows: list[Row]) -> dict[Row, T]:
        return dict(zip(rows, function(rows), strict=True)) if rows else {}

    run = DecodingStage(decoder, together, workers=1, batch_size=BATCH_SIZE, first=BATCH_SIZE)
    results = run(batches(items(SHORT, SHORT, SHORT)))
    assert [next(results) for _ in range(2)]
    with pytest.raises(EngineError, match="decode failed"):
        next(results)
