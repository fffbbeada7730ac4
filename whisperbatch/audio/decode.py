"""A media file decoded into arrays: at any sampling rate, one array for each channel."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from os import PathLike, fspath
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from whisperbatch.audio.file_objects import FileObject, given_name
from whisperbatch.audio.mixing.blocks import ChannelBlock, ChannelResampler
from whisperbatch.audio.mixing.mixer import Mixer
from whisperbatch.audio.resampling import Resampler
from whisperbatch.audio.track import Track, frames_of
from whisperbatch.options import Channel
from whisperbatch.types import SAMPLING_RATE, Samples

if TYPE_CHECKING:
    from av.audio.frame import AudioFrame


def decode_audio(
    file: str | PathLike[str] | BinaryIO,
    channels: Sequence[Channel] = ("mix",),
    sampling_rate: int = SAMPLING_RATE,
) -> list[Samples]:
    """Decode the first audio track of a file completely into memory.

    Args:
        file: a path, or an open binary file; the file stays open.
        channels: the channels to return. At 16 kHz, "mix" keeps the speech of all channels as
            `AudioReader.blocks` does; at other rates, it is the plain mix. If the
            recording has only one channel, "left" and "right" both return this channel.
        sampling_rate: sampling rate of the returned samples, in Hz.

    Returns:
        One array for each of `channels`: float32 samples of shape (n_samples,).

    Raises:
        AudioError: the file cannot be read or has no audio track.
    """
    path = fspath(file) if isinstance(file, PathLike) else file
    name = path if isinstance(path, str) else str(given_name(path) or "<file>")
    opened = path if isinstance(path, str) else FileObject(name, path)
    resamplers = [_resampler(name, channel, sampling_rate) for channel in channels]
    blocks: list[list[Samples | ChannelBlock]] = [[] for _ in channels]
    for frame in _frames(name, opened):
        for channel_blocks, resampler in zip(blocks, resamplers, strict=True):
            channel_blocks.extend(resampler.push(frame))
    for channel_blocks, resampler in zip(blocks, resamplers, strict=True):
        channel_blocks.extend(resampler.flush())
    empty = np.zeros(0, np.float32)
    return [np.concatenate([empty, *Mixer(None)(part)]) for part in blocks]


def _resampler(name: str, channel: Channel, sampling_rate: int) -> ChannelResampler | Resampler:
    """Return the converter of a channel; at 16 kHz, the mix of all channels has all speech."""
    if channel == "mix" and sampling_rate == SAMPLING_RATE:
        return ChannelResampler(name)
    return Resampler(name, channel, sampling_rate)


def _frames(name: str, file: str | FileObject) -> Iterator["AudioFrame"]:
    """Yield the frames of the first audio track; frames that cannot be decoded are skipped."""
    with closing(Track(name, file)) as track:
        for packet in track.packets():
            yield from frames_of(packet) or ()
