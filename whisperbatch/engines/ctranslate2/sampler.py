"""The weights of the sampler: a second model for sampling only, kept in memory.

CTranslate2's random generators belong to the threads of a model. A generator is seeded at its first
use and never again, so each sampled row needs a new thread, and only a new model has new threads.
Loading base from its file takes 0.6 s of processor time in int8, mostly to round the weights.

The sampler makes a new model cheap. It has only what CTranslate2 needs to decode rows that are
already encoded: the decoder, and the smallest encoder that CTranslate2 accepts (one layer). The
weights are already rounded to 8 bits, and lie in memory in the format of a model directory. A new
model of base then takes 0.1 s, and gives the same text as the complete model, to the last digit.

    model.bin -> arrays of the decoder, rounded -> sampler files (62 MB for base) -> a model per row
"""

import io
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from whisperbatch.engines.arrays import MAX_LEVEL
from whisperbatch.engines.ctranslate2.model_files import CONFIG, LOADED_FILES
from whisperbatch.models.files import read_json
from whisperbatch.models.model_bin import Variable, read_headers, read_variable
from whisperbatch.models.model_bin_writer import write_model_bin

MODEL_BIN: Final = "model.bin"
UPPER_ENCODER: Final = re.compile(r"encoder/layer_[1-9]\d*/")  # all encoder layers but the first
MATRIX_DIMENSIONS: Final = 2  # convolutions have 3; CTranslate2 does not round them on every device


def sampler_files(
    directory: Path, settings: Mapping[str, Any], *, int8_weights: bool
) -> dict[str, bytes]:
    """Return the files of the sampler, for the argument `files` of `ctranslate2.models.Whisper`.

    Args:
        directory: of the model.
        settings: replace those of config.json. See `ModelInfo.missing_settings`.
        int8_weights: round the matrices to 8 bits; otherwise the weights stay as stored.

    Raises:
        ModelError: a file of the model cannot be read.
    """
    arrays: dict[str, npt.NDArray[Any]] = {}
    aliases: dict[str, str] = {}
    stored: dict[int, str] = {}  # the first name of the data at each offset
    for header in read_headers(directory / MODEL_BIN).values():
        if UPPER_ENCODER.match(header.name):
            continue
        name = stored.setdefault(header.offset, header.name) if header.size else header.name
        if name != header.name:
            aliases[header.name] = name
        elif int8_weights and _is_matrix(header):
            arrays |= _rounded(header.name, read_variable(directory / MODEL_BIN, header))
        else:
            arrays[header.name] = read_variable(directory / MODEL_BIN, header)
    model_bin = io.BytesIO()
    write_model_bin(model_bin, arrays, aliases)
    config = {**read_json(directory / CONFIG, dict), **settings}
    vocabularies = (directory / name for name in LOADED_FILES if name != MODEL_BIN)
    return {
        MODEL_BIN: model_bin.getvalue(),
        CONFIG: json.dumps(config).encode(),
        **{path.name: path.read_bytes() for path in vocabularies if path.is_file()},
    }


def _is_matrix(header: Variable) -> bool:
    """Return whether CTranslate2 rounds this array: a matrix of weights in floating point."""
    return (
        header.name.endswith("weight")
        and len(header.shape) == MATRIX_DIMENSIONS
        and header.is_float
    )


def _rounded(name: str, weights: npt.NDArray[Any]) -> dict[str, npt.NDArray[Any]]:
    """Return a matrix in 8 bits and the factors of its rows, as CTranslate2 computes them."""
    float32 = weights.astype(np.float32)
    magnitudes = np.abs(float32).max(axis=1)
    factors = np.full(len(float32), 1, np.float32)
    np.divide(np.float32(MAX_LEVEL), magnitudes, out=factors, where=magnitudes > 0)
    float32 *= factors[:, None]
    return {name: np.rint(float32, out=float32).astype(np.int8), f"{name}_scale": factors}
