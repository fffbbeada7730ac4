"""Groups of channels with the same sound, and which channels of a group are inverted."""

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from whisperbatch.audio.mixing.evidence import SILENCE, Products

BLOCK: Final = 8  # frames, 0.4 s: the sign of a correlation is found in each such block
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
    blocks = np.add.reduceat(products, range(0, len(products), BLOCK))
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
