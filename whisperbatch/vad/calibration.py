"""Raise the VAD's probabilities on recordings where even clear speech gets low probabilities.

Silero gives clear speech a probability of 0.98 and more, also under noise, music and clipping. With
the narrow band of a telephone it does not: its highest probabilities are 0.73 there, and a fifth of
the speech stays below 0.5. The difference between the highest probabilities of a
recording and 0.98 shows how much to raise them.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt

from whisperbatch.protocols import Vad
from whisperbatch.types import SAMPLING_RATE, Samples, SpeechFrames, to_samples

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
                yield self._calibrated(held, current)
                current += 1
                while sum(len(held[n].samples) for n in range(1, current)) >= CALIBRATION_WINDOW:
                    held.popleft()
                    current -= 1
        for index in range(current, len(held)):
            yield self._calibrated(held, index)

    def _calibrated(self, held: Iterable[SpeechFrames], index: int) -> SpeechFrames:
        blocks = list(held)
        frames = blocks[index]
        probabilities = [block.probabilities for block in blocks]
        shift = max(self._shift(probabilities[: index + 1]), self._shift(probabilities[index:]))
        if not shift:
            return frames
        clipped = np.clip(frames.probabilities, 1e-6, 1 - 1e-6).astype(np.float64)
        raised = 1 / (1 + (1 / clipped - 1) * np.exp(-shift))
        return replace(frames, probabilities=raised.astype(np.float32))

    def _shift(self, blocks: Sequence[npt.NDArray[np.float32]]) -> float:
        """Return the value to add to the logits of the probabilities."""
        probabilities = np.concatenate(blocks)
        if np.count_nonzero(probabilities >= CLEAR_SPEECH) * self.hop < MIN_CLEAR_SPEECH:
            return 0.0
        highest = float(np.quantile(probabilities[probabilities >= MIN_SPEECH], 0.9))
        logit = float(np.log(highest / max(1 - highest, 1e-6)))
        return min(max(SHIFT_SHARE * (TARGET_LOGIT - logit), 0.0), MAX_SHIFT)
