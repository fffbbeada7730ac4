"""Rows of one or many recordings into batches, in order.

recording 0   c0 c1 c2 c3 c4 END          recording 1   c0 c1 END
batches       [c0 c1]  [c2 c3 c4 END c0 c1 END]
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Final, Self, TypeVar

import numpy as np
import numpy.typing as npt

from whisperbatch.errors import WhisperBatchError
from whisperbatch.language import Heard
from whisperbatch.protocols import Encoded, FeatureExtractor
from whisperbatch.types import WINDOW_FRAMES, Chunk, Dropped, Features

T = TypeVar("T")

# Whisper was trained on windows of 30 s. In 80 clips of 7 to 12 s, 5 s of silence after them gave
# as few errors as all of it (in three languages, and up to 10 s), 1 to 3 s let up to 8 of them
# fail. Few sizes, so that rows of one size make batches.
SILENCE: Final = 500  # frames after a row, at least, or up to the window's end
STEP: Final = 500  # sizes are multiples of it


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """A chunk and what the encoder sees of it.

    Attributes:
        chunk: at most 30 s.
        features: shape (n_mels, n_frames).
        pad_value: what silence looks like beside them.
        heard: what language it sounds like, and `encoded`, what the engine hears in it: of a row
            that was listened to.
        language: to decode it in, where that may differ from row to row.
        listen: rows that tell which language the recording is in, itself the first: of a
            recording's first row, if that is asked for.
    """

    chunk: Chunk
    features: Features
    pad_value: float
    listen: tuple["Row", ...] = ()
    heard: Heard | None = None
    encoded: Encoded | None = None
    language: str | None = None

    @property
    def window(self) -> int:
        """Frames that the encoder sees: the row's own and silence. Rows of one call share it."""
        size = int(self.features.shape[1]) + SILENCE
        return min(-(-size // STEP) * STEP, WINDOW_FRAMES)

    @classmethod
    def of(cls, chunk: Chunk, extractor: FeatureExtractor) -> Self:
        """A chunk with its features."""
        features = extractor(chunk.samples)
        return cls(chunk, features, extractor.pad_value(features))


def padded(rows: Sequence[Row], frames: int) -> npt.NDArray[np.float32]:
    """Features of all rows, each padded with its silence: (batch, n_mels, frames)."""
    n_mels = rows[0].features.shape[0]
    features = np.empty((len(rows), n_mels, frames), np.float32)
    for target, row in zip(features, rows, strict=True):
        own = row.features.shape[1]
        target[:, :own] = row.features
        target[:, own:] = row.pad_value
    return features


def grouped(keys: Sequence[object]) -> list[list[int]]:
    """Numbers of the keys that are alike."""
    groups: dict[object, list[int]] = {}
    for number, key in enumerate(keys):
        groups.setdefault(key, []).append(number)
    return list(groups.values())


@dataclass(slots=True)
class Account:
    """What was done with a recording: it grows until the recording ends.

    Attributes:
        dropped: what was decoded and left out, and speech that gave no text.
        chunks: how many there were.
        redecoded: how many of them were decoded more than once.
    """

    dropped: list[Dropped] = field(default_factory=list)
    chunks: int = 0
    redecoded: int = 0


@dataclass(frozen=True, slots=True)
class End:
    """A recording has been read, or its reading failed.

    Attributes:
        recording: its number.
        source: its name.
        duration: in seconds, of what was read.
        error: why it ended early, or None.
        account: of what was done.
    """

    recording: int
    source: str
    duration: float
    error: WhisperBatchError | None = None
    account: Account = field(default_factory=Account)


@dataclass(frozen=True, slots=True)
class Lull:
    """Nothing has come for a moment: batches do not wait until they are full."""


LULL: Final = Lull()
Item = Row | End | Lull


def with_evidence(
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
            yield replace(held[0], listen=tuple(held))
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
        if item is LULL and not batch:
            continue
        batch.append(item)
        rows += isinstance(item, Row)
        if rows >= size or len(batch) >= 2 * size or item is LULL:
            yield batch
            batch, rows, size = [], 0, min(2 * size, batch_size)
    if batch:
        yield batch
