"""The arrays inside the encoder output of each engine."""

from typing import Any

import numpy as np
import numpy.typing as npt

from whisperbatch.engines.ctranslate2.engine import EncodedView, to_array
from whisperbatch.engines.onnx.encoder import EncoderOutput
from whisperbatch.protocols import Encoded


def output_of(encoded: Encoded) -> npt.NDArray[np.float32]:
    """Encoder output in float32, shape (rows, positions, d_model)."""
    if isinstance(encoded, EncodedView):
        return to_array(encoded.view)
    if isinstance(encoded, EncoderOutput):
        return encoded.by_position()
    output: Any = encoded.output  # type: ignore[attr-defined]  # PyTorch's
    return np.asarray(output.float() if hasattr(output, "float") else output)
