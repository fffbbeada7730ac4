"""Random access: reading stretches of a recording out of order, before it is transcribed.

Language detection reads its windows in this way:

    recording   ----[==]--------[==]--------[==]--------[==]----
"""

import logging
from collections.abc import Iterator
from typing import BinaryIO, Protocol

import av
import numpy as np
import numpy.typing as npt
from av.audio.frame import AudioFrame

from whisperbatch.audio.media import MAX_LEVEL, find_track, open_container, start_time
from whisperbatch.audio.resampling import Resampler, to_mono
from whisperbatch.errors import AudioError
from whisperbatch.options import AudioOptions, Channel
from whisperbatch.types import Samples, to_samples

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
        file: a path, or an open binary file, which stays open.
        options: the track and the channel.

    Attributes:
        duration: duration of the recording in seconds, as the container states it or FFmpeg
            estimates it; 0 if it is unknown.

    Raises:
        AudioError: the file cannot be read.
    """

    def __init__(self, name: str, file: str | BinaryIO, options: AudioOptions) -> None:
        self._name = name
        self._channel: Channel = options.channel
        self._container = open_container(name, file)
        try:
            self._stream = find_track(name, self._container, options.track)
        except BaseException:
            self.close()
            raise
        self._start = start_time(self._container)
        self.duration = (self._container.duration or 0) / av.time_base

    def read(self, start: float, length: float) -> tuple[float, Samples]:
        """Read a stretch; see `RandomAccess.read`.

        Raises:
            AudioError: reading from the caller's file object failed.
        """
        blocks: list[Samples] = []
        resampler = Resampler(self._channel)
        true_start: float | None = None
        try:
            self._container.seek(int((start + self._start) * av.time_base))
            for time, frame in self._frames(start):
                if time >= start + length:
                    break
                true_start = time if true_start is None else true_start
                blocks.extend(resampler.push(frame))
        except (av.FFmpegError, ValueError, IndexError, OverflowError):
            log.debug("%s: random access at %.1f s failed", self._name, start)
        except Exception as error:  # a file object of the caller may raise anything
            raise AudioError(f"cannot be read: {error}", source=self._name) from error
        blocks.extend(resampler.flush())
        samples = np.concatenate(blocks) if blocks else np.zeros(0, np.float32)
        finite = np.where(np.isfinite(samples), samples, 0)
        true_start = start if true_start is None else true_start
        return true_start, np.clip(finite, -MAX_LEVEL, MAX_LEVEL)[: to_samples(length)]

    def close(self) -> None:
        """Close the container. Safe to call twice."""
        self._container.close()

    def _frames(self, start: float) -> Iterator[tuple[float, AudioFrame]]:
        """Yield the frames from `start` on that can be decoded, each with its time in seconds."""
        time = start
        for packet in self._container.demux(self._stream):
            try:
                frames = packet.decode()
            except (av.FFmpegError, ValueError):
                continue
            for frame in frames:
                if not isinstance(frame, AudioFrame) or not frame.samples:
                    continue
                if frame.pts is not None and frame.time_base is not None:
                    time = float(frame.pts * frame.time_base) - self._start
                if time + frame.samples / frame.sample_rate > start:
                    yield time, frame
                time += frame.samples / frame.sample_rate


class SharedFileRandomAccess(MediaRandomAccess):
    """Random access to an open file that a decoder reads too; `close` restores its position."""

    def __init__(self, name: str, file: BinaryIO, options: AudioOptions) -> None:
        self._file = file
        self._position: int | None = file.tell()
        file.seek(0)
        try:
            super().__init__(name, file, options)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """See `RandomAccess`."""
        if hasattr(self, "_container"):
            super().close()
        if self._position is not None:
            self._file.seek(self._position)
            self._position = None


class ArrayRandomAccess:
    """Random access to samples in memory.

    Args:
        samples: shape (n_samples,), float32 or int16.
        rate: sampling rate, in Hz.
    """

    def __init__(self, samples: npt.NDArray[np.float32 | np.int16], rate: int) -> None:
        self._samples = samples
        self._rate = rate
        self.duration = len(samples) / rate

    def read(self, start: float, length: float) -> tuple[float, Samples]:
        """See `RandomAccess`."""
        first = round(start * self._rate)
        blocks = to_mono(self._samples[first : first + round(length * self._rate)], self._rate)
        return start, np.concatenate([np.zeros(0, np.float32), *blocks])

    def close(self) -> None:
        """Do nothing: an array needs no cleaning up."""
