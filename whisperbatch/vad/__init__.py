"""Voice activity detection: the probability of speech in each VAD frame."""

from collections.abc import Iterable, Iterator
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from whisperbatch.options import Options
from whisperbatch.protocols import Vad
from whisperbatch.types import Samples, SpeechFrames
from whisperbatch.vad.levels import FRAME, CalibratedVad, GainControlledVad, reblock
from whisperbatch.vad.steady_sound import CleanedVad, remove_steady_sound
from whisperbatch.vad.weights import vad_fingerprint

if TYPE_CHECKING:
    from whisperbatch.vad.silero import SileroVad

__all__ = ["NoVad", "open_vad", "silero_network", "vad_fingerprint"]


def open_vad(options: Options) -> Vad:
    """Return the Vad for the options: Silero's network, or NoVad for `vad=False`.

    Raises:
        ModelError: no installed package contains Silero's weights, or they do not load.
    """
    if not options.vad:
        return NoVad()
    return _silero()


@cache
def _silero() -> Vad:
    return CalibratedVad(CleanedVad(GainControlledVad(silero_network())))


@cache
def silero_network() -> "SileroVad":
    """Return one network for all recordings: it keeps no state of them, and is slow to load.

    Raises:
        ModelError: no installed package contains Silero's weights, or they do not load.
    """
    from whisperbatch.vad.silero import SileroVad  # noqa: PLC0415 - loads onnxruntime

    return SileroVad()


class NoVad:
    """A Vad that gives every VAD frame the probability 1: `vad=False`."""

    hop = FRAME

    def __call__(self, blocks: Iterable[Samples]) -> Iterator[SpeechFrames]:
        """See `protocols.Vad`."""
        for block in remove_steady_sound(reblock(blocks)):
            frame_count = -(-len(block.samples) // FRAME)
            yield SpeechFrames(block.samples, np.ones(frame_count, np.float32), block.cleaned)
