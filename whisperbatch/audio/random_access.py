"""Stretches of a recording, wherever they lie: for listening here and there before it is read.

recording   ----[==]--------[==]--------[==]--------[==]----
"""

import logging
from collections.abc import Iterator
from typing import BinaryIO, Protocol

import av
import numpy as np
import numpy.typing as npt
from av.audio.frame import AudioFrame

from whisperbatch.audio.media import LOUDEST, find_track, open_container, start_time
from whisperbatch.audio.resampling import Resampler, to_mono
from whisperbatch.errors import AudioError
from whisperbatch.options import AudioOptions, Channel
from whisperbatch.types import Samples, to_samples

log = logging.getLogger(__name__)


class RandomAccess(Protocol):
    """A recording that can be read out of order.

    Attributes:
        duration: of the recording, in seconds, about.
    """

    duration: float

    def read(self, start: float, length: float) -> tuple[float, Samples]:
        """Up to `length` seconds of it from `start` on, and where they really start.

        None at all where it cannot be read there.
        """
        ...

    def close(self) -> None:
        """Free what it holds. Safe to call twice."""
        ...


class MediaRandomAccess:
    """Stretches of one audio track of a file, wherever they lie: decoded from there, not from 0.

    Where a container has no index, FFmpeg finds a time by the bit rate: a stretch may then begin
    a little off.

    Args:
        name: of the recording, for messages.
        file: a path, or an open binary file, which is left open.
        options: which track, which channel.

    Attributes:
        duration: of the recording, in seconds, as its container states or FFmpeg estimates it; 0
            where neither does.

    Raises:
        AudioError: it cannot be read.
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
        """Up to `length` seconds of samples from `start` on, and where they really start.

        None where the file cannot be read there.

        Raises:
            AudioError: the caller's file cannot be read at all.
        """
        frames: list[Samples] = []
        resampler = Resampler(self._channel)
        begins: float | None = None
        try:
            self._container.seek(int((start + self._start) * av.time_base))
            for at, frame in self._frames(start):
                if at >= start + length:
                    break
                begins = at if begins is None else begins
                frames.extend(resampler.push(frame))
        except (av.FFmpegError, ValueError, IndexError, OverflowError):
            log.debug("%.1f s: cannot be sought or read", start)
        except Exception as error:  # a caller's file may raise anything
            raise AudioError(f"cannot be read: {error}", source=self._name) from error
        frames.extend(resampler.flush())
        samples = np.concatenate(frames) if frames else np.zeros(0, np.float32)
        finite = np.where(np.isfinite(samples), samples, 0)
        begins = start if begins is None else begins
        return begins, np.clip(finite, -LOUDEST, LOUDEST)[: to_samples(length)]

    def close(self) -> None:
        """Close the container. Safe to call twice."""
        self._container.close()

    def _frames(self, start: float) -> Iterator[tuple[float, AudioFrame]]:
        """The frames from `start` on that can be decoded, each with its time."""
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
    """Of an open file that is being read already: it is left where it was."""

    def __init__(self, name: str, file: BinaryIO, options: AudioOptions) -> None:
        self._file = file
        self._place: int | None = file.tell()
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
        if self._place is not None:
            self._file.seek(self._place)
            self._place = None


class ArrayRandomAccess:
    """Stretches of samples in memory.

    Args:
        samples: shape (n_samples,), float32 or int16.
        rate: at which they were taken, in Hz.
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
        """Nothing is held."""
