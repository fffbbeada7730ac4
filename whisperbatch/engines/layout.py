"""The shape of Whisper's encoder and decoder, as the arrays of model.bin tell it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy.typing as npt

Arrays: TypeAlias = Mapping[str, npt.NDArray[Any]]


@dataclass(frozen=True, slots=True)
class Layout:
    """The shape of an encoder or a decoder.

    Attributes:
        layers: how many.
        heads: of every attention.
        d_model: of its hidden states.
        size: of a head.
    """

    layers: int
    heads: int
    d_model: int

    @classmethod
    def of(cls, arrays: Arrays, part: str) -> "Layout":
        """Of the "encoder" or the "decoder"."""
        layers = 0
        while f"{part}/layer_{layers}/ffn/linear_0/weight" in arrays:
            layers += 1
        return cls(layers, int(arrays[f"{part}/num_heads"]), len(arrays[f"{part}/layer_norm/beta"]))

    @property
    def size(self) -> int:
        """See the class."""
        return self.d_model // self.heads


def alignment_heads(layout: Layout, config: Mapping[str, Any]) -> list[tuple[int, int]]:
    """(layer, head) of the decoder's whose attention follows the speech, in order.

    Where the weights do not say which, all of the upper half of the layers, as openai/whisper.
    """
    if chosen := config.get("alignment_heads"):
        return sorted((layer, head) for layer, head in chosen)
    return [(n, h) for n in range(layout.layers // 2, layout.layers) for h in range(layout.heads)]
