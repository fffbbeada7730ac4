"""The time ranges of a recording that are transcribed (`clip_timestamps`)."""

import logging
from collections.abc import Iterable, Iterator

from whisperbatch.options import VadOptions
from whisperbatch.types import Samples, to_samples, to_seconds

log = logging.getLogger(__name__)


def clips(
    blocks: Iterable[Samples],
    ranges: tuple[tuple[float, float | None], ...],
    min_length: int = 0,
) -> Iterator[tuple[int, Iterator[Samples]]]:
    """Yield the first sample and the audio of each range; without ranges, the whole recording.

    The caller must consume the audio of a range before it asks for the next range. Nothing is
    read after the end of the last range.

    Args:
        blocks: the recording.
        ranges: (start, end) in seconds, in ascending order and without overlap.
        min_length: ranges with fewer samples are skipped, because they cannot contain speech.

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
        last = None if end is None else to_samples(end)
        if last is None or last - first >= min_length:
            yield first, cursor.until(last)


def min_clip(options: VadOptions, hop: int) -> int:
    """Return the samples that a clip needs at least, so that its VAD frames can be speech.

    Thousands of clips that are shorter need no run of the VAD for each of them.

    Args:
        options: of the VAD.
        hop: samples per VAD frame; the last frame of a clip may be incomplete.
    """
    if not options.vad:
        return 0
    return (to_samples(options.min_speech_duration) - 1) // hop * hop + 1


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
