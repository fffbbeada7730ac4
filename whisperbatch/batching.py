"""Fills batches with the rows of one or many recordings, in order.

recording 0   c0 c1 c2 c3 c4 END          recording 1   c0 c1 END
batches       [c0 c1]  [c2 c3 c4 END c0 c1 END]
"""

from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from typing import TypeVar

from whisperbatch.rows import FLUSH, End, Item, Row

T = TypeVar("T")


def attach_voters(
    items: Iterable[Item], count: int, is_final: Callable[[int], bool]
) -> Iterator[Item]:
    """Yield the items; each recording's first row gets the rows that decide its language.

    The first `count` rows of a recording (its voters) wait until all of them have come, or their
    recording has ended. The voters therefore depend only on the recording, not on how batches are
    filled.

    Args:
        items: rows and markers, of one or many recordings.
        count: number of voters of a recording.
        is_final: whether the language of a recording is decided; its rows then get no voters.
    """
    waiting: dict[int, list[Row]] = {}

    def release(recording: int) -> Iterator[Row]:
        if rows := waiting.pop(recording, None):
            yield replace(rows[0], voters=tuple(rows))
            yield from rows[1:]

    for item in items:
        if (
            isinstance(item, Row)
            and item.chunk.index < count
            and not is_final(item.chunk.recording)
        ):
            rows = waiting.setdefault(item.chunk.recording, [])
            rows.append(item)
            if len(rows) == count:
                yield from release(item.chunk.recording)
            continue
        if isinstance(item, End):
            yield from release(item.recording)
        yield item
    for recording in list(waiting):
        yield from release(recording)


def in_sequence(recordings: Iterable[Generator[T, None, None]]) -> Generator[T, None, None]:
    """Yield the items of each recording, and close the recording before the next begins."""
    for recording in recordings:
        with closing(recording):
            yield from recording


def in_order(results: Iterable[tuple[int, T] | End]) -> Iterator[tuple[int, T] | End]:
    """Sort the results of recordings that are processed at the same time, by recording.

    Results of a recording wait until all earlier recordings have ended.
    """
    current = 0
    waiting: dict[int, list[tuple[int, T] | End]] = {}
    for result in results:
        recording = result.recording if isinstance(result, End) else result[0]
        waiting.setdefault(recording, []).append(result)
        while ready := waiting.pop(current, None):
            yield from ready
            if not isinstance(ready[-1], End):
                break
            current += 1


def batches(items: Iterable[Item], batch_size: int, first: int) -> Iterator[list[Item]]:
    """Group items, in order, into lists of up to `batch_size` rows.

    The first list has `first` rows. The size doubles with each list, up to `batch_size`, so that
    the first segments come soon and no later segment waits much longer than the segment before it.

    `End` markers are not counted as rows. But a list with twice as many items as its number of rows
    is complete: recordings without speech are reported without waiting for rows. A flush completes
    a list, too.
    """
    size = min(first, batch_size)
    batch: list[Item] = []
    rows = 0
    for item in items:
        if item is FLUSH and not batch:
            continue
        batch.append(item)
        rows += isinstance(item, Row)
        if rows >= size or len(batch) >= 2 * size or item is FLUSH:
            yield batch
            batch, rows, size = [], 0, min(2 * size, batch_size)
    if batch:
        yield batch
