"""Writes CTranslate2's model.bin, version 6. See model_bin.py for the format."""

import struct
from collections.abc import Mapping
from typing import Any, BinaryIO, Final

import numpy as np
import numpy.typing as npt

from whisperbatch.models.model_bin import NUMPY_TYPES, VERSIONS

REVISION: Final = 3  # of CTranslate2's WhisperSpec, since CTranslate2 2
TYPE_NUMBERS: Final = {np.dtype(name): number for number, name in NUMPY_TYPES.items()}
TIED_PROJECTION: Final = {"decoder/projection/weight": "decoder/embeddings/weight"}
"""Whisper computes the logits with the token embeddings: alias, and name of the array."""


def write_model_bin(
    file: BinaryIO,
    arrays: Mapping[str, npt.NDArray[Any]],
    aliases: Mapping[str, str] = TIED_PROJECTION,
) -> None:
    """Write a complete model.bin.

    Args:
        file: the file, open for writing.
        arrays: by CTranslate2's names, in one of the types of `NUMPY_TYPES`.
        aliases: further names of arrays: alias, and name of the array.

    Raises:
        KeyError: the format has no number for the type of an array.
    """
    file.write(struct.pack("<I", VERSIONS[-1]) + _string("WhisperSpec"))
    file.write(struct.pack("<II", REVISION, len(arrays)))
    for name, array in arrays.items():
        number = TYPE_NUMBERS[array.dtype]
        file.write(_string(name) + struct.pack(f"<B{array.ndim}I", array.ndim, *array.shape))
        file.write(struct.pack("<BI", number, array.nbytes))
        file.write(array.astype(NUMPY_TYPES[number]).tobytes())
    file.write(struct.pack("<I", len(aliases)))
    for alias, name in aliases.items():
        file.write(_string(alias) + _string(name))


def _string(text: str) -> bytes:
    data = text.encode() + b"\0"
    return struct.pack("<H", len(data)) + data
