"""faster-whisper's function that decodes a complete file, and its helper for features."""

from os import PathLike
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from whisperbatch import audio
from whisperbatch.compat.faster_whisper._values import originals
from whisperbatch.types import SAMPLING_RATE, Samples

if TYPE_CHECKING:
    from whisperbatch.options import Channel

__all__ = ["decode_audio"]

__getattr__ = originals(__name__, "pad_or_trim")


def decode_audio(
    input_file: str | PathLike[str] | BinaryIO,
    sampling_rate: int = SAMPLING_RATE,
    split_stereo: bool = False,
) -> Samples | tuple[Samples, Samples]:
    """Return the samples of a complete recording.

    Args:
        input_file: a path or an open binary file.
        sampling_rate: of the samples, in Hz.
        split_stereo: return the left and the right channel separately instead of their mean. A
            recording with one channel returns this channel twice.

    Returns:
        float32 samples of shape (n_samples,), or two such arrays.

    Raises:
        AudioError: the recording cannot be read.
    """
    if sampling_rate == SAMPLING_RATE and not split_stereo:
        with audio.open_audio(input_file) as reader:  # type: ignore[arg-type]  # any path
            return np.concatenate([np.zeros(0, np.float32), *reader.blocks()])
    channels: tuple[Channel, ...] = ("left", "right") if split_stereo else ("mix",)
    decoded = audio.decode_audio(input_file, channels, sampling_rate)
    return (decoded[0], decoded[1]) if split_stereo else decoded[0]
