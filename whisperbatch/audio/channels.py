"""Recordings whose channels are read separately: `speaker="channel"`."""

from typing import Final

import numpy as np

from whisperbatch.errors import OptionError, of_recording
from whisperbatch.types import Samples

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
        error = OptionError(
            f"speaker='channel': {name} has one channel, which all speakers share; leave speaker "
            "out, and the voices are compared"
        )
        raise of_recording(error, name)
    if channels > MAX_SEPARATE:
        error = OptionError(
            f"speaker='channel': {name} has {channels} channels, and at most {MAX_SEPARATE} can be "
            "speakers; leave speaker out, and the voices are compared"
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
