"""faster-whisper's decoding of a whole file."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from os import PathLike, fspath
from typing import BinaryIO

import av
import numpy as np
from av.audio.frame import AudioFrame

from whisperbatch.audio import open_audio
from whisperbatch.media import find_track, open_container
from whisperbatch.options import AudioOptions, Channel
from whisperbatch.resampling import Resampler
from whisperbatch.types import SAMPLING_RATE, Samples

__all__ = ["decode_audio"]


def decode_audio(
    input_file: str | PathLike[str] | BinaryIO,
    sampling_rate: int = SAMPLING_RATE,
    split_stereo: bool = False,
) -> Samples | tuple[Samples, Samples]:
    """A recording as samples, all of it in memory.

    Args:
        input_file: a path or an open binary file.
        sampling_rate: of the samples, in Hz.
        split_stereo: give the left and the right channel, each by itself, in place of their mean.
            Of a recording with one channel both are that one.

    Returns:
        float32 samples of shape (n_samples,), or two such arrays.

    Raises:
        AudioError: it cannot be read.
    """
    if sampling_rate == SAMPLING_RATE and not split_stereo:
        with open_audio(input_file, AudioOptions()) as reader:  # type: ignore[arg-type]  # any path
            return _joined(list(reader.blocks()))
    channels: tuple[Channel, ...] = ("left", "right") if split_stereo else ("mix",)
    resamplers = [Resampler(channel, sampling_rate) for channel in channels]
    blocks: list[list[Samples]] = [[] for _ in channels]
    for frame in _frames(input_file):
        for own, resampler in zip(blocks, resamplers, strict=True):
            own.extend(resampler.push(frame))
    for own, resampler in zip(blocks, resamplers, strict=True):
        own.extend(resampler.flush())
    joined = [_joined(own) for own in blocks]
    return (joined[0], joined[1]) if split_stereo else joined[0]


def _joined(blocks: Sequence[Samples]) -> Samples:
    return np.concatenate([np.zeros(0, np.float32), *blocks])


def _frames(file: str | PathLike[str] | BinaryIO) -> Iterator[AudioFrame]:
    """The frames of the first track that can be decoded."""
    path = fspath(file) if isinstance(file, PathLike) else file
    name = path if isinstance(path, str) else str(getattr(path, "name", "<file>"))
    with closing(open_container(name, path)) as container:
        for packet in container.demux(find_track(name, container, 0)):
            try:
                frames = packet.decode()
            except (av.FFmpegError, ValueError):
                continue
            yield from (one for one in frames if isinstance(one, AudioFrame) and one.samples)
