"""Ranges of a recording: only these are worked on."""

import logging
from collections.abc import Iterable, Iterator

from whisperbatch.types import Samples, to_samples, to_seconds

log = logging.getLogger(__name__)


def clips(
    blocks: Iterable[Samples], ranges: tuple[tuple[float, float | None], ...]
) -> Iterator[tuple[int, Iterator[Samples]]]:
    """For each range its first sample and its audio, in blocks; the whole recording for none.

    Each range's audio must be used up before the next is asked for. Nothing is read after the
    end of the last.

    Args:
        blocks: of the recording.
        ranges: (start, end) in seconds, in order, without overlap.
    """
    cursor = _Cursor(blocks)
    for start, end in ranges or ((0.0, None),):
        first = to_samples(start)
        for _ in cursor.until(first):
            pass
        if cursor.position < first:
            log.warning(
                "clip_timestamps: %.2f s and later are beyond the recording's end at %.2f s",
                start,
                to_seconds(cursor.position),
            )
            return
        yield first, cursor.until(None if end is None else to_samples(end))


class _Cursor:
    def __init__(self, blocks: Iterable[Samples]) -> None:
        self._blocks = iter(blocks)
        self._rest: Samples | None = None
        self.position = 0

    def until(self, end: int | None) -> Iterator[Samples]:
        """Blocks from the present position to sample `end`, or to the end of the recording."""
        while end is None or self.position < end:
            block = self._rest if self._rest is not None else next(self._blocks, None)
            self._rest = None
            if block is None:
                return
            if end is not None and len(block) > end - self.position:
                block, self._rest = block[: end - self.position], block[end - self.position :]
            self.position += len(block)
            yield block
