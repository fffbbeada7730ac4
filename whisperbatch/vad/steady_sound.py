r"""Remove steady sound from audio where it is most of the sound: mains hum, tones, fans, rumble.

    spectrum of 4 s     |  |  |  | _..-''-..  |         spectrum of a steady sound with speech
    lowest quarter      |  |  |  |____________|         the power that is always there
    filter             ‾\/‾\/‾\/‾‾‾‾‾‾‾‾‾‾‾‾‾‾\/‾       attenuates the peaks and loud bands of it

Silero takes speech under a louder steady sound for part of this sound. Whisper reads speech under
50 Hz hum, but not under the buzz of a telephone or a tone of 400 Hz. The result is input for the
speech detector and for the features, and shows where the audio is quiet. Audio in which no such
sound is louder than everything else stays exactly as it is.

Source: minimum statistics (Martin 2001, "Noise power spectral density estimation based on optimal
smoothing and minimum statistics"), with a quantile instead of the minimum (Stahl, Fischer and
Bippus 2000). Spectral subtraction after the filter was tried: it found more speech under an engine,
and less under rumble.

`CleanedVad` detects speech under a louder steady sound, because it also hears the audio without it.

    audio       ....[= hum, with speech =]......
    first run   probabilities of the audio as it is
    second run  ..~~[====================]~.        without the hum; only where there is hum
    result      the higher of both

Where no steady sound is most of the audio, the probabilities are exactly those of the first run.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from whisperbatch.protocols import Vad
from whisperbatch.types import SAMPLING_RATE, Samples, SpeechFrames
from whisperbatch.vad.levels import around_quantile, joined, reblock

# Samples (256 ms) of a spectrum: the harmonics of 50 Hz hum are 13 of its bins apart.
LONG_FRAME: Final = 4096
LONG_HOP: Final = LONG_FRAME // 2
GATE_FRAME: Final = 2048  # samples (128 ms): rumble of 20 Hz has several periods in it

QUANTILE: Final = 0.25  # of the powers of a bin: the power that is nearly always there
NOISE_QUANTILE: Final = 0.288  # this quantile of the power of noise, in units of its mean
# Steady part of the total power. Speech has 0.02 to 0.2 in most blocks. Silero loses speech from
# 0.8 on (the buzz of a mobile telephone), or 0.94 (hum, rumble).
MIN_STEADY: Final = 0.6
# Long frames in one Fourier transform: the arrays take 131 KB. With all 31 frames of a part in one
# transform, the system must map 1.3 MB each time, which takes twice as long as the transform.
FRAMES_AT_ONCE: Final = 8
# Bins below 2 kHz. In 20 minutes of clean speech they alone show for 130 of 132 parts that no
# steady sound is most of the power.
FIRST_BINS: Final = 512
ROUNDING: Final = 1e-3  # of a share of the power; float32 sums are exact to about 1e-6
# Lowest quarter of the total powers, in units of their mean: with less, no sound can be that
# steady, and the spectra are not computed.
MIN_GATE: Final = 0.35
# Mean square, -60 dBFS: the noise of pauses, at -64 dBFS and less, is steady in good recordings.
MIN_POWER: Final = 1e-6
# Mean power of a part, in units of that of the audio around it: with less, the part is a pause.
MIN_SHARE: Final = 0.1
NEIGHBOURS: Final = 40  # bins (156 Hz) on each side, whose quiet bins are the reference of a bin
REFERENCE_QUANTILE: Final = 0.3
REFERENCE_STEP: Final = 8  # bins
PEAK_WIDTH: Final = 3  # bins on each side of a peak: the main lobe of the window, and drift
LOWEST_SPEECH: Final = 200  # Hz; steady sound below is reduced to its level there
# Hz: the quiet part of this band, which telephones transmit, too, shows how loud steady sound may
# be elsewhere. Noise of 100 to 700 Hz, 18 and 24 dB louder than speech: 93 % of the speech is
# detected, without this limit none.
SPEECH_BAND: Final = (300, 3200)
FLAT_BELOW: Final = 500  # Hz; above, the spectrum of speech falls by 6 dB per octave
SPEECH_MARGIN: Final = 10.0  # times the power of this shape
SMOOTHING: Final = 41  # bins (160 Hz) of the mean that is compared with this limit
MIN_GAIN: Final = 1e-3  # of a filter
# Part of the steady power that the filter must leave at most (-8 dB): with more, the audio stays as
# it is. Hum, tones, engines, fans and rumble: -9 to -58 dB. White and pink noise, rain, a cafe, a
# crowd: -1 to -7 dB; both Silero and Whisper know such noise, and a filter cannot divide it.
MAX_REMAINDER: Final = 0.16

WINDOW: Final = np.hanning(LONG_FRAME + 1)[:-1].astype(np.float32)
NO_POWERS: Final = np.zeros((0, LONG_FRAME // 2 + 1), np.float32)

Spectrum = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class CleanedBlock:
    """A block of audio.

    Attributes:
        samples: as they were given.
        cleaned: the samples without steady sound; None if the block has no such sound.
    """

    samples: Samples
    cleaned: Samples | None


def remove_steady_sound(blocks: Iterable[Samples]) -> Iterator[CleanedBlock]:
    """Yield each block with its samples without steady sound.

    A block depends on itself, on the block before it and on the block after it. These are held.

    Args:
        blocks: from `reblock`.
    """
    previous: _Block | None = None
    before: _Part | None = None  # the previous block and the block before it
    for block in map(_Block, blocks):
        if previous is not None:
            after = _Part(previous, block)
            yield _clean(previous.samples, before, after)
            before = after
        previous = block
    if previous is not None:
        yield _clean(previous.samples, before or _Part(previous), None)


def without_steady_sound(samples: Samples) -> Samples:
    """Return the samples of a stretch without steady sound; the same array if there is none."""
    blocks = list(remove_steady_sound(reblock([samples])))
    if all(block.cleaned is None for block in blocks):
        return samples
    return np.concatenate([b.samples if b.cleaned is None else b.cleaned for b in blocks])


class _Block:
    """A block, measured once for both parts that contain it.

    Attributes:
        samples: shape (n_samples,).
        energies: sum of squares of each complete frame of `GATE_FRAME` samples.
    """

    def __init__(self, samples: Samples) -> None:
        self.samples = samples
        frames = samples[: len(samples) // GATE_FRAME * GATE_FRAME].reshape(-1, GATE_FRAME)
        self.energies: Samples = np.einsum("ij,ij->i", frames, frames)
        self._powers: npt.NDArray[Any] | None = None

    @property
    def powers(self) -> npt.NDArray[Any]:
        """The powers of the long frames that lie within the block; see `_powers`."""
        if self._powers is None:
            self._powers = _powers(self.samples)
        return self._powers


class _Part:
    """A block, or two blocks that follow each other; only the last may end within a gate frame.

    Attributes:
        may_be_steady: whether steady sound can be most of the part.
    """

    def __init__(self, *blocks: _Block) -> None:
        self._blocks = blocks
        energies = np.concatenate([block.energies for block in blocks])
        length = sum(len(block.samples) for block in blocks)
        self.may_be_steady = length >= LONG_FRAME + LONG_HOP and _are_even(energies)
        self._samples: Samples | None = None
        self._steady: Spectrum | None = None
        self._measured = False

    @property
    def samples(self) -> Samples:
        """The samples of the part, shape (n_samples,); joined once."""
        if self._samples is None:
            self._samples = joined([block.samples for block in self._blocks])
        return self._samples

    def steady(self, min_power: float) -> Spectrum | None:
        """Return the steady power of each bin.

        It is computed once. (`cached_property` has a lock that all threads share before Python
        3.12, and a fork would copy the lock while another thread holds it.)

        Args:
            min_power: mean square of a part that is no pause.

        Returns:
            None if steady sound is not most of the power, or the part is a pause.
        """
        if not self.may_be_steady or _mean_power(self.samples) < min_power:
            return None
        if not self._measured:
            self._measured = True
            self._steady = _steady_spectrum(self._joined_powers())
        return self._steady

    def _joined_powers(self) -> npt.NDArray[Any]:
        """Return the powers of all long frames, with those in which the next block begins."""
        parts = [self._blocks[0].powers]
        for block, following in pairwise(self._blocks):
            border = (block.samples[-LONG_HOP:], following.samples[:LONG_HOP])
            parts += [_powers(np.concatenate(border)), following.powers]
        return np.concatenate(parts)


def _clean(block: Samples, before: _Part | None, after: _Part | None) -> CleanedBlock:
    """Return a block without the steady sound of the parts that contain the block.

    Args:
        block: the last block of `before`, and the first of `after`.
        before: None at the start of the audio.
        after: None at the end of the audio.
    """
    parts = [part for part in (before, after) if part]
    if not any(part.may_be_steady for part in parts):
        return CleanedBlock(block, None)
    earlier = before.samples[: len(before.samples) - len(block)] if before else block[:0]
    later = after.samples[len(block) :] if after else block[:0]
    audio = np.concatenate((earlier, block, later))
    min_power = max(MIN_POWER, MIN_SHARE * _mean_power(audio))
    found = [part.steady(min_power) for part in parts]
    spectra = [steady for steady in found if steady is not None]
    gains = _filter_gains(np.max(spectra, axis=0)) if spectra else None
    if gains is None:
        return CleanedBlock(block, None)
    first = max(len(earlier) - LONG_HOP, 0)
    end = len(earlier) + len(block)
    filtered = _filter(audio[first : end + LONG_HOP], gains)[len(earlier) - first :]
    return CleanedBlock(block, filtered[: len(block)])


def _mean_power(samples: Samples) -> float:
    return float(np.dot(samples, samples)) / len(samples)


def _are_even(energies: Samples) -> bool:
    """Return whether energies of frames are even enough that steady sound can be most of them."""
    count = int(QUANTILE * len(energies))
    return bool(np.partition(energies, count)[count] >= MIN_GATE * energies.mean() > 0)


def _steady_spectrum(powers: npt.NDArray[Any]) -> Spectrum | None:
    """Return the steady power of each bin; None if it is not most of the power.

    Args:
        powers: of long frames, at least one; shape (n_frames, n_bins).
    """
    mean = powers.mean(axis=0)
    # Most of the power of speech is in the lowest bins. If it varies there, the quantiles of the
    # other bins are not needed.
    lowest = _steady_power(powers[:, :FIRST_BINS], mean[:FIRST_BINS])
    most = lowest.sum() + mean[FIRST_BINS:].sum(dtype=np.float64)  # nothing else can be steadier
    if most < (MIN_STEADY - ROUNDING) * mean.sum():
        return None
    rest = _steady_power(powers[:, FIRST_BINS:], mean[FIRST_BINS:])
    steady = np.concatenate((lowest, rest))
    return steady if steady.sum() >= MIN_STEADY * mean.sum() else None


def _powers(samples: Samples) -> npt.NDArray[Any]:
    """Return the power of each bin of each long frame, shape (n_frames, n_bins)."""
    if len(samples) < LONG_FRAME:
        return NO_POWERS
    frames = np.lib.stride_tricks.sliding_window_view(samples, LONG_FRAME)[::LONG_HOP]
    powers = []
    for start in range(0, len(frames), FRAMES_AT_ONCE):
        spectrum = np.fft.rfft(frames[start : start + FRAMES_AT_ONCE] * WINDOW)
        powers.append(np.square(spectrum.real) + np.square(spectrum.imag))
    return np.concatenate(powers)


def _steady_power(powers: npt.NDArray[Any], mean: npt.NDArray[Any]) -> Spectrum:
    """Return the power of each bin that is nearly always there.

    Args:
        powers: shape (n_frames, n_bins).
        mean: of the powers of each bin; the limit of the result.
    """
    lower, upper, share = around_quantile(powers, QUANTILE)
    quantile = lower + share * (upper - lower)
    steady: Spectrum = np.minimum(quantile / NOISE_QUANTILE, mean).astype(np.float64)
    return steady


def _filter_gains(steady: Spectrum) -> Spectrum | None:
    """Return the factors of the bins that reduce steady peaks to the level around them.

    None if these factors leave more than `MAX_REMAINDER` of the steady power.
    """
    window = np.lib.stride_tricks.sliding_window_view
    around = window(np.pad(steady, NEIGHBOURS, mode="reflect"), 2 * NEIGHBOURS + 1)
    positions = np.arange(0, len(steady), REFERENCE_STEP)
    count = int(REFERENCE_QUANTILE * around.shape[1])
    quiet = np.partition(around[positions], count, axis=1)[:, count]
    reference = np.interp(np.arange(len(steady)), positions, quiet)
    first = LOWEST_SPEECH * LONG_FRAME // SAMPLING_RATE
    reference[:first] = np.minimum(reference[:first], reference[first])
    peaks = window(np.pad(steady, PEAK_WIDTH, mode="edge"), 2 * PEAK_WIDTH + 1).max(axis=1)
    powers = np.minimum(reference / np.maximum(peaks, 1e-20), 1.0)
    gains: Spectrum = np.sqrt(powers * _band_gains(steady * powers))
    if np.square(gains).dot(steady) > MAX_REMAINDER * steady.sum():
        return None
    return np.maximum(gains, MIN_GAIN)


def _band_gains(steady: Spectrum) -> Spectrum:
    """Return the factors of the powers that reduce loud bands of a spectrum without peaks."""
    hertz = np.fft.rfftfreq(LONG_FRAME, 1 / SAMPLING_RATE)
    shape = (FLAT_BELOW / np.maximum(hertz, FLAT_BELOW)) ** 2
    band = (hertz >= SPEECH_BAND[0]) & (hertz < SPEECH_BAND[1])
    count = int(REFERENCE_QUANTILE * np.count_nonzero(band))
    limit = SPEECH_MARGIN * np.partition((steady / shape)[band], count)[count] * shape
    padded = np.pad(steady, SMOOTHING // 2, mode="edge")
    smooth = np.lib.stride_tricks.sliding_window_view(padded, SMOOTHING).mean(axis=1)
    factors: Spectrum = np.minimum(limit / np.maximum(smooth, 1e-20), 1.0)
    return factors


def _filter(samples: Samples, gains: Spectrum) -> Samples:
    """Return the samples, filtered without delay with the factors of the bins of a long frame."""
    response = np.roll(np.fft.irfft(gains), LONG_HOP) * WINDOW
    size = len(samples) + LONG_FRAME
    spectrum = np.fft.rfft(samples, size) * np.fft.rfft(response, size)
    filtered: Samples = np.fft.irfft(spectrum, size)[LONG_HOP:][: len(samples)].astype(np.float32)
    return filtered


BLOCKS_BEFORE: Final = 2  # of the audio as it is, with which a second run begins: its state settles
BLOCKS_AFTER: Final = 2  # with which a second run ends, for its gain control


class CleanedVad:
    """A wrapper of a Vad that finds speech under steady sound.

    Args:
        vad: yields blocks of `levels.BLOCK` samples, and only the last may be shorter.
    """

    def __init__(self, vad: Vad) -> None:
        self._vad = vad
        self.hop = vad.hop

    def __call__(self, blocks: Iterable[Samples]) -> Iterator[SpeechFrames]:
        """See `protocols.Vad`. Holds a block more than the inner Vad."""
        source = _Source(remove_steady_sound(reblock(blocks)))
        second: Iterator[SpeechFrames] | None = None
        for number, frames in enumerate(self._vad(source.samples())):
            block = source.block(number)
            if block is None or block.cleaned is None:
                second = None
                yield frames
            else:
                if second is None:
                    first = max(number - BLOCKS_BEFORE, 0)
                    second = self._vad(source.cleaned(first))
                    for _ in range(first, number):
                        next(second)
                clear = next(second).probabilities
                probabilities = np.maximum(frames.probabilities, clear)
                yield replace(frames, probabilities=probabilities, cleaned=block.cleaned)
            source.discard(number - BLOCKS_BEFORE)


class _Source:
    """The latest blocks, which two runs of a Vad read at different positions."""

    def __init__(self, blocks: Iterator[CleanedBlock]) -> None:
        self._blocks = blocks
        self._stored: deque[CleanedBlock] = deque()
        self._first = 0  # number of the first stored block

    def block(self, number: int) -> CleanedBlock | None:
        """Return a block that was not discarded; None after the last."""
        while number >= self._first + len(self._stored):
            block = next(self._blocks, None)
            if block is None:
                return None
            self._stored.append(block)
        return self._stored[number - self._first]

    def discard(self, before: int) -> None:
        """Forget the blocks before a block."""
        while self._first < before and self._stored:
            self._stored.popleft()
            self._first += 1

    def samples(self) -> Iterator[Samples]:
        """Yield the samples of all blocks."""
        number = 0
        while block := self.block(number):
            yield block.samples
            number += 1

    def cleaned(self, number: int) -> Iterator[Samples]:
        """Yield the samples without steady sound, from a block on to the end of this sound."""
        last_cleaned: int | None = None
        while block := self.block(number):
            if block.cleaned is not None:
                last_cleaned = number
            elif last_cleaned is not None and number > last_cleaned + BLOCKS_AFTER:
                return
            yield block.samples if block.cleaned is None else block.cleaned
            number += 1
