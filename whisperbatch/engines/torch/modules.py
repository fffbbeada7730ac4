"""Whisper's encoder and decoder in PyTorch, built from the arrays of CTranslate2's model.bin.

    features (rows, n_mels, frames) -> Encoder -> (rows, frames / 2, d_model)
    encoder output                  -> Decoder.cross_kv -> keys and values of each layer
    tokens (n, length)              -> Decoder.forward  -> hidden states (n, length, d_model)
    hidden states (n, d_model)      -> Decoder.logits   -> (n, vocabulary)

Residual sums, layer normalisation and logits are computed in float32, matrix products in the type
of the weights. Array names are CTranslate2's.

On a CPU, the rows of matrix products do not depend on the other rows of the batch.
PyTorch computes products in float32 with Intel's MKL. MKL chooses between kernels by the number of
rows and of threads, and the kernels round differently. On Intel processors, MKL has a setting that
makes all kernels round alike ("STRICT": Intel, oneMKL Developer Guide, Conditional Numerical
Reproducibility). The product of a full batch then takes about 1.4 times as long. Other processors
do not have the setting. On AMD processors, MKL computes products in groups of four rows. The rows
left over after the last full group, and the left-over queries of attention, use other code that
rounds differently. The rows of full groups are equal to the last bit, whatever the number of rows
(tests/unit/engines/torch/test_modules.py). Therefore rows and queries are padded to a multiple of
`ROW_MULTIPLE`.

Products in bfloat16 are computed with oneDNN. With AMX, the rows of products of at most `AMX_ROWS`
rows are equal, but products of more rows are rounded otherwise. Therefore no product has more rows
because of other rows of the batch.
"""

import logging
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, TypeAlias, cast

import torch
from torch import nn
from torch.nn import functional

from whisperbatch.engines.arrays import Arrays, Layout, stored_scales
from whisperbatch.runtimes.machine import has_amx

ROW_MULTIPLE: Final = 4
AMX_ROWS: Final = 32
VARIABLE: Final = "MKL_CBWR"
STRICT: Final = "AUTO,STRICT"
ROWS: Final = 64  # of the product that `check_rows` computes
WIDTH: Final = 2048  # its inner size: long sums show the order of their terms


Tensor: TypeAlias = torch.Tensor

log = logging.getLogger(__name__)


def request_equal_rows(cpu_info: Path = Path("/proc/cpuinfo")) -> None:
    """Set MKL's variable for this process on an Intel processor, unless the variable is set.

    MKL reads the variable before its first product; a later call has no effect.

    Args:
        cpu_info: the file in which Linux describes the processors.
    """
    if sys.platform == "win32":
        processors = os.environ.get("PROCESSOR_IDENTIFIER", "")
    else:
        processors = cpu_info.read_text(encoding="utf-8") if cpu_info.exists() else ""
    if "GenuineIntel" in processors:
        os.environ.setdefault(VARIABLE, STRICT)


def check_rows() -> None:
    """Log a warning if the rows of a product depend on the number of rows."""
    generator = torch.Generator().manual_seed(0)
    rows, weight = (torch.randn(ROWS, WIDTH, generator=generator) for _ in range(2))
    with torch.inference_mode():
        product = torch.nn.functional.linear(rows, weight)
        part = torch.nn.functional.linear(rows[:4], weight)
    if not torch.equal(part, product[:4]):
        log.warning(
            "the last digits of PyTorch's products depend on the number of rows in this process, "
            "so the text may depend on batch_size; set the environment variable %s=%s before the "
            "program starts",
            VARIABLE,
            STRICT,
        )


def with_padded_rows(product: Callable[[Tensor], Tensor], hidden: Tensor) -> Tensor:
    """Apply `product`, (n, in) to (n, out), so that no row depends on the other rows of the batch.

    Args:
        product: of a matrix.
        hidden: shape (rows, in) or (rows, length, in).
    """
    flat = hidden.reshape(-1, hidden.shape[-1])
    if len(flat) > AMX_ROWS and hidden.device.type == "cpu" and _rounds_by_rows(hidden.dtype):
        length = hidden.shape[1] if hidden.ndim > 2 else 1  # noqa: PLR2004 - see above
        parts = flat.split(max(AMX_ROWS, length))
        products = torch.cat([_padded(product, part) for part in parts])
    else:
        products = _padded(product, flat)
    return products.reshape(*hidden.shape[:-1], -1)


def padding(tensor: Tensor, count: int) -> int:
    """Return how many rows to add to `count` rows of a tensor on a CPU; 0 on a GPU."""
    return -count % ROW_MULTIPLE if tensor.device.type == "cpu" else 0


def _padded(product: Callable[[Tensor], Tensor], flat: Tensor) -> Tensor:
    count = len(flat)
    if added := padding(flat, count):
        flat = functional.pad(flat, (0, 0, 0, added))
    return product(flat)[:count]


@cache
def _rounds_by_rows(dtype: torch.dtype) -> bool:
    """Return whether a product of this type with more than `AMX_ROWS` rows is rounded otherwise."""
    return dtype == torch.bfloat16 and has_amx()


EXACT_LOGITS: Final = 64  # number of most likely tokens whose logits are recomputed in float32

LinearFactory: TypeAlias = Callable[[Tensor, Tensor], nn.Module]  # (weight, bias) to a module
LinearChooser: TypeAlias = Callable[[str], LinearFactory]  # name of a linear layer to its factory


class Linear(nn.Module):
    """Linear layer, (..., in) to (..., out), computed in the type of the weight."""

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        super().__init__()
        self.register_buffer("weight", weight)
        self.register_buffer("bias", bias)

    def forward(self, hidden: Tensor) -> Tensor:
        """See the class."""
        return with_padded_rows(
            lambda flat: functional.linear(flat, self.weight, self.bias),
            hidden.to(self.weight.dtype),
        )


def attention(queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None = None) -> Tensor:
    """Return scaled dot-product attention, shape (n, heads, length, size).

    Args:
        queries: shape (n, heads, length, size).
        keys: shape (n, heads, positions, size).
        values: shape (n, heads, positions, size).
        mask: shape (n, 1, length, positions), True where a query may attend to a position; None
            if it may attend to all positions.
    """
    count = queries.shape[2]
    if added := padding(queries, count):
        queries = functional.pad(queries, (0, 0, 0, added))
        mask = None if mask is None else functional.pad(mask, (0, 0, 0, added), value=True)
    output = functional.scaled_dot_product_attention(queries, keys, values, attn_mask=mask)
    return output[:, :, :count]


def split_heads(hidden: Tensor, stacked: int, heads: int) -> list[Tensor]:
    """Split (n, length, stacked * d_model) into `stacked` tensors (n, heads, length, size)."""
    parts = hidden.unflatten(-1, (stacked, heads, -1)).permute(2, 0, 3, 1, 4)
    return [part.contiguous() for part in parts]


def merge_heads(hidden: Tensor) -> Tensor:
    """Merge (n, heads, length, size) into (n, length, d_model)."""
    return hidden.transpose(1, 2).flatten(2)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleBuilder:
    """Builder of tensors and linear layers from stored arrays.

    Attributes:
        arrays: the stored arrays, by CTranslate2's names.
        dtype: the type of the weights.
        device: where the tensors are put.
        choose_linear: returns the factory of a linear layer, given the name of the layer.
    """

    arrays: Arrays
    dtype: torch.dtype
    device: torch.device
    choose_linear: LinearChooser = lambda _: Linear

    def as_stored(self, name: str) -> Tensor:
        """Return an array in its stored type."""
        return torch.from_numpy(self.arrays[name].copy()).to(self.device)

    def float32(self, name: str) -> Tensor:
        """Return an array in float32. Arrays of integers are multiplied by their scales."""
        tensor = torch.from_numpy(self.arrays[name].copy()).float()
        if (scales := stored_scales(self.arrays, name)) is not None:
            tensor *= torch.from_numpy(scales)
        return tensor.to(self.device)

    def weights(self, name: str) -> Tensor:
        """Return an array in the type of the weights."""
        return self.float32(name).to(self.dtype)

    def linear(self, name: str) -> nn.Module:
        """Return the linear layer of this name."""
        weight, bias = (self.float32(f"{name}/{part}") for part in ("weight", "bias"))
        return self.choose_linear(name)(weight.to(self.dtype), bias.to(self.dtype))


class LayerNorm(nn.Module):
    """Layer normalisation, in float32."""

    def __init__(self, builder: ModuleBuilder, name: str) -> None:
        super().__init__()
        self.register_buffer("weight", builder.float32(f"{name}/gamma"))
        self.register_buffer("bias", builder.float32(f"{name}/beta"))

    def forward(self, hidden: Tensor) -> Tensor:
        """See the class."""
        return functional.layer_norm(hidden, self.weight.shape, self.weight, self.bias)


class FeedForward(nn.Module):
    """The feed-forward block at the end of a layer."""

    def __init__(self, builder: ModuleBuilder, name: str) -> None:
        super().__init__()
        self.layer_norm = LayerNorm(builder, f"{name}/layer_norm")
        self.linear_0 = builder.linear(f"{name}/linear_0")
        self.linear_1 = builder.linear(f"{name}/linear_1")

    def forward(self, hidden: Tensor) -> Tensor:
        """Return the term that the layer adds to `hidden`."""
        return self.linear_1(functional.gelu(self.linear_0(self.layer_norm(hidden))))


class EncoderLayer(nn.Module):
    """Self-attention over all positions, then the feed-forward block."""

    def __init__(self, builder: ModuleBuilder, name: str, heads: int) -> None:
        super().__init__()
        self._heads = heads
        self.layer_norm = LayerNorm(builder, f"{name}/self_attention/layer_norm")
        self.linear_0 = builder.linear(f"{name}/self_attention/linear_0")
        self.linear_1 = builder.linear(f"{name}/self_attention/linear_1")
        self.ffn = FeedForward(builder, f"{name}/ffn")

    def forward(self, hidden: Tensor) -> Tensor:
        """Transform hidden states (rows, positions, d_model), float32; the shape stays."""
        stacked = self.linear_0(self.layer_norm(hidden))
        output = attention(*split_heads(stacked, 3, self._heads))
        hidden = hidden + self.linear_1(merge_heads(output))
        return hidden + self.ffn(hidden)


class Encoder(nn.Module):
    """Whisper's encoder."""

    def __init__(self, builder: ModuleBuilder) -> None:
        super().__init__()
        layout = Layout.from_arrays(builder.arrays, "encoder")
        for number in (1, 2):
            for part in ("weight", "bias"):
                name = f"conv{number}/{part}"
                self.register_buffer(name.replace("/", "_"), builder.weights(f"encoder/{name}"))
        positions = builder.float32("encoder/position_encodings/encodings")
        self.register_buffer("positions", positions)
        self.layers = nn.ModuleList(
            EncoderLayer(builder, f"encoder/layer_{layer}", layout.heads)
            for layer in range(layout.layers)
        )
        self.layer_norm = LayerNorm(builder, "encoder/layer_norm")

    def forward(self, features: Tensor) -> Tensor:
        """Encode (rows, n_mels, frames) to (rows, frames / 2, d_model), in the weights' type."""
        dtype = self.conv1_weight.dtype
        hidden = functional.conv1d(
            features.to(dtype), self.conv1_weight, self.conv1_bias, padding=1
        )
        hidden = functional.conv1d(
            functional.gelu(hidden), self.conv2_weight, self.conv2_bias, stride=2, padding=1
        )
        hidden = functional.gelu(hidden).transpose(1, 2)
        hidden = hidden.float() + self.positions[: hidden.shape[1]]
        for layer in self.layers:
            hidden = layer(hidden)
        return self.layer_norm(hidden).to(dtype)


@dataclass(frozen=True, slots=True, eq=False)
class KVCacheView:
    """The cached keys and values that one call of the decoder uses.

    Attributes:
        positions: positions of the tokens of the call, shape (n, length).
        keys: for self-attention, one tensor (n, heads, capacity, size) for each layer. The call
            writes the keys of its tokens into these tensors.
        values: for self-attention, with the shapes and the use of `keys`.
        cross_kv: keys and values of cross-attention, alternating, for each layer; each of shape
            (rows, heads, positions, size). The sequences from r * n / rows on belong to row r.
    """

    positions: Tensor
    keys: Sequence[Tensor]
    values: Sequence[Tensor]
    cross_kv: Sequence[Tensor]


class DecoderLayer(nn.Module):
    """Causal self-attention, cross-attention to the encoder output, feed-forward block."""

    def __init__(self, builder: ModuleBuilder, name: str, heads: int) -> None:
        super().__init__()
        self._heads = heads
        self_attention, cross_attention = f"{name}/self_attention", f"{name}/attention"
        self.self_norm = LayerNorm(builder, f"{self_attention}/layer_norm")
        self.self_linear_0 = builder.linear(f"{self_attention}/linear_0")
        self.self_linear_1 = builder.linear(f"{self_attention}/linear_1")
        self.cross_norm = LayerNorm(builder, f"{cross_attention}/layer_norm")
        self.cross_linear_0 = builder.linear(f"{cross_attention}/linear_0")
        self.cross_linear_1 = builder.linear(f"{cross_attention}/linear_1")
        self.cross_linear_2 = builder.linear(f"{cross_attention}/linear_2")
        self.ffn = FeedForward(builder, f"{name}/ffn")

    def cross_kv(self, encoder_output: Tensor) -> list[Tensor]:
        """Return keys and values for encoder output (rows, positions, d_model)."""
        return split_heads(self.cross_linear_1(encoder_output), 2, self._heads)

    def forward(
        self, hidden: Tensor, cache: KVCacheView, layer: int, mask: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Transform hidden states (n, length, d_model), and write keys and values to the cache.

        Returns the hidden states, and the queries of cross-attention (n, heads, length, size).
        """
        stacked = self.self_linear_0(self.self_norm(hidden))
        queries, keys, values = split_heads(stacked, 3, self._heads)
        sequences = torch.arange(len(hidden), device=hidden.device)[:, None]
        cache.keys[layer][sequences, :, cache.positions] = keys.transpose(1, 2)
        cache.values[layer][sequences, :, cache.positions] = values.transpose(1, 2)
        output = attention(queries, cache.keys[layer], cache.values[layer], mask)
        hidden = hidden + self.self_linear_1(merge_heads(output))
        [queries] = split_heads(self.cross_linear_0(self.cross_norm(hidden)), 1, self._heads)
        output = self._cross_attention(queries, *cache.cross_kv[2 * layer : 2 * layer + 2])
        hidden = hidden + self.cross_linear_2(merge_heads(output))
        return hidden + self.ffn(hidden), queries

    def _cross_attention(self, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """Join the beams of a row into one long sequence, so that its keys are read only once."""
        count, heads, length, size = queries.shape
        joined = queries.reshape(len(keys), -1, heads, length, size).transpose(1, 2).flatten(2, 3)
        output = attention(joined, keys, values)
        return output.unflatten(2, (-1, length)).transpose(1, 2).reshape(count, heads, length, size)


class Decoder(nn.Module):
    """Whisper's decoder."""

    def __init__(self, builder: ModuleBuilder, embedding: nn.Module) -> None:
        super().__init__()
        self.layout = Layout.from_arrays(builder.arrays, "decoder")
        self.embedding = embedding
        self.register_buffer("positions", builder.as_stored("decoder/position_encodings/encodings"))
        self.layers = nn.ModuleList(
            DecoderLayer(builder, f"decoder/layer_{layer}", self.layout.heads)
            for layer in range(self.layout.layers)
        )
        self.layer_norm = LayerNorm(builder, "decoder/layer_norm")

    def cross_kv(self, encoder_output: Tensor) -> list[Tensor]:
        """Return keys and values, alternating, of all layers. See `DecoderLayer.cross_kv`."""
        return [tensor for layer in self.layers for tensor in layer.cross_kv(encoder_output)]

    def forward(self, tokens: Tensor, cache: KVCacheView) -> tuple[Tensor, list[Tensor]]:
        """Run the decoder on tokens, and write their keys and values to the cache.

        Args:
            tokens: shape (n, length).
            cache: the positions of the tokens, and the keys and values of earlier tokens.

        Returns:
            Hidden states (n, length, d_model), float32, and for each layer the queries of
            cross-attention, (n, heads, length, size).
        """
        hidden = self.embedding.embed(tokens) + self.positions[cache.positions]
        key_positions = torch.arange(cache.keys[0].shape[2], device=tokens.device)
        mask = key_positions <= cache.positions[:, None, :, None]
        cross_queries = []
        for number, layer in enumerate(self.layers):
            hidden, queries = layer(hidden, cache, number, mask)
            cross_queries.append(queries)
        return self.layer_norm(hidden), cross_queries

    def logits(self, hidden: Tensor) -> Tensor:
        """Return logits (n, vocabulary), float32, of hidden states (n, d_model)."""
        return self.embedding.logits(hidden)


class TokenEmbedding(nn.Module):
    """The matrix (vocabulary, d_model) that embeds tokens and gives their logits."""

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        self.register_buffer("weight", weight)

    def embed(self, tokens: Tensor) -> Tensor:
        """Return embeddings (..., d_model), float32, of tokens (...)."""
        return self.weight[tokens].float()

    @property
    def dtype(self) -> torch.dtype:
        """The type in which products are computed."""
        return cast("torch.dtype", self.weight.dtype)

    def project(self, hidden: Tensor) -> Tensor:
        """Return logits (n, vocabulary) of hidden states (n, d_model) in the type `dtype`."""
        return functional.linear(hidden, self.weight).float()

    def logits(self, hidden: Tensor) -> Tensor:
        """Return logits (n, vocabulary), float32, of hidden states (n, d_model).

        bfloat16 rounds a logit of 20 to an eighth, so two tokens often tie. Therefore the logits
        of the `EXACT_LOGITS` most likely tokens are computed again in float32.
        """
        logits = with_padded_rows(self.project, hidden.to(self.dtype))
        if self.weight.dtype == torch.float32:
            return logits
        top_tokens = logits.topk(EXACT_LOGITS, dim=-1).indices
        exact = (self.embed(top_tokens) * hidden[:, None]).sum(-1)
        return logits.scatter(-1, top_tokens, exact)
