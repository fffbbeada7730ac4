"""Parts of a recording: the ranges of `clip_timestamps`, and channels that are read separately."""

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from whisperbatch.errors import OptionError, of_recording
from whisperbatch.options import Options
from whisperbatch.types import Samples, to_samples, to_seconds

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class Clip:
    """A range of a recording, in samples of the recording.

    Attributes:
        first: first sample.
        last: the sample after the last; None for the end of the recording.
        position: the first sample of `blocks`.
        blocks: the audio of the range, or the rest of its audio, to be iterated once.
    """

    first: int
    last: int | None
    position: int
    blocks: Iterator[Samples]


def clips(
    blocks: Iterable[Samples],
    ranges: Sequence[tuple[float, float | None]],
    min_length: int = 0,
    position: int = 0,
) -> Iterator[Clip]:
    """Yield each range with its audio.

    Audio of a range that the caller does not consume is skipped. Nothing is read after the end of
    the last range.

    Args:
        blocks: the recording from `position` on.
        ranges: (start, end) in seconds, in ascending order and without overlap.
        min_length: ranges with fewer samples are skipped, because they cannot contain speech.
        position: first sample of `blocks`. Of a range that begins before, only the rest has audio;
            ranges that end before are skipped.
    """
    cursor = _Cursor(blocks, position)
    for start, end in ranges:
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
        if last is None or (last - first >= min_length and last > position):
            yield Clip(first, last, cursor.position, cursor.until(last))


def min_clip(options: Options, hop: int) -> int:
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
        position: the next sample, counted in the recording.
    """

    def __init__(self, blocks: Iterable[Samples], position: int) -> None:
        self._blocks = iter(blocks)
        self._remainder: Samples | None = None  # the end of a block that was cut at a range's end
        self.position = position

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


MAX_SEPARATE: Final = 16  # channels; each takes time and memory


def check_separate(name: str, channels: int) -> None:
    """Check that the channels of a recording can be speakers.

    Args:
        name: name of the recording, for the message.
        channels: number of channels.

    Raises:
        OptionError: there is one channel, or there are too many.
    """
    if channels == 1:
        problem = "one channel, which all speakers share"
    elif channels > MAX_SEPARATE:
        problem = f"{channels} channels, and at most {MAX_SEPARATE} can be speakers"
    else:
        return
    error = OptionError(
        f"`speaker='channel'`: {name} has {problem}; leave `speaker` out, and the voices are "
        "compared"
    )
    raise of_recording(error, name)


def with_channels(block: Samples, channels: int) -> Samples:
    """Return a block with another number of channels, of a track that changes within the file.

    A mono block becomes the sound of every channel. Otherwise channels are left out, or silent.
    """
    if block.shape[1] == 1:
        return np.repeat(block, channels, axis=1)
    fitted = np.zeros((len(block), channels), np.float32)
    common = min(channels, block.shape[1])
    fitted[:, :common] = block[:, :common]
    return fitted
