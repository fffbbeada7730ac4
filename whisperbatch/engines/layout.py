"""Sizes of Whisper's encoder and decoder, read from the arrays of model.bin."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy.typing as npt

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
        layers = 0
        while f"{part}/layer_{layers}/ffn/linear_0/weight" in arrays:
            layers += 1
        return cls(layers, int(arrays[f"{part}/num_heads"]), len(arrays[f"{part}/layer_norm/beta"]))

    @property
    def head_size(self) -> int:
        """Size of a query, key or value of one head."""
        return self.d_model // self.heads


def alignment_heads(layout: Layout, config: Mapping[str, Any]) -> list[tuple[int, int]]:
    """Return the decoder's heads whose cross-attention follows the speech: (layer, head), sorted.

    If `config` does not list them, all heads of the upper half of the layers are taken, as in
    openai/whisper.
    """
    if heads := config.get("alignment_heads"):
        return sorted((layer, head) for layer, head in heads)
    upper_half = range(layout.layers // 2, layout.layers)
    return [(layer, head) for layer in upper_half for head in range(layout.heads)]
