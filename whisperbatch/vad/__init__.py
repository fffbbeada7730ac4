"""Voice activity detection: how likely each frame of audio is speech."""

from functools import cache

from whisperbatch.options import VadOptions
from whisperbatch.protocols import Vad
from whisperbatch.vad.calibration import CalibratedVad
from whisperbatch.vad.gain_control import GainControlledVad
from whisperbatch.vad.no_vad import NoVad

__all__ = ["NoVad", "open_vad"]


def open_vad(options: VadOptions) -> Vad:
    """The Vad that the options ask for: Silero's network, or none at all.

    Raises:
        ModelError: Silero's weights are not to be found.
    """
    if not options.vad:
        return NoVad()
    return _silero()


@cache
def _silero() -> Vad:
    """One for all recordings: it holds no state of theirs, and takes a while to load."""
    from whisperbatch.vad.silero import SileroVad  # noqa: PLC0415 - loads onnxruntime

    return CalibratedVad(GainControlledVad(SileroVad()))
