"""Random access: reading stretches of a recording out of order, before it is transcribed.

Language detection reads its windows in this way:

    recording   ----[==]--------[==]--------[==]--------[==]----
"""

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np
import numpy.typing as npt

from whisperbatch.audio.file_objects import FileObject
from whisperbatch.audio.mixing import mix
from whisperbatch.audio.mixing.blocks import ChannelBlock, ChannelResampler
from whisperbatch.audio.mixing.mixer import Mixer
from whisperbatch.audio.resampling import MAX_LEVEL, Resampler, to_blocks
from whisperbatch.audio.track import Track, frames_of
from whisperbatch.errors import AudioError
from whisperbatch.options import Channel, Options
from whisperbatch.types import Samples, to_samples

if TYPE_CHECKING:
    from av.audio.frame import AudioFrame

PREROLL: Final = 0.1
"""Seconds. From the first AAC packet after a seek, the FFmpeg of PyAV 19 returns no samples; one
packet has 23 ms at 44.1 kHz, and 64 ms at 16 kHz."""

log = logging.getLogger(__name__)


class RandomAccess(Protocol):
    """A recording that can be read out of order.

    Attributes:
        duration: approximate duration of the recording, in seconds.
    """

    duration: float

    def read(self, start: float, length: float) -> tuple[float, Samples]:
        """Read a stretch of the recording.

        Args:
            start: in seconds.
            length: in seconds.

        Returns:
            The true start of the samples in seconds, and up to `length` seconds of samples; no
            samples if the recording cannot be read there.
        """
        ...

    def close(self) -> None:
        """Free all resources. Safe to call twice."""
        ...


class MediaRandomAccess:
    """Random access to one audio track of a file, by seeking.

    If a container has no index, FFmpeg seeks by the bit rate, and a stretch may start a little
    earlier or later than requested.

    Args:
        name: name of the recording, for messages.
        file: a path, or a file object, which stays open.
        options: the track and the channel.

    Attributes:
        duration: duration of the recording in seconds, as the container states it or FFmpeg
            estimates it; 0 if it is unknown.

    Raises:
        AudioError: the file cannot be read.
    """

    def __init__(self, name: str, file: str | FileObject, options: Options) -> None:
        self._name = name
        self._channel: Channel = options.channel
        self._track = Track(name, file, options.track)
        self.duration = self._track.duration

    def read(self, start: float, length: float) -> tuple[float, Samples]:
        """Read a stretch; see `RandomAccess.read`.

        Raises:
            AudioError: reading from the caller's file object failed.
        """
        blocks: list[Samples | ChannelBlock] = []
        mixes = self._channel == "mix"
        resampler = ChannelResampler(self._name) if mixes else Resampler(self._name, self._channel)
        true_start: float | None = None
        try:
            for time, frame in self._frames(start):
                if time >= start + length:
                    break
                # the time stamp of the first frame may be a little before the start of the file
                true_start = max(time, 0.0) if true_start is None else true_start
                blocks.extend(resampler.push(frame))
            blocks.extend(resampler.flush())
        except AudioError as error:
            self._track.check()
            log.debug("random access at %.1f s failed: %s", start, error)
        samples = np.concatenate([np.zeros(0, np.float32), *Mixer(None)(blocks)])
        finite = np.where(np.isfinite(samples), samples, 0)
        true_start = start if true_start is None else true_start
        return true_start, np.clip(finite, -MAX_LEVEL, MAX_LEVEL)[: to_samples(length)]

    def close(self) -> None:
        """Close the container. Safe to call twice."""
        self._track.close()

    def _frames(self, start: float) -> Iterator[tuple[float, "AudioFrame"]]:
        """Yield the frames from `start` on that can be decoded, each with its time in seconds."""
        frames = self._decode(start, start)
        first = next(frames, None)
        if start > 0 and (first is None or first[0] > start):
            frames = self._decode(max(start - PREROLL, 0.0), start)
            first = next(frames, None)
        if first is not None:
            yield first
            yield from frames

    def _decode(self, position: float, start: float) -> Iterator[tuple[float, "AudioFrame"]]:
        """Seek to `position` (in seconds), and yield the frames from `start` on; see `_frames`."""
        time = position
        for packet in self._track.packets() if self._track.seek(position) else ():
            for frame in frames_of(packet) or ():
                if frame.pts is not None and frame.time_base is not None:
                    time = float(frame.pts * frame.time_base) - self._track.start
                if time + frame.samples / frame.sample_rate > start:
                    yield time, frame
                time += frame.samples / frame.sample_rate


class SharedFileRandomAccess(MediaRandomAccess):
    """Random access to an open file that a decoder reads too; `close` restores its position."""

    def __init__(self, name: str, file: FileObject, options: Options) -> None:
        self._shared_file = file
        self._position: int | None = file.tell()
        file.seek(0)
        file.check()
        try:
            super().__init__(name, file, options)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """See `RandomAccess`."""
        if hasattr(self, "_track"):
            super().close()
        if self._position is not None:
            self._shared_file.seek(self._position)  # if this fails, the decoder raises the error
            self._position = None


class ArrayRandomAccess:
    """Random access to samples in memory.

    Args:
        samples: shape (n_samples,) or (n_samples, n_channels), float32 or int16.
        rate: sampling rate, in Hz.
    """

    def __init__(self, samples: npt.NDArray[np.float32 | np.int16], rate: int) -> None:
        self._samples = samples
        self._rate = rate
        self.duration = len(samples) / rate

    def read(self, start: float, length: float) -> tuple[float, Samples]:
        """See `RandomAccess`."""
        first = round(start * self._rate)
        blocks = to_blocks(self._samples[first : first + round(length * self._rate)], self._rate)
        return start, np.concatenate([np.zeros(0, np.float32), *mix(blocks)])

    def close(self) -> None:
        """Do nothing: an array needs no cleaning up."""
