from collections.abc import Iterator

import numpy as np
import pytest

from whisperbatch.batching import End, Item, Row, batches
from whisperbatch.types import Chunk, SpeechSpan


def row(recording: int, index: int) -> Row:
    span = (SpeechSpan(0, 160),)
    chunk = Chunk(recording, index, span, span, np.zeros(160, np.float32))
    return Row(chunk, np.zeros((80, 1), np.float32), -1.0)


def items(*counts: int) -> list[Item]:
    """As many rows of each recording, and its end."""
    result: list[Item] = []
    for recording, count in enumerate(counts):
        result += [row(recording, index) for index in range(count)]
        result.append(End(recording, f"{recording}.wav", float(count)))
    return result


def rows_of(found: list[list[Item]]) -> list[int]:
    return [sum(isinstance(item, Row) for item in batch) for batch in found]


def test_as_drawn() -> None:
    given = items(5, 2)
    assert list(batches(given, 8, 1)) == [given[:1], given[1:3], given[3:8], given[8:]]


@pytest.mark.parametrize("size", [1, 2, 3, 4, 8, 16, 100])
def test_all_items_in_order_and_no_batch_too_large(size: int) -> None:
    given = items(0, 7, 0, 0, 1, 30, 3, 0)
    found = list(batches(given, size, max(size // 8, 1)))
    assert [item for batch in found for item in batch] == given
    assert all(found)
    for number, batch in enumerate(found[:-1]):
        wanted = min(max(size // 8, 1) * 2**number, size)
        [count] = rows_of([batch])
        assert count == wanted or (count < wanted and len(batch) == 2 * wanted)
    assert rows_of(found)[-1] <= size


def test_the_first_is_no_larger_than_the_rest() -> None:
    assert rows_of(list(batches(items(7), 3, 8))) == [3, 3, 1]


def test_batches_are_filled_across_recordings() -> None:
    assert rows_of(list(batches(items(1, 1, 1, 1, 1, 1, 1), 4, 1))) == [1, 2, 4, 0]


def test_ends_take_no_room() -> None:
    given = items(1, 0, 1, 1)
    assert list(batches(given, 3, 3)) == [given[:-1], given[-1:]]


def test_silent_recordings_do_not_wait_for_speech() -> None:
    read = 0

    def silent() -> Iterator[Item]:
        nonlocal read
        while True:
            read += 1
            yield End(read - 1, "silent.wav", 1.0)

    found = batches(silent(), 8, 1)
    assert [len(next(found)) for _ in range(6)] == [2, 4, 8, 16, 16, 16]
    assert read == 62


def test_nothing() -> None:
    assert list(batches([], 8, 1)) == []


def test_a_batch_comes_as_soon_as_it_is_full() -> None:
    read = 0

    def endless() -> Iterator[Item]:
        nonlocal read
        while True:
            read += 1
            yield row(0, read - 1)

    found = batches(endless(), 8, 2)
    assert len(next(found)) == read == 2
    assert len(next(found)) == read - 2 == 4
