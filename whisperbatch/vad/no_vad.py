"""No detection: all is speech, and is then cut where it is quietest."""

from collections.abc import Iterable, Iterator

import numpy as np

from whisperbatch.types import Samples, SpeechFrames
from whisperbatch.vad.framing import FRAME, reblock


class NoVad:
    """A Vad that takes every frame for speech: `vad=False`."""

    hop = FRAME

    def __call__(self, blocks: Iterable[Samples]) -> Iterator[SpeechFrames]:
        """See `protocols.Vad`."""
        for samples in reblock(blocks):
            frames = -(-len(samples) // FRAME)
            yield SpeechFrames(samples, np.ones(frames, np.float32))
