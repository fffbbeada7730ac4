"""Encoder and decoder built from arrays, ready to run."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import torch

from whisperbatch.engines.arrays import Arrays, Layout
from whisperbatch.engines.settings import GROUP_SIZE, Quantization
from whisperbatch.engines.torch.kv_cache import DecoderForward, KVCache, TensorPool
from whisperbatch.engines.torch.modules import Decoder, Encoder, ModuleBuilder, TokenEmbedding
from whisperbatch.engines.torch.quantization import TokenEmbedding8Bit, linear_chooser
from whisperbatch.engines.torch.steps import LogitsProjection

Tensor: TypeAlias = torch.Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """Encoder and decoder, for one batch at a time.

    Attributes:
        encode: maps features (rows, n_mels, frames) to (rows, positions, d_model).
        decoder: the decoder, never compiled.
        decode: `decoder.forward`, compiled if the network is.
        logits: `decoder.logits`, compiled if the network is.
        pool: tensors for keys and values.
    """

    encode: Callable[[Tensor], Tensor]
    decoder: Decoder
    decode: DecoderForward
    logits: LogitsProjection
    pool: TensorPool

    def kv_cache(self, encoder_output: Tensor, *, max_length: int, beams: int = 0) -> KVCache:
        """Return an empty cache for a batch of encoder output.

        Args:
            encoder_output: shape (rows, positions, d_model).
            max_length: maximum number of tokens of a sequence, with its prompt.
            beams: maximum number of sequences of a row; 0 for a single call of the decoder, which
                does not use the compiled version.
        """
        return KVCache(
            self.decoder,
            self.decode if beams else self.decoder,
            self.pool,
            encoder_output,
            beams=beams or 1,
            max_length=max_length,
        )


def build_network(
    arrays: Arrays,
    *,
    dtype: torch.dtype,
    device: torch.device,
    compiled: bool,
    quantization: Quantization | None = None,
    group_size: int = GROUP_SIZE,
) -> Network:
    """Build a network from arrays.

    Args:
        arrays: the arrays, by CTranslate2's names.
        dtype: type of the weights.
        device: where the weights are put.
        compiled: compile encoder and decoder at their first use; for CUDA.
        quantization: of the decoder.
        group_size: for "hqq4": number of weights that share a scale.

    Raises:
        LookupError: an array is missing.
        RuntimeError: the shape of an array does not match the other arrays.
    """
    choose_linear = linear_chooser(
        quantization, group_size, Layout.from_arrays(arrays, "decoder").layers
    )
    decoder_builder = ModuleBuilder(
        arrays=arrays, dtype=dtype, device=device, choose_linear=choose_linear
    )
    embedding_type = TokenEmbedding8Bit if quantization else TokenEmbedding
    embedding = embedding_type(decoder_builder.weights("decoder/embeddings/weight"))
    decoder = Decoder(decoder_builder, embedding)

    def maybe_compile(function: Callable[..., Any]) -> Callable[..., Any]:
        if not compiled:
            return function
        compiled_function = torch.compile(function, mode="reduce-overhead", dynamic=True)
        return cast("Callable[..., Any]", compiled_function)

    return Network(
        encode=maybe_compile(Encoder(ModuleBuilder(arrays=arrays, dtype=dtype, device=device))),
        decoder=decoder,
        decode=maybe_compile(decoder),
        logits=maybe_compile(decoder.logits),
        pool=TensorPool(dtype, device, static_addresses=compiled),
    )
