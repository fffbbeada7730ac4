"""Voice activity detection: the probability of speech in each VAD frame."""

from functools import cache

from whisperbatch.options import Options
from whisperbatch.protocols import Vad
from whisperbatch.vad.levels import CalibratedVad, GainControlledVad
from whisperbatch.vad.no_vad import NoVad
from whisperbatch.vad.steady_sound import CleanedVad
from whisperbatch.vad.weights import vad_fingerprint

__all__ = ["NoVad", "open_vad", "vad_fingerprint"]


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
    """Return one Vad for all recordings: it keeps no state of them, and is slow to load."""
    from whisperbatch.vad.silero import SileroVad  # noqa: PLC0415 - loads onnxruntime

    return CalibratedVad(CleanedVad(GainControlledVad(SileroVad())))
