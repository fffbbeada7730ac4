"""The mix of all channels (`channel="mix"`), in which speech on any channel is heard.

The plain mix (FFmpeg's for three to eight channels, otherwise the mean) is kept wherever speech is
heard in it: in nearly all recordings, everywhere. Elsewhere inverted channels are turned, and
channels with sound that is no speech are lowered. docs/explanation/channels.md explains the rules.

The mix is chosen for cells of a fixed grid, each with its look-ahead:

    recording     |---------- section period ------------|---------
    cells         [  0  ][  1  ][  2  ] ...      [ last ][  0  ]
    evidence      [  0  |==]
                         [  1  |==]                   look-ahead

1. Channels with the same sound form groups. If a channel of a group is inverted, its sign changes.
2. A group is masked if other groups are too loud in the mix while the group is active.
3. Where a masked group has speech by the VAD, groups without speech are lowered.

The VAD runs only where channels are inverted or masked. All else follows from the products
<x_i, x_j> of the channels and the plain mix in frames of 50 ms: levels, correlations, and how much
of a channel another mix contains. Products are measured twice, at 8 kHz: of the sound itself, and
of its speech band. The band is the difference of two samples that lie 0.25 ms apart: nothing at 0
and 4000 Hz, all at 2000 Hz, half of the amplitude at 670 Hz, and 28 dB less at 50 Hz (hum).

A period begins where the audio of a section begins (`types.Span.start`); nothing before is
remembered. A span that is read alone therefore gets the samples of the whole recording.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
from typing_extensions import Self

from whisperbatch.audio.resampling import (
    BLOCK,
    ChannelBlock,
    is_mixed_by_ffmpeg,
)
from whisperbatch.options import Options
from whisperbatch.types import (
    SAMPLING_RATE,
    SECTION,
    WARM_UP,
    Notices,
    Samples,
    to_samples,
    to_seconds,
)
from whisperbatch.vad import open_vad

SILENCE: Final = 1e-9  # mean square: -90 dBFS, the rounding of 16-bit samples

Products: TypeAlias = npt.NDArray[np.float64]
"""Shape (n_frames, 1 + n_channels, 1 + n_channels); the plain mix comes first. Mean products of
samples, so that the diagonal is a mean square."""

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


FRAME: Final = SAMPLING_RATE // 20  # samples, 50 ms: syllables last 100 to 300 ms
LAG: Final = 2  # samples at 8 kHz, 0.25 ms
MAX_COMPARED: Final = 16  # channels; of more, the loudest and the most varied are compared


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """Products of channels.

    Attributes:
        speech_band: of the speech band.
        full_band: of the sound itself.
        numbers: the compared channels, counted from 0; shape (n_compared,).
        n_channels: number of channels of the recording.
    """

    speech_band: Products
    full_band: Products
    numbers: npt.NDArray[np.int64]
    n_channels: int

    @classmethod
    def of(cls, block: ChannelBlock) -> Self | None:
        """Measure a block; None if it is shorter than a frame, or has NaN or infinite samples."""
        count = len(block) // FRAME
        if not count:
            return None
        with np.errstate(over="ignore", invalid="ignore"):
            return cls._measure(block.part(0, count * FRAME))

    @classmethod
    def _measure(cls, block: ChannelBlock) -> Self | None:
        # neighbours added: 8 kHz, and a zero at the new rate's highest frequency
        halves = block.channels[::2] + block.channels[1::2]
        numbers = _compared(halves)
        halves = np.ascontiguousarray(halves[:, numbers].T)  # shape (n_compared, n_samples)
        is_mean = block.is_averaged and len(numbers) == block.channels.shape[1]
        if not is_mean:
            mixed = block.mixed[::2] + block.mixed[1::2]
            halves = np.concatenate((mixed[None], halves))
        halves *= np.float32(0.5)
        full = _products(halves)
        band = _products(_speech_band(halves))
        if is_mean:
            full, band = _with_mean(full), _with_mean(band)
        if not (np.isfinite(full).all() and np.isfinite(band).all()):
            return None
        return cls(band, full, numbers, block.channels.shape[1])


def _speech_band(sound: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    band = np.zeros_like(sound)
    np.subtract(sound[:, LAG:], sound[:, :-LAG], out=band[:, LAG:])
    return band


def _products(sound: npt.NDArray[np.float32]) -> Products:
    """Return the mean products of all pairs of signals, shape (n_signals, n_samples)."""
    frames = sound.reshape(len(sound), -1, FRAME // 2).transpose(1, 0, 2)
    products: Products = (frames @ frames.transpose(0, 2, 1)).astype(np.float64)
    products /= FRAME // 2
    return products


def _with_mean(products: Products) -> Products:
    """Return the products with those of the mean of all signals before them."""
    count = products.shape[1]
    rows = np.concatenate((np.full((1, count), 1 / count), np.eye(count)))
    result: Products = rows @ products @ rows.T
    return result


def _compared(halves: npt.NDArray[np.float32]) -> npt.NDArray[np.int64]:
    """Return the numbers of the channels that are compared: of many, the likeliest."""
    count = halves.shape[1]
    if count <= MAX_COMPARED:
        return np.arange(count)
    squares = np.square(_speech_band(halves.T).T)
    powers = squares.reshape(-1, FRAME // 2, count).mean(axis=1).astype(np.float64)
    levels = np.log(np.maximum(powers, SILENCE))
    ranges = np.percentile(levels, 98, axis=0) - np.percentile(levels, 10, axis=0)
    varied = np.argsort(-ranges, kind="stable")[: MAX_COMPARED // 2]
    loud = np.argsort(-powers.sum(axis=0), kind="stable")
    others = loud[~np.isin(loud, varied)][: MAX_COMPARED - len(varied)]
    return np.sort(np.concatenate((varied, others))).astype(np.int64)


SPEECH: Final = 0.5  # probability of a VAD frame that is speech: `vad_onset`


def count_speech(samples: Samples) -> int:
    """Return the number of VAD frames (32 ms) with speech; the VAD knows no other audio.

    Raises:
        ModelError: no installed package contains the weights of the VAD.
        EngineError: the VAD failed.
    """
    vad = open_vad(Options())
    return sum(int(np.count_nonzero(part.probabilities >= SPEECH)) for part in vad((samples,)))


Vector: TypeAlias = npt.NDArray[np.float64]
CountSpeech: TypeAlias = Callable[[Samples], int]
"""Returns the number of VAD frames with speech."""

MIN_SPEECH: Final = 6  # VAD frames, 0.2 s: a short word
MIN_ACTIVE: Final = 6  # frames of 50 ms
ACTIVE: Final = 8.0  # dB above the floor (the 10th percentile of the frames)
RANGE: Final = 25.0  # dB below the peak: softer frames are pauses
# dB of a group above all others in the mix, from which it is heard: the median of its active
# frames, and their 20th percentile (noise that comes and goes). White noise on the other of two
# channels, base model: 4 errors in 85 words without noise, 7 at 12 dB (median 8), 12 at 6 dB
# (median 2), 25 at 3 dB, 41 at 0 dB.
HEARD: Final = (6.0, 0.0)
# The same for 5 to 8 channels: music and effects of films stay as they are.
HEARD_IN_FILMS: Final = (-6.0, -18.0)
FILMS: Final = range(5, 9)  # channels
RETURN: Final = 4.0  # dB more, until the plain mix returns: the mix does not flutter
HEARD_IN_FULL_BAND: Final = -6.0  # dB: hum and constant offsets are no problem below this level
LOST: Final = 0.05  # share of a channel in FFmpeg's mix, which leaves out the LFE channel
CANCELLED: Final = 0.25  # of the share that a channel has in the mean of all channels
COPY: Final = 0.2  # correlation: a noisy copy of a group may be this similar
CROSSTALK: Final = 0.6  # correlation of levels: the group hears what another one hears
SAME_RANGE: Final = 0.6  # of the deviation of levels: with less, the other has much noise
# dB below the speech. A lowered channel is still heard where the others are silent: the gain
# control of the VAD raises by 30 dB.
LOWERED: Final = -24.0
LOUD: Final = 20.0  # dB below the speech, from which a lowered channel is named
MAX_STEADY: Final = 4  # groups: of more, only those with syllables are examined by the VAD
MAX_RAISE: Final = 10.0  # dB by which the softer of two groups with speech is raised


@dataclass(frozen=True, slots=True)
class Choice:
    """How the channels are mixed.

    Attributes:
        weights: of each channel; None for the plain mix.
        text: the notice; empty for the plain mix.
    """

    weights: tuple[float, ...] | None = None
    text: str = ""


PLAIN: Final = Choice()


def choose(block: ChannelBlock, previous: Choice, count_speech: CountSpeech) -> Choice:
    """Return the mix for a block.

    Args:
        block: a few seconds with at least two channels.
        previous: the choice for the audio before, which stays where the block has no speech.
        count_speech: see `CountSpeech`; called for single channels and for mixes.
    """
    evidence = Evidence.of(block)
    if evidence is None:
        return previous if len(block) else PLAIN
    powers = np.einsum("fii->i", evidence.full_band)[1:] / len(evidence.full_band)
    groups = find_groups(evidence.speech_band[:, 1:, 1:], powers)
    return _Chooser(block, evidence, groups, previous, count_speech).choose()


class _Chooser:
    """See `choose`."""

    def __init__(
        self,
        block: ChannelBlock,
        evidence: Evidence,
        groups: Sequence[Group],
        previous: Choice,
        count_speech: CountSpeech,
    ) -> None:
        self._block, self._evidence, self._previous = block, evidence, previous
        self._count_speech = count_speech
        self._counts: dict[bytes, int] = {}
        self._size = len(evidence.numbers)
        count = evidence.n_channels
        self._lost = LOST if is_mixed_by_ffmpeg(count) else CANCELLED / count
        self._groups = groups

    def choose(self) -> Choice:
        if not self._groups:
            return self._previous
        inverted = self._with_certain_signs()
        same = len(self._groups) == 1 and not inverted  # on all channels that are not silent
        whole = self._block.is_averaged and self._size == self._evidence.n_channels
        if same and whole and self._previous == PLAIN:
            return PLAIN
        base = self._base() if inverted else self._plain()
        turned = self._describe(base, ()) if inverted else PLAIN
        rows = [self._row(group) for group in self._groups]
        active, masked = self._find_masked(rows, base)
        if masked:
            lowered = self._lowered(rows, active, masked)
            if lowered is not None:
                return turned if lowered == PLAIN else lowered
        if inverted:  # noise that is the same on all channels changes nothing
            return turned if active else self._previous
        heard = (k for k in active if k not in masked)
        ends = self._previous != PLAIN and any(self._speech(rows[k]) >= MIN_SPEECH for k in heard)
        return PLAIN if ends else self._previous

    def _with_certain_signs(self) -> bool:
        """Keep the signs of groups only where they are certain; return whether any is inverted."""
        groups = []
        for group in self._groups:
            keep = group.is_inverted and self._is_worth_turning(group)
            groups.append(group if keep else group.upright())
        self._groups = groups
        return any(group.is_inverted for group in groups)

    def _is_worth_turning(self, group: Group) -> bool:
        if len(self._groups) == 1 and group.is_certain:
            return True
        turned, plain = self._speech(self._row(group)), self._speech(self._plain())
        if len(self._groups) > 1:
            return turned >= MIN_SPEECH and (group.is_certain or turned > plain)
        if max(turned, plain) < MIN_SPEECH:
            return self._previous != PLAIN
        return turned > plain + MIN_SPEECH

    def _plain(self) -> Vector:
        row = np.zeros(1 + self._size)
        row[0] = 1
        return row

    def _row(self, group: Group) -> Vector:
        """Return the mean of a group as weights of the plain mix and the compared channels."""
        return np.concatenate(([0.0], group.weights(self._size)))

    def _base(self) -> Vector:
        """Return the mean of all channels with their signs."""
        shares = np.array([len(group.channels) for group in self._groups]) / self._size
        rows = np.stack([self._row(group) for group in self._groups])
        base: Vector = shares @ rows
        return base

    def _find_masked(self, rows: Sequence[Vector], base: Vector) -> tuple[list[int], list[int]]:
        """Return the groups with syllables, and those of them that the base hides."""
        band, full = self._evidence.speech_band, self._evidence.full_band
        powers = np.stack([_power(band, row) for row in rows])
        levels = 10 * np.log10(np.maximum(powers, SILENCE))
        films = self._evidence.n_channels in FILMS
        more = RETURN * (self._previous.weights is not None)
        median, fifth = HEARD_IN_FILMS if films else HEARD
        found: list[int] = []
        masked: list[int] = []
        for k, row in enumerate(rows):
            own = levels[k]
            floor, peak = np.percentile(own, (10, 98))
            active = own > max(floor + ACTIVE, peak - RANGE)
            if np.count_nonzero(active) < MIN_ACTIVE:
                continue
            found.append(k)
            if _is_crosstalk(levels, k, active):
                continue
            share = _share(band[active], base, row)
            ratios = _ratios(band[active], base, row, share)
            if (
                abs(share) < self._lost
                or np.median(ratios) < median + more
                or np.percentile(ratios, 20) < fifth + more
                or np.median(_ratios(full[active], base, row, share)) < HEARD_IN_FULL_BAND
            ):
                masked.append(k)
        return found, masked

    def _lowered(
        self, rows: Sequence[Vector], active: Sequence[int], masked: Sequence[int]
    ) -> Choice | None:
        """Return the choice in which all speech is heard.

        Returns:
            The choice; PLAIN if all groups have speech; None if the masked groups have none.
        """
        if all(self._speech(rows[k]) < MIN_SPEECH for k in masked):
            return None
        speech = self._with_own_speech(rows, active, masked)
        others = [k for k in range(len(rows)) if k not in speech]
        if not others and not any(self._is_lost(rows[k]) for k in masked):
            return PLAIN
        full = self._evidence.full_band
        powers = [float(np.percentile(_power(full, row), 90)) for row in rows]
        loudest = max(powers[k] for k in speech)
        total = np.zeros(1 + self._size)
        for k in speech:
            gain = min(np.sqrt(loudest / max(powers[k], SILENCE)), 10 ** (MAX_RAISE / 20))
            total += gain * rows[k] / len(speech)
        lowered: list[int] = []
        for k in others:
            gain = 10 ** (LOWERED / 20) * np.sqrt(loudest / max(powers[k], SILENCE))
            total += min(gain, 1 / len(rows)) * rows[k]
            if powers[k] > loudest * 10 ** (-LOUD / 10):
                lowered += self._groups[k].channels
        return self._describe(total, lowered)

    def _with_own_speech(
        self, rows: Sequence[Vector], active: Sequence[int], masked: Sequence[int]
    ) -> list[int]:
        """Return the groups with speech that is not the speech of a clearer group."""
        examined = active if len(rows) > MAX_STEADY else range(len(rows))
        speech = [k for k in examined if self._speech(rows[k]) >= MIN_SPEECH]
        hidden = [k for k in masked if k in speech]
        own = [
            j
            for j in speech
            if not any(self._is_noisy_copy(rows[j], rows[k]) for k in hidden if k != j)
        ]
        return own or speech

    def _is_lost(self, row: Vector) -> bool:
        return abs(_share(self._evidence.speech_band, self._plain(), row)) < self._lost

    def _is_noisy_copy(self, row: Vector, other: Vector) -> bool:
        """Return whether all speech of a group is in another, too: the rest has no speech."""
        band = self._evidence.speech_band
        share, back = _share(band, row, other), _share(band, other, row)
        return abs(share * back) >= COPY**2 and self._speech(row - share * other) < MIN_SPEECH

    def _speech(self, row: Vector) -> int:
        key = row.tobytes()
        if key not in self._counts:
            channels = self._block.channels[:, self._evidence.numbers]
            sound = channels @ row[1:].astype(np.float32)
            if row[0]:
                sound += np.float32(row[0]) * self._block.mixed
            self._counts[key] = self._count_speech(sound)
        return self._counts[key]

    def _describe(self, row: Vector, lowered: Sequence[int]) -> Choice:
        weights = np.zeros(self._evidence.n_channels)
        weights[self._evidence.numbers] = row[1:]
        turned = sorted(
            c for g in self._groups for c, s in zip(g.channels, g.signs, strict=True) if s < 0
        )
        changing = [g for g in self._groups if 0 in g.signs]
        names = self._evidence.numbers
        facts = []
        if turned:
            facts.append(f"{_names(names[turned], self._evidence.n_channels)} inverted: turned")
        if changing:
            facts.append("the polarity of the channels changes: one of them was read")
        if lowered:
            which = _names(names[sorted(lowered)], self._evidence.n_channels)
            facts.append(f"{which} loud without own speech: lowered")
        text = (
            "; ".join(facts)
            or "the mix of all channels lacks speech: the channels with speech were averaged"
        )
        return Choice(tuple(weights.tolist()), text)


def _power(products: npt.NDArray[np.float64], row: Vector) -> Vector:
    """Return the mean square of a mix in each frame."""
    power: Vector = np.einsum("fij,i,j->f", products, row, row)
    return np.maximum(power, 0)


def _share(products: npt.NDArray[np.float64], base: Vector, row: Vector) -> float:
    """Return how much of a signal is in a mix: 1 for all of it."""
    common = np.einsum("fij,i,j->f", products, base, row).sum()
    return float(common / max(_power(products, row).sum(), SILENCE**2))


def _ratios(products: npt.NDArray[np.float64], base: Vector, row: Vector, share: float) -> Vector:
    """Return the level of a signal in a mix relative to everything else in it, in dB, per frame."""
    signal = share**2 * _power(products, row)
    rest = np.maximum(_power(products, base) - signal, 0) + SILENCE**2
    ratios: Vector = 10 * np.log10(np.maximum(signal, SILENCE**2) / rest)
    return ratios


def _is_crosstalk(levels: npt.NDArray[np.float64], k: int, active: npt.NDArray[np.bool_]) -> bool:
    """Return whether a louder group has the same rises and falls: it has the same speech."""
    others = [j for j in range(len(levels)) if j != k]
    if not others:
        return False
    loudest = max(others, key=lambda j: float(levels[j][active].mean()))
    if levels[loudest].std() < SAME_RANGE * levels[k].std():  # steady, or with much noise
        return False
    return float(np.corrcoef(levels[k], levels[loudest])[0, 1]) >= CROSSTALK


def _names(numbers: npt.NDArray[np.int64], n_channels: int) -> str:
    """Return channels for a notice, with their verb."""
    if n_channels == 2:  # noqa: PLR2004 - stereo
        sides = [("left", "right")[int(number)] for number in numbers]
        if len(sides) == 1:
            return f"the {sides[0]} channel is"
    listed = ", ".join(str(int(number) + 1) for number in numbers)
    return f"channel {listed} is" if len(numbers) == 1 else f"channels {listed} are"


CELL: Final = to_samples(2.4)  # samples with one choice
LOOK_AHEAD: Final = to_samples(1.6)  # samples after a cell that its choice depends on
FADE: Final = to_samples(0.01)  # samples from one choice to another: no click


class Mixer:
    """Mixes the channels of a recording. Holds at most `CELL + LOOK_AHEAD` samples and a block.

    Args:
        notices: gets a notice for each range that is not the plain mix; None to add none.
        position: the first sample of the blocks, counted in the recording.
        first: the first sample that is needed, at which a period begins. Cells before are not
            measured.
    """

    def __init__(self, notices: Notices | None, position: int = 0, first: int = 0) -> None:
        self._notices = notices
        self._first = first
        self._position = position
        self._held: list[ChannelBlock] = []
        self._length = 0  # samples held
        self._channels = 1
        self._choice = PLAIN

    def __call__(self, blocks: Iterable[ChannelBlock | Samples]) -> Iterator[Samples]:
        """Yield mono blocks of at most 1 s.

        Args:
            blocks: mono samples among blocks of several channels are the same for all channels.
                A block with one channel is never held.
        """
        for block in blocks:
            if isinstance(block, np.ndarray) and self._channels > 1:
                shape = (len(block), self._channels)
                block = ChannelBlock(block, np.broadcast_to(block[:, None], shape))  # noqa: PLW2901
            channels = 1 if isinstance(block, np.ndarray) else block.channels.shape[1]
            if channels != self._channels:
                yield from self._emit(0)
                self._channels, self._choice = channels, PLAIN
            if isinstance(block, np.ndarray) or channels == 1:
                self._position += len(block)
                yield block if isinstance(block, np.ndarray) else block.mixed
            else:
                self._held.append(block)
                self._length += len(block)
                yield from self._emit(LOOK_AHEAD)
        yield from self._emit(0)

    def _emit(self, look_ahead: int) -> Iterator[Samples]:
        """Yield the held cells that have their look-ahead; all for 0."""
        while self._length and (not look_ahead or self._length >= self._rest() + look_ahead):
            block = ChannelBlock.joined(self._held)
            end = min(self._rest(), len(block))
            before = PLAIN if self._begins_period() else self._choice
            if self._position + end > self._first:
                self._choice = choose(block.part(0, end + LOOK_AHEAD), before, count_speech)
            self._held = [block.part(end)] if end < len(block) else []
            self._length -= end
            mixed = _mix(block.part(0, end), before, self._choice, fade=not self._begins_period())
            self._note(end)
            self._position += end
            for start in range(0, end, BLOCK):
                yield mixed[start : start + BLOCK]

    def _rest(self) -> int:
        """Return the samples from the position to the end of its cell."""
        since, left = _in_period(self._position)
        return min(CELL - since % CELL, left)

    def _begins_period(self) -> bool:
        return not _in_period(self._position)[0]

    def _note(self, length: int) -> None:
        if self._notices and self._choice.text:
            start = to_seconds(max(self._position, self._first))
            end = to_seconds(self._position + length)
            self._notices.add("channels", start, end, self._choice.text)


def _in_period(position: int) -> tuple[int, int]:
    """Return the samples since the start of the period, and those until its end."""
    if position < SECTION - WARM_UP:
        return position, SECTION - WARM_UP - position
    since = (position + WARM_UP) % SECTION
    return since, SECTION - since


def _mix(block: ChannelBlock, before: Choice, choice: Choice, *, fade: bool) -> Samples:
    """Return a mix, with a short transition from the mix before."""
    samples = _weigh(block, choice)
    if fade and before.weights != choice.weights:
        length = min(FADE, len(block))
        ramp = np.linspace(0, 1, length, dtype=np.float32)
        earlier = _weigh(block.part(0, length), before)
        samples = samples.copy()
        samples[:length] = earlier + ramp * (samples[:length] - earlier)
    return samples


def _weigh(block: ChannelBlock, choice: Choice) -> Samples:
    if choice.weights is None:
        return block.mixed
    weights = np.array(choice.weights, np.float32)
    samples: Samples = block.channels @ weights
    return samples


def mix(
    blocks: Iterable[Samples], notices: Notices | None = None, position: int = 0
) -> Iterator[Samples]:
    """Yield the mix of all channels.

    Args:
        blocks: shape (n_samples,), or (n_samples, n_channels), whose plain mix is the mean.
        notices: of the recording; None if it has been read before.
        position: first sample of `blocks`, counted in the recording.
    """
    return Mixer(notices, position)(
        ChannelBlock.of(block) if block.ndim > 1 else block for block in blocks
    )
