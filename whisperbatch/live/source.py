"""Audio on its way into a live session: samples that are fed, or a recording that is read."""

from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt

from whisperbatch.audio.resampling import Resampler, to_scale
from whisperbatch.audio.sources import check_finite
from whisperbatch.errors import AudioError
from whisperbatch.types import SAMPLING_RATE, Samples, to_samples

NAME: Final = "<live>"


class SampleInput:
    """Converts the samples that are fed to blocks at 16 kHz.

    Args:
        rate: sampling rate of the samples, in Hz.
    """

    def __init__(self, rate: int) -> None:
        self._rate = rate
        self._resampler = None if rate == SAMPLING_RATE else Resampler(NAME, "mix", block=None)
        self._odd = b""  # the first half of a sample

    def push(
        self, samples: bytes | npt.NDArray[np.float32] | npt.NDArray[np.int16], position: float
    ) -> Iterator[Samples]:
        """Yield the blocks of samples, which are checked before the first block.

        Args:
            samples: see `LiveSession.feed`.
            position: seconds that were fed before, for messages.

        Raises:
            AudioError: see `LiveSession.feed`.
        """
        if isinstance(samples, bytes | bytearray | memoryview):
            content = self._odd + bytes(samples)
            complete = len(content) // 2 * 2
            self._odd = content[complete:]
            samples = np.frombuffer(content[:complete], "<i2")
        if not isinstance(samples, np.ndarray) or samples.dtype not in (np.float32, np.int16):
            kind = getattr(samples, "dtype", type(samples).__name__)
            raise AudioError(
                f"samples must be float32, int16 or bytes, not {kind}; convert the samples",
                source=NAME,
            )
        if samples.ndim != 1:
            raise AudioError(
                f"samples must have one channel, not the shape {samples.shape}; mix the channels, "
                "or open a session for each",
                source=NAME,
            )
        check_finite(samples, NAME, to_samples(position), SAMPLING_RATE)
        scaled = to_scale(samples)
        if not len(scaled):
            return iter(())
        if self._resampler:
            return self._resampler.push_samples(scaled, self._rate)
        return iter((scaled,))

    def close(self) -> None:
        """Free the resampler, whose threads would last as long as somebody holds the session."""
        self._resampler = None

    def flush(self) -> Iterator[Samples]:
        """Yield the samples that the resampler still holds."""
        return self._resampler.flush() if self._resampler else iter(())
