"""Rows of one or many recordings into batches, in order.

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
    items: Iterable[Item], listen: int, settled: Callable[[int], bool]
) -> Iterator[Item]:
    """Each recording's first row with the first `listen` rows to tell its language by.

    Not of recordings whose language is settled already.

    Rows wait until there are that many, or their recording has ended. What is listened to depends
    on the recording alone, not on how batches come to be filled.
    """
    waiting: dict[int, list[Row]] = {}

    def release(recording: int) -> Iterator[Row]:
        if held := waiting.pop(recording, None):
            yield replace(held[0], voters=tuple(held))
            yield from held[1:]

    for item in items:
        if (
            isinstance(item, Row)
            and item.chunk.index < listen
            and not settled(item.chunk.recording)
        ):
            held = waiting.setdefault(item.chunk.recording, [])
            held.append(item)
            if len(held) == listen:
                yield from release(item.chunk.recording)
            continue
        if isinstance(item, End):
            yield from release(item.recording)
        yield item
    for recording in list(waiting):
        yield from release(recording)


def one_by_one(recordings: Iterable[Generator[T, None, None]]) -> Generator[T, None, None]:
    """Items of the recordings, one after the other."""
    for recording in recordings:
        with closing(recording):
            yield from recording


def in_order(results: Iterable[tuple[int, T] | End]) -> Iterator[tuple[int, T] | End]:
    """Results of recordings that go on side by side: those of the first one first, and so on."""
    current = 0
    waiting: dict[int, list[tuple[int, T] | End]] = {}
    for result in results:
        recording = result.recording if isinstance(result, End) else result[0]
        waiting.setdefault(recording, []).append(result)
        while found := waiting.pop(current, None):
            yield from found
            if not isinstance(found[-1], End):
                break
            current += 1


def batches(items: Iterable[Item], batch_size: int, first: int) -> Iterator[list[Item]]:
    """Items in lists of up to `batch_size` rows, in order.

    Ends take no room, but a list of twice as many items as it may have rows goes as it is: where
    many recordings hold no speech, nobody waits for all of them.

    A lull ends a list.

    The first list has `first` rows, and each later one twice as many up to `batch_size`, so that
    the first segments come soon and the next ones do not keep anybody waiting.
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
