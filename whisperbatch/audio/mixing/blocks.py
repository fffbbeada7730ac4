"""Blocks of all channels beside their plain mix, and the conversion of frames to such blocks."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from av.audio.frame import AudioFrame
from typing_extensions import Self

from whisperbatch.audio.resampling import (
    MAX_CONVERTED,
    MAX_MIXED,
    Resampler,
    mixed,
    packed_samples,
)
from whisperbatch.types import SAMPLING_RATE, Samples


@dataclass(frozen=True, slots=True, eq=False)
class ChannelBlock:
    """Audio with its channels.

    Attributes:
        mixed: the plain mix, shape (n_samples,).
        channels: shape (n_samples, n_channels).
    """

    mixed: Samples
    channels: Samples

    def __len__(self) -> int:
        """Return the number of samples of each channel."""
        return len(self.mixed)

    @classmethod
    def of(cls, channels: Samples) -> Self:
        """Return a block of channels whose plain mix is their mean."""
        if channels.shape[1] == 1:
            return cls(np.ascontiguousarray(channels[:, 0]), channels)
        with np.errstate(over="ignore", invalid="ignore"):  # the reader reports such samples
            return cls(mixed(channels), channels)

    @classmethod
    def joined(cls, blocks: Sequence["ChannelBlock"]) -> Self:
        """Return successive blocks, at least one, as one block."""
        return cls(
            np.concatenate([block.mixed for block in blocks]),
            np.concatenate([block.channels for block in blocks]),
        )

    def part(self, start: int, end: int | None = None) -> "ChannelBlock":
        """Return a range of the samples."""
        return ChannelBlock(self.mixed[start:end], self.channels[start:end])

    @property
    def is_averaged(self) -> bool:
        """Whether the plain mix is the mean of the channels."""
        return not is_mixed_by_ffmpeg(self.channels.shape[1])


def is_mixed_by_ffmpeg(channels: int) -> bool:
    """Return whether FFmpeg mixes this number of channels, by their positions."""
    return 2 < channels <= MAX_MIXED  # noqa: PLR2004 - FFmpeg's mix of two is 3 dB too loud


class ChannelResampler:
    """Streaming converter of frames to blocks of all channels, at most 1 s each.

    Args:
        name: name of the recording, for messages.
        rate: sampling rate of the blocks, in Hz.
    """

    def __init__(self, name: str, rate: int = SAMPLING_RATE) -> None:
        self._mix = Resampler(name, "mix", rate)
        self._each: tuple[Resampler, ...] = ()  # one for each group of `MAX_CONVERTED` channels
        self._name, self._rate = name, rate
        self._channels = 0

    def push(self, frame: AudioFrame) -> Iterator[ChannelBlock]:
        """Yield the blocks that `frame` completes; see `Resampler.push`.

        Raises:
            AudioError: FFmpeg cannot convert the frame.
        """
        channels = frame.layout.nb_channels
        if channels != self._channels:
            yield from self.flush()
            self._channels = channels
            groups = -(-channels // MAX_CONVERTED)
            self._each = tuple(Resampler(self._name, "each", self._rate) for _ in range(groups))
        # first the mix, which refuses formats without a conversion
        plain = [*self._mix.push(frame)] if self._has_own_mix() else None
        parts = zip(self._each, self._parts(frame), strict=True)
        yield from _joined(plain, [each.push(part) for each, part in parts])

    def flush(self) -> Iterator[ChannelBlock]:
        """Yield the samples that the resamplers still hold, and reset the resamplers."""
        plain = [*self._mix.flush()] if self._has_own_mix() else None
        yield from _joined(plain, [each.flush() for each in self._each])

    def _has_own_mix(self) -> bool:
        """Return whether the plain mix is not the mean of the resampled channels."""
        return is_mixed_by_ffmpeg(self._channels) or self._channels > MAX_CONVERTED

    def _parts(self, frame: AudioFrame) -> Iterable[AudioFrame]:
        """Return a frame for each group of channels."""
        if len(self._each) == 1:
            return (frame,)
        packed = packed_samples(frame)
        return [
            _frame_of(packed[:, start : start + MAX_CONVERTED], frame.sample_rate)
            for start in range(0, self._channels, MAX_CONVERTED)
        ]


def _joined(
    plain: Sequence[Samples] | None, groups: Sequence[Iterator[Samples]]
) -> Iterator[ChannelBlock]:
    """Yield blocks of the channels of all groups, with their plain mix; None: their mean."""
    for index, parts in enumerate(zip(*groups, strict=True)):
        channels = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)
        yield ChannelBlock.of(channels) if plain is None else ChannelBlock(plain[index], channels)


def _frame_of(packed: npt.NDArray[np.float32], rate: int) -> AudioFrame:
    """Return samples of shape (n_samples, n_channels) as a frame."""
    values = np.ascontiguousarray(packed).reshape(1, -1)
    layout = f"{packed.shape[1]} channels" if packed.shape[1] > 1 else "mono"
    frame = AudioFrame.from_ndarray(values, format="flt", layout=layout)
    frame.sample_rate = rate
    return frame
