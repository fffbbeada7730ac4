"""The time ranges of a recording that are transcribed (`clip_timestamps`)."""

import logging
from collections.abc import Iterable, Iterator

from whisperbatch.types import Samples, to_samples, to_seconds

log = logging.getLogger(__name__)


def clips(
    blocks: Iterable[Samples], ranges: tuple[tuple[float, float | None], ...]
) -> Iterator[tuple[int, Iterator[Samples]]]:
    """Yield the first sample and the audio of each range; without ranges, the whole recording.

    The caller must consume the audio of a range before it asks for the next range. Nothing is
    read after the end of the last range.

    Args:
        blocks: the recording.
        ranges: (start, end) in seconds, in ascending order and without overlap.

    Yields:
        The number of the range's first sample, and the range's audio in blocks.
    """
    cursor = _Cursor(blocks)
    for start, end in ranges or ((0.0, None),):
        first = to_samples(start)
        for _ in cursor.until(first):
            pass
        if cursor.position < first:
            log.warning(
                "clip_timestamps: %.2f s and all later ranges are after the end of the recording "
                "at %.2f s",
                start,
                to_seconds(cursor.position),
            )
            return
        yield first, cursor.until(None if end is None else to_samples(end))


class _Cursor:
    """A position in a stream of blocks, which can stop inside a block.

    Attributes:
        position: number of samples read so far.
    """

    def __init__(self, blocks: Iterable[Samples]) -> None:
        self._blocks = iter(blocks)
        self._remainder: Samples | None = None  # the end of a block that was cut at a range's end
        self.position = 0

    def until(self, end: int | None) -> Iterator[Samples]:
        """Yield blocks from the position up to sample `end`; None: to the end of the recording."""
        while end is None or self.position < end:
            block = self._remainder if self._remainder is not None else next(self._blocks, None)
            self._remainder = None
            if block is None:
                return
            if end is not None and len(block) > end - self.position:
                block, self._remainder = block[: end - self.position], block[end - self.position :]
            self.position += len(block)
            yield block
