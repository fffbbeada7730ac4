"""The weights of Silero's network: which installed package contains them, and their fingerprint."""

import hashlib
import importlib.util
from pathlib import Path
from typing import Final

from whisperbatch.errors import ModelError
from whisperbatch.options import VadOptions

WEIGHTS: Final = (
    ("silero_vad", "data/silero_vad_16k_sequence.onnx"),
    ("faster_whisper", "assets/silero_vad_v6.onnx"),
)
"""Packages that contain the sequence form of the network. The first installed package is used."""


def find_weights() -> Path:
    """Return the path of the network's ONNX file, without importing the package that contains it.

    (The import of silero_vad would import PyTorch.)

    Raises:
        ModelError: no installed package contains the file.
    """
    for package, file in WEIGHTS:
        spec = importlib.util.find_spec(package)
        for folder in (spec and spec.submodule_search_locations) or ():
            path = Path(folder, file)
            if path.is_file():
                return path
    names = " or ".join(package for package, _ in WEIGHTS)
    raise ModelError(f"no installed package contains Silero's weights; reinstall {names}")


def vad_fingerprint(options: VadOptions) -> str:
    """Return a text that identifies the speech detector of these options: its kind and weights.

    The weights of two packages, or of two versions of a package, give slightly different
    probabilities. The chunks, and therefore the text, depend on these probabilities.

    Raises:
        ModelError: no installed package contains the weights, or the file cannot be read.
    """
    if not options.vad:
        return "no voice activity detection"
    path = find_weights()
    try:
        digest = hashlib.blake2b(path.read_bytes(), digest_size=16).hexdigest()
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error.strerror or error}") from error
    return f"silero {digest}"
