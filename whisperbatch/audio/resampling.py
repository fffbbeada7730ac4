"""Frames of any rate, layout and format -> mono samples, at 16 kHz as a rule, by FFmpeg."""

from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt
from av.audio.frame import AudioFrame
from av.audio.resampler import AudioResampler

from whisperbatch.options import Channel
from whisperbatch.types import SAMPLING_RATE, Samples

BLOCK: Final = SAMPLING_RATE  # samples given at a time
MIXABLE: Final = 8  # channels that FFmpeg mixes down


class Resampler:
    """Frames of any rate, layout and format -> mono samples at one rate, streamed, in whole blocks.

    Args:
        channel: "mix", or the one to take.
        rate: of the samples that it gives, in Hz.
    """

    def __init__(self, channel: Channel, rate: int = SAMPLING_RATE) -> None:
        self._channel = channel
        self._rate = rate
        self._resampler: AudioResampler | None = None
        self._source: tuple[str, str, int] | None = None
        self._channels = 1  # that it gives

    def push(self, frame: AudioFrame) -> Iterator[Samples]:
        """The blocks that `frame` completes, each of `BLOCK` samples.

        Where the track changes its format, one more, with what the old format had left.
        """
        source = (frame.format.name, frame.layout.name, frame.sample_rate)
        if source != self._source:
            yield from self.flush()
            self._open(frame)
            self._source = source
        frame.pts = None  # its place is known already
        yield from self._resample(frame)

    def push_samples(self, samples: Samples, rate: int) -> Iterator[Samples]:
        """The same for mono float32 samples."""
        frame = AudioFrame.from_ndarray(samples[None], format="fltp", layout="mono")
        frame.sample_rate = rate
        yield from self.push(frame)

    def flush(self) -> Iterator[Samples]:
        """What is still held back."""
        yield from self._resample(None)
        self._resampler = self._source = None

    def _open(self, frame: AudioFrame) -> None:
        channels = frame.layout.nb_channels
        # Two channels are averaged here: FFmpeg's own mix of them is 3 dB louder than either. It
        # has none for more than eight.
        mixed = self._channel == "mix" and 2 < channels <= MIXABLE  # noqa: PLR2004
        self._channels = 1 if mixed else channels
        # Packed, not planar: PyAV 18 reads beyond the planes of a frame of more than eight.
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
                yield self._choose(packed.reshape(-1, self._channels))  # (n_samples, channels)

    def _choose(self, packed: npt.NDArray[np.float32]) -> Samples:
        if self._channel == "mix" and self._channels > 1:
            samples: Samples = packed.mean(axis=1, dtype=np.float32)
            return samples
        number = 1 if self._channel == "right" and self._channels > 1 else 0
        return np.ascontiguousarray(packed[:, number])


def to_mono(samples: npt.NDArray[np.float32 | np.int16], rate: int) -> Iterator[Samples]:
    """Samples in memory as blocks at 16 kHz. They are copied, not modified."""
    resampler = Resampler("mix")
    for start in range(0, len(samples), BLOCK):
        block = samples[start : start + BLOCK]
        scaled = block.astype(np.float32)  # a copy: what is given may be changed, the array not
        if block.dtype == np.int16:
            scaled /= 32768
        yield from (resampler.push_samples(scaled, rate) if rate != SAMPLING_RATE else (scaled,))
    yield from resampler.flush()
