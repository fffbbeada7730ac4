"""The arrays of model.bin: sizes of encoder and decoder, and weights of eight bits.

    weight = level * scale, level from -127 to 127

The functions for weights of eight bits take and return NumPy arrays or PyTorch tensors.
"""

from collections.abc import Container, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from whisperbatch.models.architecture import Architecture
from whisperbatch.models.config import ModelConfig

LAYER_NORM_EPSILON: Final = 1e-5  # PyTorch's default

Arrays: TypeAlias = Mapping[str, npt.NDArray[Any]]


@dataclass(frozen=True, slots=True)
class Layout:
    """Sizes of an encoder or a decoder.

    Attributes:
        layers: number of layers.
        heads: number of heads in each attention.
        d_model: size of a hidden state.
        head_size: size of a query, key or value of one head.
    """

    layers: int
    heads: int
    d_model: int

    @classmethod
    def from_arrays(cls, arrays: Arrays, part: str) -> "Layout":
        """Return the layout of one part of a model.

        Args:
            arrays: by CTranslate2's names.
            part: "encoder" or "decoder".
        """
        return cls(
            count_layers(arrays, part),
            int(arrays[f"{part}/num_heads"]),
            len(arrays[f"{part}/layer_norm/beta"]),
        )

    @classmethod
    def of(cls, architecture: Architecture, part: str) -> "Layout":
        """Return the layout of the "encoder" or "decoder" of a model."""
        return cls(architecture.layers[part], architecture.heads[part], architecture.d_model)

    @property
    def head_size(self) -> int:
        """Size of a query, key or value of one head."""
        return self.d_model // self.heads


def count_layers(names: Container[str], part: str) -> int:
    """Return the number of layers of the "encoder" or "decoder", from the names of the arrays."""
    return next(
        layer for layer in count() if f"{part}/layer_{layer}/ffn/linear_0/weight" not in names
    )


def alignment_heads(layout: Layout, config: ModelConfig) -> list[tuple[int, int]]:
    """Return the decoder's heads whose cross-attention follows the speech: (layer, head), sorted.

    If `config` does not list them, all heads of the upper half of the layers are taken, as in
    openai/whisper.
    """
    if config.alignment_heads:
        return sorted(config.alignment_heads)
    upper_half = range(layout.layers // 2, layout.layers)
    return [(layer, head) for layer in upper_half for head in range(layout.heads)]


MAX_LEVEL: Final = 127
MIN_SCALE: Final = 1e-8  # keeps the scale of zeros above 0, also in float16


def int8_scales(magnitudes: Any) -> Any:  # noqa: ANN401 - NumPy's or PyTorch's
    """Return the scales of groups of weights, from the largest magnitude of each group."""
    return (magnitudes / MAX_LEVEL).clip(MIN_SCALE)


def int8_levels(weights: Any, scales: Any) -> Any:  # noqa: ANN401 - NumPy's or PyTorch's
    """Return the levels of weights, rounded to whole numbers, in the type of `weights`.

    Args:
        weights: in float32.
        scales: of a shape that broadcasts to the shape of `weights`.
    """
    return (weights / scales).round().clip(-MAX_LEVEL, MAX_LEVEL)


def stored_scales(arrays: Arrays, name: str) -> npt.NDArray[np.float32] | None:
    """Return the scales of an array that CTranslate2 stored as integers; None for other arrays.

    CTranslate2 stores `level = weight * factor`, with one factor for each row, or in int16 for the
    whole array.

    Args:
        arrays: by CTranslate2's names.
        name: of the array.

    Returns:
        Float32, with as many dimensions as the array, so that levels * scales are the weights.
    """
    factor = arrays.get(f"{name}_scale")
    if factor is None:
        return None
    ones = (1,) * (arrays[name].ndim - factor.ndim)
    return np.reciprocal(factor.astype(np.float32)).reshape(*factor.shape, *ones)
