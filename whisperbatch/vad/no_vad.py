"""No voice activity detection: all audio counts as speech, and is split at its quietest points."""

from collections.abc import Iterable, Iterator

import numpy as np

from whisperbatch.types import Samples, SpeechFrames
from whisperbatch.vad.framing import FRAME, reblock
from whisperbatch.vad.steady_sound import remove_steady_sound


class NoVad:
    """A Vad that gives every VAD frame the probability 1: `vad=False`."""

    hop = FRAME

    def __call__(self, blocks: Iterable[Samples]) -> Iterator[SpeechFrames]:
        """See `protocols.Vad`."""
        for block in remove_steady_sound(reblock(blocks)):
            frame_count = -(-len(block.samples) // FRAME)
            yield SpeechFrames(block.samples, np.ones(frame_count, np.float32), block.cleaned)
