"""The decoding stage: batches of rows become results.

    batches     [a b]  [c d e f]  [g h i j]     the engine's workers decode and audit batches
    decoded     [a b]  [c D e f]  [g h I j]     D and I failed their audit
    groups      [a b]  [c]  [D e f g h I j]     D and I are retried together, by the same workers
    results     a b c D e f g h I j

Rows do not wait for the retries of earlier rows: the workers decode the next batches meanwhile.
"""

import threading
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import closing
from itertools import chain
from typing import Protocol, TypeVar

from whisperbatch.decoding.batch_decoder import BatchDecoder, FailedRow
from whisperbatch.prefetch import map_ordered
from whisperbatch.recording import RecordingState
from whisperbatch.rows import End, Flush, Item, Row, without_failed
from whisperbatch.scheduling.groups import Decoded, before_lost_rows, retry_batches
from whisperbatch.segmentation.timed_text import RowResult

T = TypeVar("T")


class Isolated(Protocol):
    """Calls a function on rows; returns the results of the rows whose recording did not fail."""

    def __call__(
        self, function: Callable[[list[Row]], Sequence[T]], rows: list[Row]
    ) -> dict[Row, T]:
        """Call the function, and end the recordings of rows that it cannot process."""
        ...


class DecodingStage:
    """Decodes batches, and retries the failed rows of several batches together.

    Args:
        decoder: decodes and retries rows.
        isolated: contains the failures of the decoder.
        workers: number of batches that the engine computes at a time.
        batch_size: number of rows that are decoded together.
        first: number of rows in the first batch.
    """

    def __init__(
        self,
        decoder: BatchDecoder,
        isolated: Isolated,
        *,
        workers: int,
        batch_size: int,
        first: int,
    ) -> None:
        self._decoder, self._isolated = decoder, isolated
        self._workers, self._batch_size, self._first = workers, batch_size, first
        # batches and retries take turns: no more of them are in memory than the engine has workers
        self._turns = threading.Semaphore(workers)

    def __call__(
        self, batches: Iterable[list[Item]]
    ) -> Generator[tuple[RecordingState, RowResult] | End, None, None]:
        """Yield the result of each row of a recording that has not failed, and the markers."""
        workers = self._workers
        with closing(
            map_ordered(self._retry, self._groups(batches), workers=workers, depth=workers)
        ) as groups:
            yield from before_lost_rows(chain.from_iterable(groups))

    def _groups(self, batches: Iterable[list[Item]]) -> Generator[list[Decoded], None, None]:
        workers = self._workers
        with closing(map_ordered(self._decode, batches, workers=workers, depth=workers)) as decoded:
            yield from retry_batches(decoded, batch_size=self._batch_size, first=self._first)

    def _decode(self, batch: list[Item]) -> list[Decoded | Flush]:
        rows = [item for item in without_failed(batch) if isinstance(item, Row)]
        with self._turns:
            results = self._isolated(self._decoder, rows)
        return [
            (item.recording, results.get(item)) if isinstance(item, Row) else item for item in batch
        ]

    def _retry(self, group: list[Decoded]) -> list[tuple[RecordingState, RowResult | None] | End]:
        failed = {
            result.row: result
            for result in (item[1] for item in group if not isinstance(item, End))
            if isinstance(result, FailedRow) and not result.row.recording.error
        }
        # results without failed rows do not wait for a turn
        retried = self._decode_again(failed) if failed else {}
        results: list[tuple[RecordingState, RowResult | None] | End] = []
        for item in group:
            if isinstance(item, End):
                results.append(item)
                continue
            recording, result = item
            if isinstance(result, FailedRow):
                result = retried.get(result.row)
            results.append((recording, result))
        return results

    def _decode_again(self, failed: Mapping[Row, FailedRow]) -> dict[Row, RowResult]:
        with self._turns:
            return self._isolated(
                lambda rows: self._decoder.retry([failed[row] for row in rows]), list(failed)
            )
