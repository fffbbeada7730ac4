"""The models for which it was measured how many of the encoder's frames they need.

Similar neighbouring frames can be merged (engines/onnx/encoder.py), but how many is different
for each model. A model that is not in the list keeps all frames.
"""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from whisperbatch.models.model_bin import read_headers, read_variable

IDENTIFYING: Final = ("encoder/conv1/bias", "decoder/layer_norm/beta")
"""Arrays that every conversion stores in a float type, and that training changes."""

MEASURED: Final[Mapping[str, float]] = MappingProxyType(
    {
        "a89bc6d18267a89b53fbe53b86c01a41": 0.7,  # base
        "58d98f2f0cf88e382af44f686a22c390": 0.7,  # tiny.en
    }
)
"""The share of the frames of clear rows, by the digest of a model's weights.

The word errors of base were 15.59 % with all frames and 15.58 % with this share (35,659 words in
five languages; docs/explanation/choices.md). Those of tiny.en were 3.78 % and 3.66 % (2,489 words).
"""


def measured_kept_frames(directory: Path) -> float:
    """Return the share of the frames that a model needs; 1 if it was not measured.

    Args:
        directory: of CTranslate2 or transformers weights.

    Raises:
        ModelError: the weights are damaged.
    """
    if not (directory / "model.bin").exists():
        return 1.0
    return MEASURED.get(weights_digest(directory), 1.0)


def weights_digest(directory: Path) -> str:
    """Return a hash that is equal for all conversions of the same weights.

    The arrays of `IDENTIFYING` are compared in float16, the type in which OpenAI published Whisper.
    A model that was trained further has another hash, unless the training left these arrays alone.

    Raises:
        ModelError: the weights are missing or damaged.
    """
    path = directory / "model.bin"
    headers = read_headers(path)
    digest = hashlib.blake2b(digest_size=16)
    for name in IDENTIFYING:
        digest.update(read_variable(path, headers[name]).astype("<f2").tobytes())
    return digest.hexdigest()
