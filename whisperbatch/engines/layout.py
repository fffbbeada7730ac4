"""Sizes of Whisper's encoder and decoder, read from the arrays of model.bin."""

from collections.abc import Container, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any, Final, TypeAlias

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
