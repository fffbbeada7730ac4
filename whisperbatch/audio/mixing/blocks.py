"""Blocks of all channels beside their plain mix, and the conversion of frames to such blocks.

Groups of channels with the same sound, and which channels of a group are inverted.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

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

SILENCE: Final = 1e-9  # mean square: -90 dBFS, the rounding of 16-bit samples

Products: TypeAlias = npt.NDArray[np.float64]


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


def _frame_of(packed: npt.NDArray[np.float32], rate: int) -> AudioFrame:
    """Return samples of shape (n_samples, n_channels) as a frame."""
    values = np.ascontiguousarray(packed).reshape(1, -1)
    layout = f"{packed.shape[1]} channels" if packed.shape[1] > 1 else "mono"
    frame = AudioFrame.from_ndarray(values, format="flt", layout=layout)
    frame.sample_rate = rate
    return frame


RUN: Final = 8  # frames, 0.4 s: the sign of a correlation is found in each such block
# Correlation of channels with the same sound. Inverted speech in noise of the same level on both
# channels had -0.25 to -0.5, independent voices or noises were between -0.1 and 0.1 in 4 s.
SAME: Final = 0.7
INVERTED: Final = -0.2
# Mean absolute correlation of the blocks of copies whose sign may change. Music with a delay
# reached 0.7, with either sign.
COPIES: Final = 0.85
CERTAIN: Final = -0.8  # correlation of inverted copies: the mix loses 10 dB and more
MIN_SHARE: Final = 0.03  # of the sound that must be inverted, or not inverted, to count
SIGNIFICANT: Final = 0.05  # level of a block, relative to the loudest: -13 dB


@dataclass(frozen=True, slots=True)
class Group:
    """Channels with the same sound; indices of the compared channels.

    Attributes:
        channels: the loudest first.
        signs: 1 or -1 for each channel, 0 if the sign changes. The first channel of the recording
            that is in the group, and has a sign, has 1.
        is_certain: whether all inverted channels certainly are; True without inverted channels.
    """

    channels: tuple[int, ...]
    signs: tuple[int, ...]
    is_certain: bool

    @property
    def is_inverted(self) -> bool:
        """Whether a channel is inverted, now or then."""
        return min(self.signs) < 1

    def upright(self) -> "Group":
        """Return the group as if no channel were inverted."""
        return Group(self.channels, (1,) * len(self.channels), is_certain=True)

    def weights(self, count: int) -> npt.NDArray[np.float64]:
        """Return the mean of the channels with their signs; shape (count,), `count` channels."""
        row = np.zeros(count)
        row[list(self.channels)] = self.signs
        return row / np.count_nonzero(row)


def find_groups(products: Products, powers: npt.NDArray[np.float64]) -> list[Group]:
    """Return the groups of the channels that are not silent, the loudest group first.

    Args:
        products: of the channels alone, without the plain mix, in the speech band.
        powers: mean squares of the channels, shape (n_channels,).
    """
    blocks = np.add.reduceat(products, range(0, len(products), RUN))
    totals = blocks.sum(axis=0)
    # in steps of 1 dB: of channels that are as loud, the first comes first
    levels = np.round(10 * np.log10(np.maximum(np.diag(totals), SILENCE)))
    loudest = np.argsort(-levels, kind="stable")
    order = [int(channel) for channel in loudest if powers[channel] > SILENCE]
    found: list[list[tuple[int, int, bool]]] = []
    for channel in order:
        for members in found:
            sign = _sign(blocks, totals, members[0][0], channel)
            if sign is not None:
                members.append((channel, *sign))
                break
        else:
            found.append([(channel, 1, True)])
    return [_group(members) for members in found]


def _group(members: list[tuple[int, int, bool]]) -> Group:
    channels, signs, certain = zip(*members, strict=True)
    first = next(sign for _, sign, _ in sorted(members) if sign)
    return Group(channels, tuple(sign * first for sign in signs), all(certain))


def _sign(blocks: Products, totals: Products, first: int, second: int) -> tuple[int, bool] | None:
    """Return the sign of a channel relative to another, and whether it is certain.

    Returns:
        None if the channels do not have the same sound.
    """
    levels = np.sqrt(blocks[:, first, first] * blocks[:, second, second])
    levels[levels < SIGNIFICANT * levels.max()] = 0
    correlations = blocks[:, first, second] / np.maximum(levels, SILENCE**2)
    correlations[levels == 0] = 0
    shares = levels / max(levels.sum(), SILENCE**2)
    upright = float(shares[correlations >= SAME].sum())
    inverted = float(shares[correlations <= -SAME].sum())
    coherence = float((shares * np.abs(correlations)).sum())
    both = max(totals[first, first] * totals[second, second], SILENCE**4)
    total = float(totals[first, second] / np.sqrt(both))
    if coherence >= COPIES and min(upright, inverted) >= MIN_SHARE:
        return 0, True
    if INVERTED < total < SAME:
        return None
    return (1, True) if total > 0 else (-1, total <= CERTAIN)
