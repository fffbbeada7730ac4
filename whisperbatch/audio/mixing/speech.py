"""How much of a few seconds of one signal is speech."""

from typing import Final

import numpy as np

from whisperbatch.options import Options
from whisperbatch.types import Samples
from whisperbatch.vad import open_vad

SPEECH: Final = 0.5  # probability of a VAD frame that is speech: `vad_onset`


def count_speech(samples: Samples) -> int:
    """Return the number of VAD frames (32 ms) with speech; the VAD knows no other audio.

    Raises:
        ModelError: no installed package contains the weights of the VAD.
        EngineError: the VAD failed.
    """
    vad = open_vad(Options())
    return sum(int(np.count_nonzero(part.probabilities >= SPEECH)) for part in vad((samples,)))
