"""Conversion of audio frames of any rate, layout and format to samples, by FFmpeg.

A `Resampler` returns mono samples or all channels. A `ChannelResampler` returns all channels beside
their plain mix, from which the mix of a recording is made (mixing.py).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

import av
import numpy as np
import numpy.typing as npt
from av.audio.frame import AudioFrame
from av.audio.plane import AudioPlane
from av.audio.resampler import AudioResampler
from typing_extensions import Self

from whisperbatch.boundary import describe
from whisperbatch.errors import AudioError
from whisperbatch.options import Channel
from whisperbatch.types import SAMPLING_RATE, Samples

Delivery: TypeAlias = Channel | Literal["each"]
"""Which channels are delivered: a mix or one of them, shape (n_samples,), or each of them, shape
(n_samples, n_channels)."""

MAX_LEVEL: Final = 4.0  # 12 dB above full scale; damaged frames decoded to values up to 1e37
BLOCK: Final = SAMPLING_RATE  # samples of a block
MAX_LOUD: Final = 16.0  # 24 dB above full scale; float32 samples are from -1 to 1
MAX_MIXED: Final = 8  # channels: FFmpeg cannot mix down more
MAX_CONVERTED: Final = 64  # channels: FFmpeg cannot convert frames with more
NO_SAMPLES: Final = np.zeros(0, np.float32)
SAMPLE_FORMATS: Final = {
    "u8": ("u1", 128, 2**7),
    "s16": ("i2", 0, 2**15),
    "s32": ("i4", 0, 2**31),
    "s64": ("i8", 0, 2**63),
    "flt": ("f4", 0, 1),
    "dbl": ("f8", 0, 1),
}
"""FFmpeg's packed formats: type of a sample in native byte order, and its zero and full scale."""


class Resampler:
    """Streaming converter of frames to blocks of samples at one rate.

    Args:
        name: name of the recording, for messages.
        channel: "mix", the channel to take, or "each".
        rate: sampling rate of the blocks, in Hz.
        block: samples of a block; None for blocks of all samples that are ready.
    """

    def __init__(
        self,
        name: str,
        channel: Delivery,
        rate: int = SAMPLING_RATE,
        *,
        block: int | None = BLOCK,
    ) -> None:
        self._name = name
        self._block = block
        self._channel = channel
        self._rate = rate
        self._resampler: AudioResampler | None = None
        self._source: tuple[str, str, int] | None = None  # format, layout and rate of the frames
        self._channels = 1  # number of channels that FFmpeg returns

    def push(self, frame: AudioFrame) -> Iterator[Samples]:
        """Yield the blocks that `frame` completes.

        If the format of the track changes, a shorter block with the last samples of the old
        format comes first.

        Raises:
            AudioError: FFmpeg cannot convert the frame.
        """
        if frame.layout.nb_channels > MAX_CONVERTED:
            frame = self._mono_frame(frame)
        source = (frame.format.name, frame.layout.name, frame.sample_rate)
        if source != self._source:
            yield from self.flush()
            self._open(frame)
            self._source = source
        frame.pts = None  # the caller places the samples
        yield from self._resample(frame)

    def push_samples(self, samples: Samples, rate: int) -> Iterator[Samples]:
        """Yield the blocks that mono float32 samples complete; see `push`."""
        yield from self.push(_frame_of(samples, rate))

    def flush(self) -> Iterator[Samples]:
        """Yield the samples that the resampler still holds, and reset the resampler."""
        yield from self._resample(None)
        self._resampler = self._source = None

    def _open(self, frame: AudioFrame) -> None:
        channels = frame.layout.nb_channels
        # FFmpeg's mix of two channels is 3 dB louder than each of them, and FFmpeg has no mix for
        # more than eight channels: `_choose` averages the channels in both cases.
        mixes = self._channel == "mix" and is_mixed_by_ffmpeg(channels)
        self._channels = 1 if mixes else channels
        # Packed, not planar: PyAV 18 reads beyond the planes if a frame has more than eight.
        self._resampler = AudioResampler(
            format="flt",
            layout="mono" if mixes else frame.layout,
            rate=self._rate,
            frame_size=self._block,
        )

    def _resample(self, frame: AudioFrame | None) -> Iterator[Samples]:
        if self._resampler is None:
            return
        try:
            blocks = [_copy(block) for block in self._resampler.resample(frame)]
        except (av.FFmpegError, ValueError) as error:
            self._resampler = self._source = None
            raise AudioError(
                f"cannot be converted to {self._rate} Hz: {describe(error)}", source=self._name
            ) from error
        for packed in blocks:
            if packed.size:
                yield self._choose(packed.reshape(-1, self._channels))

    def _choose(self, packed: npt.NDArray[np.float32]) -> Samples:
        """Average the channels, or take one or all.

        `packed` has the shape (n_samples, n_channels).
        """
        channels = packed.shape[1]
        if self._channel == "each":
            return packed
        if self._channel == "mix" and channels > 1:
            with np.errstate(over="ignore", invalid="ignore"):  # the reader reports such samples
                return mixed(packed)
        index = 1 if self._channel == "right" and channels > 1 else 0
        return np.ascontiguousarray(packed[:, index])

    def _mono_frame(self, frame: AudioFrame) -> AudioFrame:
        """Return a frame with too many channels for FFmpeg as a mono frame."""
        try:
            packed = packed_samples(frame)
        except (KeyError, ValueError) as error:
            raise AudioError(
                f"has {frame.layout.nb_channels} channels, in the format {frame.format.name}, "
                "which cannot be converted; give a file with fewer channels",
                source=self._name,
            ) from error
        return _frame_of(self._choose(packed), frame.sample_rate)


def _copy(frame: AudioFrame) -> npt.NDArray[np.float32]:
    """Return the samples of a packed float32 frame; shape (n_samples * n_channels,)."""
    count = frame.samples * frame.layout.nb_channels
    plane: Any = AudioPlane(frame, 0)  # a buffer, which its types do not say
    return np.frombuffer(plane, np.float32, count).copy() if count else NO_SAMPLES


def _frame_of(samples: npt.NDArray[np.float32], rate: int) -> AudioFrame:
    """Return samples of shape (n_samples,) or (n_samples, n_channels) as a frame."""
    channels = samples[0].size
    values = np.ascontiguousarray(samples).reshape(1, -1)
    layout = f"{channels} channels" if channels > 1 else "mono"
    frame = AudioFrame.from_ndarray(values, format="flt", layout=layout)
    frame.sample_rate = rate
    return frame


def packed_samples(frame: AudioFrame) -> npt.NDArray[np.float32]:
    """Return the samples of a frame, from -1 to 1; shape (n_samples, n_channels)."""
    channels, planar = frame.layout.nb_channels, frame.format.is_planar
    kind, zero, scale = SAMPLE_FORMATS[frame.format.packed.name]
    # `frame.planes` would read beyond the planes if there are more than eight
    planes = [
        np.frombuffer(bytes(AudioPlane(frame, index)), kind)[
            : frame.samples * (1 if planar else channels)
        ]
        for index in range(channels if planar else 1)
    ]
    samples = np.stack(planes, axis=1) if planar else planes[0].reshape(-1, channels)
    with np.errstate(over="ignore", invalid="ignore"):  # the reader reports such samples
        return ((samples.astype(np.float64) - zero) / scale).astype(np.float32)


def to_blocks(samples: npt.NDArray[np.float32 | np.int16], rate: int) -> Iterator[Samples]:
    """Yield samples from memory as blocks at 16 kHz; see `to_mono`.

    Samples of shape (n_samples, n_channels) become blocks of such a shape.
    """
    if samples.ndim == 1:
        yield from to_mono(samples, rate)
        return
    for blocks in zip(*(to_mono(channel, rate) for channel in samples.T), strict=True):
        yield np.stack(blocks, axis=1)


def mixed(block: Samples) -> Samples:
    """Return a block with its channels averaged, shape (n_samples,); a mono block is unchanged."""
    return block if block.ndim == 1 else block.mean(axis=1, dtype=np.float32)


def to_mono(samples: npt.NDArray[np.float32 | np.int16], rate: int) -> Iterator[Samples]:
    """Yield samples from memory as blocks at 16 kHz. The samples are copied, not modified.

    The level of a click is limited to `MAX_LOUD`: a sample of 1e30 would hide the speech next to
    it, and the power of a sample of 1e38 is infinite.
    """
    resampler = Resampler("<array>", "mix")
    for start in range(0, len(samples), BLOCK):
        block = samples[start : start + BLOCK]
        scaled = to_scale(block)
        yield from (resampler.push_samples(scaled, rate) if rate != SAMPLING_RATE else (scaled,))
    yield from resampler.flush()


def to_scale(samples: npt.NDArray[np.float32 | np.int16]) -> Samples:
    """Return a copy of samples, nominally from -1 to 1, and at most `MAX_LOUD`."""
    scaled: Samples = samples.astype(np.float32)
    if samples.dtype == np.int16:
        scaled /= 32768
    np.clip(scaled, -MAX_LOUD, MAX_LOUD, out=scaled)
    return scaled


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
    """Streaming converter of frames to blocks of all channels at 16 kHz, at most 1 s each.

    Args:
        name: name of the recording, for messages.
    """

    def __init__(self, name: str) -> None:
        self._mix = Resampler(name, "mix")
        self._each: tuple[Resampler, ...] = ()  # one for each group of `MAX_CONVERTED` channels
        self._name = name
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
            self._each = tuple(Resampler(self._name, "each") for _ in range(groups))
        # first the mix, which refuses formats without a conversion
        plain = [*self._mix.push(frame)] if self._has_own_mix() else None
        parts = zip(self._each, self._parts(frame), strict=True)
        yield from _join(plain, [each.push(part) for each, part in parts])

    def flush(self) -> Iterator[ChannelBlock]:
        """Yield the samples that the resamplers still hold, and reset the resamplers."""
        plain = [*self._mix.flush()] if self._has_own_mix() else None
        yield from _join(plain, [each.flush() for each in self._each])

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


def _join(
    plain: Sequence[Samples] | None, groups: Sequence[Iterator[Samples]]
) -> Iterator[ChannelBlock]:
    """Yield blocks of the channels of all groups, with their plain mix; None: their mean."""
    for index, parts in enumerate(zip(*groups, strict=True)):
        channels = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)
        yield ChannelBlock.of(channels) if plain is None else ChannelBlock(plain[index], channels)


def open_resampler(
    name: str, channel: Delivery, rate: int = SAMPLING_RATE
) -> ChannelResampler | Resampler:
    """Return the converter of a channel; at 16 kHz, the mix of all channels has all speech."""
    if channel == "mix" and rate == SAMPLING_RATE:
        return ChannelResampler(name)
    return Resampler(name, channel, rate)
