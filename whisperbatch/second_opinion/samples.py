"""Find sound in which neither the VAD nor the noise floor shows any speech: the model samples it.

    level    ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~    even, loud, without speech
    sample      [------ 24 s ------]                one for each section, more if it has text

Noise can hide speech from the VAD, and from the stretches that rise above the noise floor.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np

from whisperbatch.second_opinion.stretches import MAX_STRETCH, MIN_LEVEL, MIN_STRETCH, Stretch
from whisperbatch.types import SpeechFrames

MIN_POWER: Final = 10 ** (MIN_LEVEL / 10)  # mean square of a block with sound


class SampleFinder:
    """Takes the blocks of a clip in order, and yields ranges without any sign of speech.

    Args:
        vad_onset: frames with this probability or more are speech.
        hop: samples per VAD frame.

    Attributes:
        wanted: whether another sample is wanted; False after each sample.
        settled: the first frame that can still belong to a sample.
    """

    def __init__(self, vad_onset: float, hop: int) -> None:
        self._vad_onset, self._hop = vad_onset, hop
        self._frame = 0
        self._found_none = True  # no speech and no stretch in the clip so far
        self.wanted = True
        self.settled = 0

    def push(self, block: SpeechFrames, *, in_stretch: bool) -> Iterator[Stretch]:
        """Add a block, and yield the sample that ends with it, if any.

        Args:
            block: VAD frames of the clip.
            in_stretch: whether sound that rises above the noise floor has begun.
        """
        self._frame += len(block.probabilities)
        power = float(np.mean(np.square(block.samples))) if len(block.samples) else 0.0
        has_speech = bool((block.probabilities >= self._vad_onset).any())
        self._found_none &= not (has_speech or in_stretch)
        if has_speech or in_stretch or power < MIN_POWER or not self.wanted:
            self.settled = self._frame
        elif (self._frame - self.settled) * self._hop >= MAX_STRETCH - len(block.samples):
            yield self._sample()

    def finish(self) -> Iterator[Stretch]:
        """Yield a shorter sample at the end of a clip in which nothing was found."""
        long_enough = (self._frame - self.settled) * self._hop >= MIN_STRETCH
        if self._found_none and self.wanted and long_enough:
            yield self._sample()

    def _sample(self) -> Stretch:
        start, self.settled, self.wanted = self.settled, self._frame, False
        end = min(self._frame, start + MAX_STRETCH // self._hop)
        return Stretch(start, end, ((start, end),))
