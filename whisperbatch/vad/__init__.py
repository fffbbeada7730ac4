"""Voice activity detection: how likely each frame of audio is speech."""

from functools import cache

from whisperbatch.options import VadOptions
from whisperbatch.protocols import Vad
from whisperbatch.vad.calibrated import Calibrated
from whisperbatch.vad.everything import Everything
from whisperbatch.vad.leveled import Leveled

__all__ = ["Everything", "open_vad"]


def open_vad(options: VadOptions) -> Vad:
    """The Vad that the options ask for: Silero's network, or none at all.

    Raises:
        ModelError: Silero's weights are not to be found.
    """
    if not options.vad:
        return Everything()
    return _silero()


@cache
def _silero() -> Vad:
    """One for all recordings: it holds no state of theirs, and takes a while to load."""
    from whisperbatch.vad.silero import SileroVad  # noqa: PLC0415 - loads onnxruntime

    return Calibrated(Leveled(SileroVad()))
