"""Conversion of audio frames of any rate, layout and format to mono samples, by FFmpeg."""

from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt
from av.audio.frame import AudioFrame
from av.audio.resampler import AudioResampler

from whisperbatch.options import Channel
from whisperbatch.types import SAMPLING_RATE, Samples

BLOCK: Final = SAMPLING_RATE  # samples of a block
MAX_MIXED: Final = 8  # channels: FFmpeg cannot mix down more


class Resampler:
    """Streaming converter of frames to blocks of mono samples at one rate.

    Args:
        channel: "mix", or the channel to take.
        rate: sampling rate of the blocks, in Hz.
    """

    def __init__(self, channel: Channel, rate: int = SAMPLING_RATE) -> None:
        self._channel = channel
        self._rate = rate
        self._resampler: AudioResampler | None = None
        self._source: tuple[str, str, int] | None = None  # format, layout and rate of the frames
        self._channels = 1  # number of channels that FFmpeg returns

    def push(self, frame: AudioFrame) -> Iterator[Samples]:
        """Yield the blocks of `BLOCK` samples that `frame` completes.

        If the format of the track changes, a shorter block with the last samples of the old
        format comes first.
        """
        source = (frame.format.name, frame.layout.name, frame.sample_rate)
        if source != self._source:
            yield from self.flush()
            self._open(frame)
            self._source = source
        frame.pts = None  # the caller places the samples
        yield from self._resample(frame)

    def push_samples(self, samples: Samples, rate: int) -> Iterator[Samples]:
        """Yield the blocks that mono float32 samples complete; see `push`."""
        frame = AudioFrame.from_ndarray(samples[None], format="fltp", layout="mono")
        frame.sample_rate = rate
        yield from self.push(frame)

    def flush(self) -> Iterator[Samples]:
        """Yield the samples that the resampler still holds, and reset the resampler."""
        yield from self._resample(None)
        self._resampler = self._source = None

    def _open(self, frame: AudioFrame) -> None:
        channels = frame.layout.nb_channels
        # FFmpeg's mix of two channels is 3 dB louder than each of them, and FFmpeg has no mix for
        # more than eight channels: `_choose` averages the channels in both cases.
        mixed = self._channel == "mix" and 2 < channels <= MAX_MIXED  # noqa: PLR2004
        self._channels = 1 if mixed else channels
        # Packed, not planar: PyAV 18 reads beyond the planes if a frame has more than eight.
        self._resampler = AudioResampler(
            format="flt",
            layout="mono" if mixed else frame.layout,
            rate=self._rate,
            frame_size=BLOCK,
        )

    def _resample(self, frame: AudioFrame | None) -> Iterator[Samples]:
        if self._resampler is None:
            return
        for resampled in self._resampler.resample(frame):
            packed = resampled.to_ndarray().astype(np.float32, copy=False)
            if packed.size:
                yield self._choose(packed.reshape(-1, self._channels))

    def _choose(self, packed: npt.NDArray[np.float32]) -> Samples:
        """Average the channels, or take one. `packed` has the shape (n_samples, n_channels)."""
        if self._channel == "mix" and self._channels > 1:
            samples: Samples = packed.mean(axis=1, dtype=np.float32)
            return samples
        index = 1 if self._channel == "right" and self._channels > 1 else 0
        return np.ascontiguousarray(packed[:, index])


def to_mono(samples: npt.NDArray[np.float32 | np.int16], rate: int) -> Iterator[Samples]:
    """Yield samples from memory as blocks at 16 kHz. The samples are copied, not modified."""
    resampler = Resampler("mix")
    for start in range(0, len(samples), BLOCK):
        block = samples[start : start + BLOCK]
        scaled = block.astype(
            np.float32
        )  # a copy: the caller of this function may change the block
        if block.dtype == np.int16:
            scaled /= 32768
        yield from (resampler.push_samples(scaled, rate) if rate != SAMPLING_RATE else (scaled,))
    yield from resampler.flush()
