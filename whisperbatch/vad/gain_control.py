r"""A Vad that hears faint speech as loud as any other.

Silero's network carries its state along, and after loud speech it takes speech 30 dB below for
silence, for ten seconds and more. So it is given the audio raised to one level, by what is loudest
around each frame; what it gives back goes with the audio as it was.

    level   ^^^^^^\______/^^^^^
    gain    ______/^^^^^^\_____
"""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt

from whisperbatch.protocols import Vad
from whisperbatch.types import Samples, SpeechFrames
from whisperbatch.vad.framing import BLOCK, FRAME, reblock

TARGET: Final = -20.0  # dBFS of the loudest frame around
MOST: Final = 30.0  # decibels of gain: the noise of a quiet room stays below speech
FLOOR: Final = 1e-10  # mean square of a silent frame: -100 dB
AROUND: Final = BLOCK // FRAME  # frames before and after one, 2 s, of which the loudest counts
SMOOTH: Final = 15  # frames before and after, half a second, over which the gain is averaged
BESIDE: Final = 2  # blocks before and after one that its gain depends on

Levels = npt.NDArray[np.float64]


class GainControlledVad:
    """Another Vad, which hears the audio at one level. Quiet audio is raised, none is lowered."""

    def __init__(self, vad: Vad) -> None:
        self._vad = vad
        self.hop = vad.hop

    def __call__(self, blocks: Iterable[Samples]) -> Iterator[SpeechFrames]:
        """See `protocols.Vad`. Holds some 4 s before and after what it gives."""
        heard: deque[Samples] = deque()

        def raised() -> Iterator[Samples]:
            for samples, gain in _with_gains(reblock(blocks)):
                heard.append(samples)
                yield samples * gain

        for frames in self._vad(raised()):
            count = len(frames.samples)
            taken = [np.zeros(0, np.float32)]
            while count:
                samples = heard.popleft()
                if len(samples) > count:
                    heard.appendleft(samples[count:])
                taken.append(samples[:count])
                count -= len(taken[-1])
            yield replace(frames, samples=np.concatenate(taken))


def _with_gains(blocks: Iterable[Samples]) -> Iterator[tuple[Samples, Samples]]:
    """Each block with the factor for each of its samples."""
    held: deque[tuple[Samples, Levels]] = deque()  # up to twice BESIDE, and the one between
    current = 0
    for samples in blocks:
        held.append((samples, _levels(samples)))
        if len(held) - current > BESIDE:
            yield _with_gain(held, current)
            if current == BESIDE:
                held.popleft()
            else:
                current += 1
    for number in range(current, len(held)):
        yield _with_gain(held, number)


def _with_gain(held: Iterable[tuple[Samples, Levels]], number: int) -> tuple[Samples, Samples]:
    known = list(held)[max(number - BESIDE, 0) :]
    before = np.concatenate([np.zeros(0), *(levels for _, levels in known[: min(number, BESIDE)])])
    samples, own = known[min(number, BESIDE)]
    after = [levels for _, levels in known[min(number, BESIDE) + 1 :]]
    levels = np.concatenate([before, own, *after])
    window = np.lib.stride_tricks.sliding_window_view
    loudest = window(np.pad(levels, AROUND, mode="edge"), 2 * AROUND + 1).max(axis=1)
    gains = np.clip(TARGET - loudest, 0.0, MOST)
    smooth = window(np.pad(gains, SMOOTH, mode="edge"), 2 * SMOOTH + 1).mean(axis=1)
    middles = (np.arange(len(smooth)) - len(before)) * FRAME + FRAME / 2
    decibels = np.interp(np.arange(len(samples)), middles, smooth)
    return samples, (10 ** (decibels / 20)).astype(np.float32)


def _levels(samples: Samples) -> Levels:
    """Of each frame, in dBFS; the last may be shorter."""
    squares = np.add.reduceat(np.square(samples, dtype=np.float64), range(0, len(samples), FRAME))
    counts = np.diff([*range(0, len(samples), FRAME), len(samples)])
    return 10 * np.log10(np.maximum(squares / counts, FLOOR))
