r"""Levels for the VAD: `GainControlledVad` raises faint audio, `CalibratedVad` low probabilities.

All parts of the VAD get blocks of one size, so that results do not depend on the input's blocks.

Faint audio is raised to a common level before the VAD, so that faint speech is detected. Silero's
network keeps state from frame to frame. For ten seconds and more after loud speech, it
takes speech that is 30 dB fainter for silence. Therefore the network gets the audio raised to one
level, which is measured as the loudest VAD frame around each VAD frame. The output contains the
unchanged audio.

    level   ^^^^^^\______/^^^^^
    gain    ______/^^^^^^\_____

Probabilities are raised on recordings where even clear speech gets low ones. Silero gives clear
speech a probability of 0.98 and more, also under noise, music and clipping. With
the narrow band of a telephone it does not: its highest probabilities are 0.73 there, and a fifth of
the speech stays below 0.5. The difference between the highest probabilities of a
recording and 0.98 shows how much to raise them.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from whisperbatch.protocols import Vad
from whisperbatch.types import SAMPLING_RATE, Samples, SpeechFrames, to_samples

FRAME: Final = 512  # samples, 32 ms: the VAD frame that Silero's network was trained on
BLOCK: Final = 64 * FRAME  # samples, 2 s: as fast as larger blocks, and the first is ready sooner


TARGET_LEVEL: Final = -20.0  # dBFS of the loudest VAD frame within LEVEL_FRAMES
MAX_GAIN: Final = 30.0  # decibels: the noise of a quiet room stays below speech
MIN_POWER: Final = 1e-10  # mean square of a silent VAD frame: -100 dB
LEVEL_FRAMES: Final = BLOCK // FRAME  # VAD frames (2 s) before and after, that set the level
SMOOTHING_FRAMES: Final = 15  # VAD frames (0.5 s) before and after, for the mean of the gain
CONTEXT_BLOCKS: Final = 2  # blocks before and after a block that its gain depends on

Levels = npt.NDArray[np.float64]  # dBFS of each VAD frame

# Samples before a block, and after it. With 15 s, normal voices before and after a hoarse or
# whispered voice hide its low probabilities: 114 s (development half) and 111 s (test half) of
# difficult voices were rejected, now 83 and 77 s; with 5 s, 89 and 84 s. Music and noise are not
# accepted more often (docs/reference/constants.md).
CALIBRATION_WINDOW: Final = to_samples(7.5)
TARGET_LOGIT: Final = 3.9  # of the highest probabilities: logit of 0.98
MIN_SPEECH: Final = 0.1  # VAD frames with a lower probability are not speech
CLEAR_SPEECH: Final = 0.5  # VAD frames with this probability or more certainly are speech
MIN_CLEAR_SPEECH: Final = 2 * SAMPLING_RATE  # samples; with less, probabilities are not raised
SHIFT_SHARE: Final = 0.75  # the part of the difference to the target that is added
MAX_SHIFT: Final = 3.0  # the largest addition, as a logit


def reblock(blocks: Iterable[Samples]) -> Iterator[Samples]:
    """Yield the same audio in blocks of `BLOCK` samples; the last may be shorter, never empty."""
    held: list[Samples] = []
    length = 0
    for block in blocks:
        if length or len(block) != BLOCK:
            held.append(block)
            length += len(block)
        else:
            yield block
        if length >= BLOCK:
            audio = joined(held)
            end = length - length % BLOCK  # of the last complete block
            for start in range(0, end, BLOCK):
                yield audio[start : start + BLOCK]
            held, length = [audio[end:]], length - end
    if length:
        yield joined(held)


def joined(parts: Sequence[Samples]) -> Samples:
    """Return successive samples, at least one array, as one array; a single array is not copied."""
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def take(held: deque[Samples], count: int) -> Samples:
    """Remove the first `count` samples of blocks that hold at least as many, and return them."""
    parts: list[Samples] = []
    while count:
        samples = held.popleft()
        if len(samples) > count:
            held.appendleft(samples[count:])
        parts.append(samples[:count])
        count -= len(parts[-1])
    return joined(parts) if parts else np.zeros(0, np.float32)


class GainControlledVad:
    """A wrapper of a Vad that raises quiet audio to one level. Audio is never attenuated."""

    def __init__(self, vad: Vad) -> None:
        self._vad = vad
        self.hop = vad.hop

    def __call__(self, blocks: Iterable[Samples]) -> Iterator[SpeechFrames]:
        """See `protocols.Vad`. Holds about 4 s before and after the block that it yields."""
        unchanged: deque[Samples] = deque()  # samples that the Vad has read, but not yielded

        def amplified() -> Iterator[Samples]:
            for samples, gain in _with_gains(reblock(blocks)):
                unchanged.append(samples)
                yield samples if gain is None else samples * gain

        for frames in self._vad(amplified()):
            yield replace(frames, samples=take(unchanged, len(frames.samples)))


def _with_gains(blocks: Iterable[Samples]) -> Iterator[tuple[Samples, Samples | None]]:
    held: deque[tuple[Samples, Levels]] = deque()  # the current block, CONTEXT_BLOCKS on each side
    current = 0
    for samples in blocks:
        held.append((samples, frame_levels(samples)))
        if len(held) - current > CONTEXT_BLOCKS:
            yield _with_gain(held, current)
            if current == CONTEXT_BLOCKS:
                held.popleft()
            else:
                current += 1
    for index in range(current, len(held)):
        yield _with_gain(held, index)


def _with_gain(
    held: Iterable[tuple[Samples, Levels]], index: int
) -> tuple[Samples, Samples | None]:
    """Return a block with the factor of each sample; None if no sample is raised."""
    blocks = list(held)[max(index - CONTEXT_BLOCKS, 0) :]
    index = min(index, CONTEXT_BLOCKS)
    samples, own_levels = blocks[index]
    levels = np.concatenate([block_levels for _, block_levels in blocks])
    first_frame = sum(len(block_levels) for _, block_levels in blocks[:index])
    # the factors need the smooth gains of the frame before the block and of the frame after it
    first = max(first_frame - 1 - SMOOTHING_FRAMES, 0)
    end = min(first_frame + len(own_levels) + 1 + SMOOTHING_FRAMES, len(levels))
    loudest = _around(levels, LEVEL_FRAMES, first, end).max(axis=1)
    gains = np.minimum(np.maximum(TARGET_LEVEL - loudest, 0.0), MAX_GAIN)
    if not gains.any():
        return samples, None
    smooth = _around(gains, SMOOTHING_FRAMES, 0, len(gains)).mean(axis=1)
    return samples, _factors(smooth, first_frame - first, len(samples))


def _around(values: Levels, count: int, first: int, end: int) -> Levels:
    """Return `count` values on each side of the values from `first` to before `end`, and these.

    Before the first value and after the last, these are repeated. Shape (end - first,
    2 * count + 1).
    """
    before, after = max(count - first, 0), max(end + count - len(values), 0)
    part = values[max(first - count, 0) : end + count]
    if before or after:
        part = np.concatenate((np.full(before, values[0]), part, np.full(after, values[-1])))
    return np.lib.stride_tricks.sliding_window_view(part, 2 * count + 1)


def _factors(gains: Levels, first_frame: int, count: int) -> Samples:
    """Return the factor of each sample: the gain changes linearly between the centres of frames.

    Args:
        gains: of VAD frames, in decibels.
        first_frame: the frame in which the samples begin.
        count: number of samples.
    """
    frames = np.arange(first_frame - 1, first_frame + -(-count // FRAME) + 1)
    own = gains.take(frames, mode="clip") * (np.log(10) / 20)
    factors = np.multiply.outer(np.diff(own), np.arange(FRAME) / FRAME)
    factors += own[:-1, None]
    np.exp(factors, out=factors)
    first = FRAME // 2  # sample after the centre of the frame before
    result: Samples = factors.ravel()[first : first + count].astype(np.float32)
    return result


def frame_levels(samples: Samples) -> Levels:
    """Return the level of each VAD frame in dBFS; the last frame may be shorter."""
    starts = np.arange(0, len(samples), FRAME)
    squares = np.add.reduceat(np.square(samples, dtype=np.float64), starts)
    counts = np.minimum(len(samples) - starts, FRAME)
    return 10 * np.log10(np.maximum(squares / counts, MIN_POWER))


class CalibratedVad:
    """A wrapper of a Vad that raises the probabilities of unclear speech.

    The audio before a block and the audio after it are examined separately. Therefore a caller on
    the telephone is detected next to a host in the studio.
    """

    def __init__(self, vad: Vad) -> None:
        self._vad = vad
        self.hop = vad.hop

    def __call__(self, blocks: Iterable[Samples]) -> Iterator[SpeechFrames]:
        """See `protocols.Vad`. Holds about 7.5 s before and after the block that it yields."""
        held: deque[SpeechFrames] = deque()
        current = 0  # index in `held` of the next block to yield
        samples_ahead = 0  # samples of that block and of the blocks after it
        for frames in self._vad(blocks):
            held.append(frames)
            samples_ahead += len(frames.samples)
            while samples_ahead - len(held[current].samples) >= CALIBRATION_WINDOW:
                samples_ahead -= len(held[current].samples)
                yield self._calibrate(held, current)
                current += 1
                while sum(len(held[n].samples) for n in range(1, current)) >= CALIBRATION_WINDOW:
                    held.popleft()
                    current -= 1
        for index in range(current, len(held)):
            yield self._calibrate(held, index)

    def _calibrate(self, held: Iterable[SpeechFrames], index: int) -> SpeechFrames:
        blocks = list(held)
        frames = blocks[index]
        probabilities = [block.probabilities for block in blocks]
        before = np.concatenate(probabilities[: index + 1])
        after = np.concatenate(probabilities[index:])
        shift = max(calibration_shift(before, self.hop), calibration_shift(after, self.hop))
        return replace(frames, probabilities=shifted(frames.probabilities, shift))


def calibration_shift(probabilities: npt.NDArray[np.float32], hop: int) -> float:
    """Return the value to add to the logits of probabilities; 0 without enough clear speech.

    Args:
        probabilities: of consecutive VAD frames, shape (n_frames,).
        hop: samples per VAD frame.
    """
    if np.count_nonzero(probabilities >= CLEAR_SPEECH) * hop < MIN_CLEAR_SPEECH:
        return 0.0
    highest = float(quantile_of(probabilities[probabilities >= MIN_SPEECH], 0.9))
    logit = float(np.log(highest / max(1 - highest, 1e-6)))
    return min(max(SHIFT_SHARE * (TARGET_LOGIT - logit), 0.0), MAX_SHIFT)


def quantile_of(values: npt.NDArray[np.float32], quantile: float) -> np.floating[Any]:
    """Return what `np.quantile` returns, in a fraction of its time.

    Args:
        values: shape (n,), at least one.
        quantile: from 0 to 1.
    """
    lower, upper, share = around_quantile(values, quantile)
    difference = upper - lower
    # from the nearer value: rounding never leads beyond it
    is_lower = share < 0.5  # noqa: PLR2004 - half
    result: np.floating[Any]
    result = lower + difference * share if is_lower else upper - difference * (1 - share)
    return result


def around_quantile(
    values: npt.NDArray[Any], quantile: float
) -> tuple[npt.NDArray[Any], npt.NDArray[Any], float]:
    """Return the values between which a quantile lies, and its place between them, from 0 to 1.

    Args:
        values: shape (n,), or (n, n_columns) for the quantile of each column; n is at least 1.
        quantile: from 0 to 1.
    """
    position = quantile * (len(values) - 1)
    count = int(position)
    upper = min(count + 1, len(values) - 1)
    # with two places to sort, NumPy does not use vector instructions
    lowest = np.partition(values, upper, axis=0)
    return lowest[: count + 1].max(axis=0), lowest[upper], position - count


def shifted(probabilities: npt.NDArray[np.float32], shift: float) -> npt.NDArray[np.float32]:
    """Return probabilities with a value added to their logits."""
    if not shift:
        return probabilities
    clipped = np.clip(probabilities, 1e-6, 1 - 1e-6).astype(np.float64)
    raised: npt.NDArray[np.float32] = (1 / (1 + (1 / clipped - 1) * np.exp(-shift))).astype(
        np.float32
    )
    return raised
