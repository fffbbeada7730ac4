"""Rows of one or many recordings into batches, in order.

recording 0   c0 c1 c2 c3 c4 END          recording 1   c0 c1 END
batches       [c0 c1]  [c2 c3 c4 END c0 c1 END]
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from whisperbatch.errors import WhisperBatchError
from whisperbatch.types import Chunk, Features


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """A chunk and what the encoder sees of it, shape (n_mels, n_frames)."""

    chunk: Chunk
    features: Features
    pad_value: float


@dataclass(frozen=True, slots=True)
class End:
    """A recording has been read, or its reading failed.

    Attributes:
        recording: its number.
        source: its name.
        duration: in seconds, of what was read.
        error: why it ended early, or None.
    """

    recording: int
    source: str
    duration: float
    error: WhisperBatchError | None = None


Item = Row | End


def batches(items: Iterable[Item], batch_size: int, first: int) -> Iterator[list[Item]]:
    """Items in lists of up to `batch_size` rows, in order.

    Ends take no room, but a list of twice as many items as it may have rows goes as it is: where
    many recordings hold no speech, nobody waits for all of them.

    The first list has `first` rows, and each later one twice as many up to `batch_size`, so that
    the first segments come soon and the next ones do not keep anybody waiting.
    """
    size = min(first, batch_size)
    batch: list[Item] = []
    rows = 0
    for item in items:
        batch.append(item)
        rows += isinstance(item, Row)
        if rows >= size or len(batch) >= 2 * size:
            yield batch
            batch, rows, size = [], 0, min(2 * size, batch_size)
    if batch:
        yield batch
