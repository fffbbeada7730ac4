"""A media file decoded into arrays: at any sampling rate, one array for each channel."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from os import PathLike, fspath
from typing import BinaryIO

import av
import numpy as np
from av.audio.frame import AudioFrame

from whisperbatch.audio.media import find_track, open_container
from whisperbatch.audio.resampling import Resampler
from whisperbatch.options import Channel
from whisperbatch.types import SAMPLING_RATE, Samples


def decode_audio(
    file: str | PathLike[str] | BinaryIO,
    channels: Sequence[Channel] = ("mix",),
    sampling_rate: int = SAMPLING_RATE,
) -> list[Samples]:
    """Decode the first audio track of a file completely into memory.

    Args:
        file: a path, or an open binary file; the file stays open.
        channels: the channels to return. If the recording has only one channel, "left" and
            "right" both return this channel.
        sampling_rate: sampling rate of the returned samples, in Hz.

    Returns:
        One array for each of `channels`: float32 samples of shape (n_samples,).

    Raises:
        AudioError: the file cannot be read or has no audio track.
    """
    resamplers = [Resampler(channel, sampling_rate) for channel in channels]
    blocks: list[list[Samples]] = [[np.zeros(0, np.float32)] for _ in channels]
    for frame in _frames(file):
        for channel_blocks, resampler in zip(blocks, resamplers, strict=True):
            channel_blocks.extend(resampler.push(frame))
    for channel_blocks, resampler in zip(blocks, resamplers, strict=True):
        channel_blocks.extend(resampler.flush())
    return [np.concatenate(channel_blocks) for channel_blocks in blocks]


def _frames(file: str | PathLike[str] | BinaryIO) -> Iterator[AudioFrame]:
    """Yield the frames of the first audio track; frames that cannot be decoded are skipped."""
    path = fspath(file) if isinstance(file, PathLike) else file
    name = path if isinstance(path, str) else str(getattr(path, "name", "<file>"))
    with closing(open_container(name, path)) as container:
        for packet in container.demux(find_track(name, container, 0)):
            try:
                frames = packet.decode()
            except (av.FFmpegError, ValueError):
                continue
            for frame in frames:
                if isinstance(frame, AudioFrame) and frame.samples:
                    yield frame
