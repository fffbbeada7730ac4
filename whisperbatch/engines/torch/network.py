"""Encoder and decoder made of arrays, ready to run."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import torch

from whisperbatch.engines.layout import Arrays, Layout
from whisperbatch.engines.torch.kv_cache import Memory, Reader, Sequences
from whisperbatch.engines.torch.modules import Decoder, Encoder, ModuleBuilder, TokenEmbedding
from whisperbatch.engines.torch.quantization import (
    GROUP_SIZE,
    Quantization,
    SmallVocabulary,
    linears,
)
from whisperbatch.engines.torch.steps import Logits

Tensor: TypeAlias = torch.Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """Encoder and decoder, for one batch at a time.

    Attributes:
        encode: (rows, n_mels, frames) to (rows, positions, d_model).
        decoder: its weights.
        read: the decoder's `forward`, or that compiled.
        logits: likewise.
        memory: for keys and values.
    """

    encode: Callable[[Tensor], Tensor]
    decoder: Decoder
    read: Reader
    logits: Logits
    memory: Memory

    def sequences(self, output: Tensor, *, most: int, beams: int = 0) -> Sequences:
        """Texts to read, for encoder output; with `beams`, step by step."""
        reader = self.read if beams else self.decoder
        return Sequences(self.decoder, reader, self.memory, output, beams=beams or 1, most=most)


def build(
    arrays: Arrays,
    *,
    dtype: torch.dtype,
    device: torch.device,
    compiled: bool,
    quantization: Quantization | None = None,
    group_size: int = GROUP_SIZE,
) -> Network:
    """A network of arrays.

    Args:
        arrays: by CTranslate2's names.
        dtype: of the weights.
        device: to put them on.
        compiled: whether encoder and decoder are compiled, when they are first used; for CUDA.
        quantization: of the decoder.
        group_size: weights of four bits that share a scale.

    Raises:
        LookupError: an array is missing.
        RuntimeError: one does not fit the others.
    """
    products = linears(quantization, group_size, Layout.of(arrays, "decoder").layers)
    said = ModuleBuilder(arrays=arrays, dtype=dtype, device=device, linears=products)
    vocabulary = SmallVocabulary if quantization else TokenEmbedding
    decoder = Decoder(said, vocabulary(said.weight("decoder/embeddings/weight")))

    def made(function: Callable[..., Any]) -> Callable[..., Any]:
        if not compiled:
            return function
        found = torch.compile(function, mode="reduce-overhead", dynamic=True)
        return cast("Callable[..., Any]", found)

    return Network(
        encode=made(Encoder(ModuleBuilder(arrays=arrays, dtype=dtype, device=device))),
        decoder=decoder,
        read=made(decoder),
        logits=made(decoder.logits),
        memory=Memory(dtype, device, fixed=compiled),
    )
