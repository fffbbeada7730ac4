"""Groups of decoded items: failed rows of several batches are retried together."""

from collections.abc import Iterable, Iterator, Sequence

from whisperbatch.decoding.batch_decoder import FailedRow
from whisperbatch.recording import RecordingState
from whisperbatch.rows import FLUSH, End, Flush
from whisperbatch.segmentation.timed_text import RowResult

Decoded = tuple[RecordingState, RowResult | FailedRow | None] | End
"""A decoded row, or the end of a recording; None if the row was lost with its recording."""


def retry_batches(
    decoded: Iterable[Sequence[Decoded | Flush]], *, batch_size: int, first: int
) -> Iterator[list[Decoded]]:
    """Group decoded items, in order, so that failed rows of several batches are retried together.

    decoded      [a b]  [c D e f]  [g h I j]      D and I failed
    groups       [a b]  [c]  [D e f g h I j]

    Items before a failed row are passed on at once. A group that begins with a failed row is
    complete when it has `batch_size` failed rows, or at a flush, or when it has as many items as
    were passed on before: at least `first`, at most twice the batch size. So the first segments
    come soon, and no later segment waits much longer than the segment before it. Few items wait,
    and the rows that did not fail have only their text, so the memory is bounded.

    If the next batch raises an error, the items that wait are passed on before the error.

    Args:
        decoded: the items of each batch.
        batch_size: number of rows that are decoded together.
        first: number of rows in the first batch.
    """
    group: list[Decoded] = []
    passed_on = 0
    try:
        for batch in decoded:
            group += [item for item in batch if not isinstance(item, Flush)]
            failures = [number for number, item in enumerate(group) if is_failed(item)]
            complete = not failures or len(failures) >= batch_size or FLUSH in batch
            if not complete and failures[0]:
                yield group[: failures[0]]
                passed_on += failures[0]
                group = group[failures[0] :]
            limit = min(max(first, passed_on), 2 * batch_size)
            if group and (complete or len(group) >= limit):
                yield group
                passed_on += len(group)
                group = []
    except Exception:
        if group:
            yield group
        raise
    if group:
        yield group


def is_failed(item: Decoded) -> bool:
    """Return whether an item is a row that needs a retry."""
    return not isinstance(item, End) and isinstance(item[1], FailedRow)


def before_lost_rows(
    results: Iterable[tuple[RecordingState, RowResult | None] | End],
) -> Iterator[tuple[RecordingState, RowResult] | End]:
    """Yield the results of each recording up to its first lost row (None), and the markers.

    A row is lost only if its recording has failed. Without the rows after it, the transcript of the
    recording ends where it failed, and has no gap.
    """
    ended: set[RecordingState] = set()
    for item in results:
        if isinstance(item, End):
            ended.discard(item.recording)
            yield item
            continue
        recording, result = item
        if result is None:
            ended.add(recording)
        elif recording not in ended:
            yield recording, result
