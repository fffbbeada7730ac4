"""Decoding of files in other processes, whose samples and notices are those of this process."""

import os
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import islice, repeat
from typing import Final, TypeAlias

from whisperbatch.audio.media import MediaDecoder
from whisperbatch.boundary import boundary
from whisperbatch.errors import AudioError
from whisperbatch.options import Channel, Options
from whisperbatch.subprocesses import Subprocesses
from whisperbatch.types import NoticeKind, Notices, Samples

BATCH: Final = 4  # blocks of at most 1 s in a message
AHEAD: Final = 2  # messages
TASK: Final = f"{__name__}:decoding"

Added: TypeAlias = tuple[NoticeKind, float, float, str]
"""The arguments of `Notices.add`."""


@dataclass(frozen=True, slots=True)
class FileDecoding:
    """Decodes a file again that this process has opened, in another process.

    Attributes:
        name: name of the recording, for messages.
        file: path of the file.
        options: the track that was chosen, and the channels.
        start: sample of the recording that is needed first.
        position: the first sample of the blocks, as this process found it.
        notices: of the recording; get those of the other process.
        close: closes the decoder of this process.
    """

    name: str
    file: str
    options: Options
    start: int
    position: int
    notices: Notices
    close: Callable[[], None]

    def __call__(
        self, processes: Subprocesses, most: int, blocks: Iterator[Samples]
    ) -> Generator[Samples, None, None]:
        """Yield the blocks of another process.

        Args:
            processes: shared with other users.
            most: number of processes that decode at a time.
            blocks: of the decoder of this process, which are used if all processes are in use.

        Raises:
            AudioError: the recording cannot be read.
            EngineError: the process ended unexpectedly.
        """
        with processes.process(TASK, most) as process:
            if process is None:
                yield from blocks
                return
            self.close()
            options = self.options
            chosen = options.track, options.channel, options.separates_channels
            path = os.path.abspath(self.file)  # noqa: PTH100 - a Path would change the name
            arguments = (self.name, path, *chosen, self.start, self.position)
            for batch, added in process.items(TASK, arguments, repeat(None), ahead=AHEAD):
                for notice in added:
                    self.notices.add(*notice)
                yield from batch


class _Collected(Notices):
    """Collects the notices that are to be added in the process that needs the samples."""

    def __init__(self) -> None:
        super().__init__("")
        self._added: list[Added] = []

    def add(self, kind: NoticeKind, start: float, end: float, text: str) -> None:
        """See `Notices.add`."""
        self._added.append((kind, start, end, text))

    def take(self) -> list[Added]:
        """Return the notices, and forget them."""
        added, self._added = self._added, []
        return added


def decoding(  # noqa: PLR0917 - the arguments of a message
    requests: Iterator[object],
    name: str,
    path: str,
    track: int,
    channel: Channel,
    separate: bool,
    start: int,
    position: int,
) -> Generator[tuple[list[Samples], list[Added]], None, None]:
    """Decode a file in the other process; yield blocks, with the new notices, for each request.

    Raises:
        AudioError: the recording cannot be read.
    """
    notices = _Collected()
    options = Options(
        track=track,
        channel=channel,
        diarize=separate,
        speaker="channel" if separate else "voice",
    )
    with boundary(name), closing(MediaDecoder(name, path, options, notices, start)) as decoder:
        if decoder.position != position:
            raise AudioError("has changed since it was opened; open it again", source=name)
        blocks = decoder.blocks()
        for _ in requests:
            batch = list(islice(blocks, BATCH))
            yield batch, notices.take()
            if len(batch) < BATCH:
                return
