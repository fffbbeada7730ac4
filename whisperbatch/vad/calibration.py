"""A Vad whose probabilities mean the same on every recording.

Silero is sure of clear speech, 0.98 and more, and so it is under noise, music and clipping. Of a
telephone's band it is not: 0.73 where it is surest, so that half of the speech stays under any
usual threshold. How sure it is at its surest shows by how much.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt

from whisperbatch.protocols import Vad
from whisperbatch.types import SAMPLING_RATE, Samples, SpeechFrames

AROUND: Final = 15 * SAMPLING_RATE  # samples before and after a block that tell how sure the Vad is
SURE: Final = 3.9  # logit of 0.98
DOUBTFUL: Final = 0.1  # frames below are not speech
HALF: Final = 0.5  # frames above surely are
ENOUGH: Final = 2 * SAMPLING_RATE  # samples of sure speech, without which nothing is made of it
SHARE: Final = 0.75  # of the difference that is made up for
MOST: Final = 3.0  # of it, as a logit


class CalibratedVad:
    """Another Vad, its probabilities raised where even clear speech is given low ones.

    What comes before a block and what comes after it are judged apart, so that a caller on the
    telephone is heard beside a host in the studio.
    """

    def __init__(self, vad: Vad) -> None:
        self._vad = vad
        self.hop = vad.hop

    def __call__(self, blocks: Iterable[Samples]) -> Iterator[SpeechFrames]:
        """See `protocols.Vad`. Holds some 15 s before and after what it gives."""
        held: deque[SpeechFrames] = deque()
        current = ahead = 0  # number of the next block; samples after it
        for frames in self._vad(blocks):
            held.append(frames)
            ahead += len(frames.samples)
            while ahead - len(held[current].samples) >= AROUND:
                ahead -= len(held[current].samples)
                yield self._raised(held, current)
                current += 1
                while sum(len(held[n].samples) for n in range(1, current)) >= AROUND:
                    held.popleft()
                    current -= 1
        for number in range(current, len(held)):
            yield self._raised(held, number)

    def _raised(self, held: Iterable[SpeechFrames], number: int) -> SpeechFrames:
        known = [frames.probabilities for frames in held]
        frames = list(held)[number]
        shift = max(self._shift(known[: number + 1]), self._shift(known[number:]))
        if not shift:
            return frames
        clipped = np.clip(frames.probabilities, 1e-6, 1 - 1e-6).astype(np.float64)
        raised = 1 / (1 + (1 / clipped - 1) * np.exp(-shift))
        return replace(frames, probabilities=raised.astype(np.float32))

    def _shift(self, blocks: Sequence[npt.NDArray[np.float32]]) -> float:
        """What to add to the logits."""
        probabilities = np.concatenate(blocks)
        if np.count_nonzero(probabilities >= HALF) * self.hop < ENOUGH:
            return 0.0
        surest = float(np.quantile(probabilities[probabilities >= DOUBTFUL], 0.9))
        logit = float(np.log(surest / max(1 - surest, 1e-6)))
        return min(max(SHARE * (SURE - logit), 0.0), MOST)
