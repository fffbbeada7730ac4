"""The networks of the built-in diarizer, on onnxruntime or OpenVINO, and their input.

find_networks()        the .onnx files of the networks
SegmentationNetwork    which local speakers speak in a window of 10 s
Fbank                  the input of the embeddings, computed once for a long stretch
EmbeddingNetwork       the voice of each piece of at most 1.5 s
"""

from whisperbatch.diarization.networks.networks import EmbeddingNetwork, Fbank, SegmentationNetwork
from whisperbatch.diarization.networks.weights import (
    NetworkFiles,
    find_networks,
    networks_state,
)

__all__ = [
    "EmbeddingNetwork",
    "Fbank",
    "NetworkFiles",
    "SegmentationNetwork",
    "find_networks",
    "networks_state",
]
