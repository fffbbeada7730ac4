"""Who speaks when: the speakers of a recording, without PyTorch."""

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from whisperbatch.diarization.protocol import Diarizer

__all__ = ["open_diarizer"]


@cache
def open_diarizer() -> "Diarizer":
    """Return the built-in diarizer, which serves all recordings.

    Raises:
        MissingExtraError: the weights are not installed; the message says how to install them.
        ModelError: the weights are damaged.
    """
    from whisperbatch.diarization.builtin import BuiltInDiarizer  # noqa: PLC0415 - onnxruntime
    from whisperbatch.diarization.networks import (  # noqa: PLC0415 - the same
        EmbeddingNetwork,
        Fbank,
        SegmentationNetwork,
        find_networks,
    )

    files = find_networks()
    return BuiltInDiarizer(
        SegmentationNetwork(files.segmentation),
        EmbeddingNetwork(files.embedding),
        Fbank(),
        files.fingerprint,
    )
