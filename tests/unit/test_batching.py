from collections.abc import Generator, Iterable, Iterator

import numpy as np
import pytest

from whisperbatch.batching import attach_voters, batches, in_order, one_by_one
from whisperbatch.rows import FLUSH, End, Flush, Item, Row
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


def test_a_lull_lets_go_of_what_there_is() -> None:
    one, two, three = row(0, 0), row(0, 1), End(0, "", 0.0)
    found = list(batches([FLUSH, one, FLUSH, two, three, FLUSH, FLUSH], 8, 8))
    assert found == [[one, FLUSH], [two, three, FLUSH]]


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


def many(recording: int, count: int) -> list[Item]:
    return [*(row(recording, index) for index in range(count)), End(recording, "", 0.0)]


def numbers(items: Iterable[Item]) -> list[tuple[int, int]]:
    return [
        (item.chunk.recording, item.chunk.index) if isinstance(item, Row) else (item.recording, -1)
        for item in items
        if not isinstance(item, Flush)
    ]


def never(recording: int) -> bool:
    return False


def test_where_the_language_is_settled_nothing_is_listened_to() -> None:
    items = [*many(0, 5), *many(1, 5)]
    found = list(attach_voters(items, 4, lambda recording: recording == 0))
    assert numbers(found) == numbers(items)
    listening = [item for item in found if isinstance(item, Row) and item.voters]
    assert numbers(listening) == [(1, 0)]


@pytest.mark.parametrize(("count", "listened"), [(1, 1), (3, 3), (4, 4), (9, 4)])
def test_a_first_row_has_the_rows_to_tell_its_language_by(count: int, listened: int) -> None:
    found = list(attach_voters(many(0, count), 4, never))
    assert numbers(found) == numbers(many(0, count))
    first, *others = [item for item in found if isinstance(item, Row)]
    assert numbers(first.voters) == [(0, n) for n in range(listened)]
    assert not any(other.voters for other in others)


def test_evidence_is_each_recordings_own() -> None:
    items: list[Item] = [row(0, 0), row(1, 0), row(0, 1), *many(2, 1), row(1, 1), End(0, "", 0.0)]
    found = [item for item in attach_voters(items, 2, never) if isinstance(item, Row)]
    assert {item.chunk.recording: numbers(item.voters) for item in found if item.voters} == {
        0: [(0, 0), (0, 1)],
        1: [(1, 0), (1, 1)],
        2: [(2, 0)],
    }
    assert sorted(numbers(found)) == [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0)]


def going(number: int, count: int, closed: list[int]) -> Generator[str, None, None]:
    try:
        for item in range(count):
            yield f"{number}{item}"
    finally:
        closed.append(number)


def test_recordings_come_one_after_the_other() -> None:
    closed: list[int] = []
    found = one_by_one(going(number, 2, closed) for number in range(3))
    assert [next(found) for _ in range(3)] == ["00", "01", "10"]
    assert closed == [0]
    assert list(found) == ["11", "20", "21"]
    assert closed == [0, 1, 2]


def test_who_leaves_closes_the_recording_that_is_going_on() -> None:
    closed: list[int] = []
    started = one_by_one(going(number, 5, closed) for number in range(9))
    assert next(started) == "00"
    started.close()
    assert closed == [0]


def test_results_come_in_the_order_of_the_recordings() -> None:
    end = [End(number, "", 0.0) for number in range(3)]
    results: list[tuple[int, str] | End] = [
        (1, "b0"),
        (0, "a0"),
        (2, "c0"),
        end[2],
        (1, "b1"),
        (0, "a1"),
        end[0],
        end[1],
    ]
    assert list(in_order(results)) == [
        (0, "a0"),
        (0, "a1"),
        end[0],
        (1, "b0"),
        (1, "b1"),
        end[1],
        (2, "c0"),
        end[2],
    ]
