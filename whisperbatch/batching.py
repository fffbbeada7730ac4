"""Fills batches with the rows of one or many recordings, in order.

recording 0   c0 c1 c2 c3 c4 END          recording 1   c0 c1 END
batches       [c0 c1]  [c2 c3 c4 END c0 c1 END]
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from typing import TypeVar

from whisperbatch.errors import WhisperBatchError
from whisperbatch.recording import RecordingState
from whisperbatch.rows import FLUSH, End, Item, Row

T = TypeVar("T")


def in_sequence(recordings: Iterable[Generator[T, None, None]]) -> Generator[T, None, None]:
    """Yield the items of each recording, and close the recording before the next begins."""
    for recording in recordings:
        with closing(recording):
            yield from recording


def in_order(
    results: Iterable[tuple[RecordingState, T] | End],
) -> Iterator[tuple[RecordingState, T] | End]:
    """Sort the results of recordings that are processed at the same time, by recording.

    Results of a recording wait until all earlier recordings have ended.
    """
    current = 0
    waiting: dict[int, list[tuple[RecordingState, T] | End]] = {}
    for result in results:
        recording = result.recording if isinstance(result, End) else result[0]
        waiting.setdefault(recording.number, []).append(result)
        while ready := waiting.pop(current, None):
            yield from ready
            if not isinstance(ready[-1], End):
                break
            current += 1


class BatchSizes:
    """Counts the items of consecutive batches, and says when a batch is complete.

    The first batch has `first` rows. The size doubles with each batch, up to `batch_size`, so that
    the first segments come soon and no later segment waits much longer than the segment before it.

    `End` markers are not counted as rows. But a batch with twice as many items as its number of
    rows is complete: recordings without speech are reported without waiting for rows. A flush
    completes a batch, too.
    """

    def __init__(self, batch_size: int, first: int) -> None:
        self._batch_size = batch_size
        self._size = min(first, batch_size)
        self._rows = self._items = 0

    def completed_by(self, item: Item) -> bool:
        """Add an item to the batch, and return whether the batch is complete."""
        if item is FLUSH and not self._items:
            return False
        self._items += 1
        self._rows += isinstance(item, Row)
        if self._rows < self._size and self._items < 2 * self._size and item is not FLUSH:
            return False
        self._rows = self._items = 0
        self._size = min(2 * self._size, self._batch_size)
        return True


def batches(items: Iterable[Item], batch_size: int, first: int) -> Iterator[list[Item]]:
    """Group items, in order, into lists of up to `batch_size` rows (see `BatchSizes`)."""
    sizes = BatchSizes(batch_size, first)
    batch: list[Item] = []
    for item in items:
        if item is FLUSH and not batch:
            continue
        batch.append(item)
        if sizes.completed_by(item):
            yield batch
            batch = []
    if batch:
        yield batch


def isolated(
    function: Callable[[list[Row]], Sequence[T]],
    rows: list[Row],
    fail: Callable[[RecordingState, Exception], None],
    *,
    together: bool,
) -> dict[Row, T]:
    """Return the result of `function` for each row, without rows whose recording has failed.

    An error of the engine ends all recordings of the batch. An unexpected exception may come
    from one row, so the rows of each recording are tried again, apart from the other rows.

    Args:
        function: returns one result for each row, in order.
        rows: of one or many recordings.
        fail: ends a recording with an error.
        together: whether every exception ends all recordings of the batch.
    """
    try:
        return dict(zip(rows, function(rows), strict=True)) if rows else {}
    except Exception as error:  # noqa: BLE001 - ends these recordings only
        recordings = list(dict.fromkeys(row.recording for row in rows))
        known = isinstance(error, WhisperBatchError | MemoryError)
        if len(recordings) == 1 or known or together:
            for recording in recordings:
                fail(recording, error)
            return {}
    results: dict[Row, T] = {}
    for recording in recordings:
        recording_rows = [row for row in rows if row.recording is recording]
        results |= isolated(function, recording_rows, fail, together=together)
    return results
