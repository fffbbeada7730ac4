"""Batches: their sizes and order, and the order of results."""

from collections.abc import Generator, Iterator

import numpy as np
import pytest

from whisperbatch.batching import batches, in_order, in_sequence
from whisperbatch.recording import RecordingState
from whisperbatch.rows import FLUSH, End, Item, Row
from whisperbatch.types import Chunk, SpeechSpan


def row(recording: int, index: int) -> Row:
    span = (SpeechSpan(0, 160),)
    chunk = Chunk(recording, index, span, span, np.zeros(160, np.float32))
    return Row(chunk, np.zeros((80, 1), np.float32), -1.0, RecordingState(recording))


def end(recording: int) -> End:
    return End(RecordingState(recording), "", 1.0)


def items(*counts: int) -> list[Item]:
    """The rows of each recording (`counts` rows), each followed by its end."""
    result: list[Item] = []
    for recording, count in enumerate(counts):
        result += [row(recording, index) for index in range(count)]
        result.append(end(recording))
    return result


def row_counts(result: list[list[Item]]) -> list[int]:
    return [sum(isinstance(item, Row) for item in batch) for batch in result]


def test_batch_sizes_double() -> None:
    expected = items(5, 2)
    assert list(batches(expected, 8, 1)) == [
        expected[:1],
        expected[1:3],
        expected[3:8],
        expected[8:],
    ]


@pytest.mark.parametrize("size", [1, 2, 3, 4, 8, 16, 100])
def test_items_stay_in_order_and_no_batch_is_too_large(size: int) -> None:
    expected = items(0, 7, 0, 0, 1, 30, 3, 0)
    result = list(batches(expected, size, max(size // 8, 1)))
    assert [item for batch in result for item in batch] == expected
    assert all(result)
    for number, batch in enumerate(result[:-1]):
        full = min(max(size // 8, 1) * 2**number, size)
        [count] = row_counts([batch])
        assert count == full or (count < full and len(batch) == 2 * full)
    assert row_counts(result)[-1] <= size


def test_the_first_batch_is_not_larger_than_the_batch_size() -> None:
    assert row_counts(list(batches(items(7), 3, 8))) == [3, 3, 1]


def test_batches_are_filled_across_recordings() -> None:
    assert row_counts(list(batches(items(1, 1, 1, 1, 1, 1, 1), 4, 1))) == [1, 2, 4, 0]


def test_end_markers_are_not_counted_as_rows() -> None:
    expected = items(1, 0, 1, 1)
    assert list(batches(expected, 3, 3)) == [expected[:-1], expected[-1:]]


def test_a_flush_completes_a_batch() -> None:
    first, second, last = row(0, 0), row(0, 1), end(0)
    result = list(batches([FLUSH, first, FLUSH, second, last, FLUSH, FLUSH], 8, 8))
    assert result == [[first, FLUSH], [second, last, FLUSH]]


def test_recordings_without_speech_do_not_wait_for_rows() -> None:
    read = 0

    def silent() -> Iterator[Item]:
        nonlocal read
        while True:
            read += 1
            yield end(read - 1)

    result = batches(silent(), 8, 1)
    assert [len(next(result)) for _ in range(6)] == [2, 4, 8, 16, 16, 16]
    assert read == 62


def test_no_items_give_no_batches() -> None:
    assert list(batches([], 8, 1)) == []


def test_a_batch_is_yielded_when_it_is_full() -> None:
    read = 0

    def endless() -> Iterator[Item]:
        nonlocal read
        while True:
            read += 1
            yield row(0, read - 1)

    result = batches(endless(), 8, 2)
    assert len(next(result)) == read == 2
    assert len(next(result)) == read - 2 == 4


def closing_items(number: int, count: int, closed: list[int]) -> Generator[str, None, None]:
    try:
        for item in range(count):
            yield f"{number}{item}"
    finally:
        closed.append(number)


def test_in_sequence_closes_a_recording_before_the_next_begins() -> None:
    closed: list[int] = []
    result = in_sequence(closing_items(number, 2, closed) for number in range(3))
    assert [next(result) for _ in range(3)] == ["00", "01", "10"]
    assert closed == [0]
    assert list(result) == ["11", "20", "21"]
    assert closed == [0, 1, 2]


def test_closing_the_generator_closes_the_current_recording() -> None:
    closed: list[int] = []
    started = in_sequence(closing_items(number, 5, closed) for number in range(9))
    assert next(started) == "00"
    started.close()
    assert closed == [0]


def test_results_are_sorted_by_recording() -> None:
    a, b, c = (RecordingState(number) for number in range(3))
    ends = [End(recording, "", 0.0) for recording in (a, b, c)]
    results: list[tuple[RecordingState, str] | End] = [
        (b, "b0"),
        (a, "a0"),
        (c, "c0"),
        ends[2],
        (b, "b1"),
        (a, "a1"),
        ends[0],
        ends[1],
    ]
    assert list(in_order(results)) == [
        (a, "a0"),
        (a, "a1"),
        ends[0],
        (b, "b0"),
        (b, "b1"),
        ends[1],
        (c, "c0"),
        ends[2],
    ]
