"""Whisper's encoder and decoder in PyTorch, from the arrays of CTranslate2's model.bin.

    features (rows, n_mels, frames) -> Encoder -> (rows, frames / 2, d_model)
    encoder output                  -> Decoder.crossed -> keys and values of each layer
    tokens (n, length)              -> Decoder.forward -> hidden states (n, length, d_model)
    hidden states (n, d_model)      -> Decoder.logits  -> (n, vocabulary)

Sums over layers, normalisation and logits are in float32; products are in the type of the weights.
The names within are CTranslate2's.

A row must not depend on the rows beside it. On a CPU, the rows of a product that are left over when
it is done in fours, and such queries of attention, take another way through MKL, and are rounded
otherwise; those in fours are the same to the last bit, however many there are
(tests/unit/test_torch_modules.py). So they are filled up to a multiple of `TOGETHER`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import torch
from torch import nn
from torch.nn import functional

from whisperbatch.engines.layout import Arrays, Layout

TOGETHER: Final = 4
EXACT: Final = 64  # of the likeliest tokens, whose logits are products in float32

Tensor: TypeAlias = torch.Tensor
MakeLinear: TypeAlias = Callable[[Tensor, Tensor], nn.Module]  # of a weight and a bias


class Linear(nn.Module):
    """(..., in) to (..., out), in the type of the weight."""

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        super().__init__()
        self.register_buffer("weight", weight)
        self.register_buffer("bias", bias)

    def forward(self, hidden: Tensor) -> Tensor:
        """See the class."""
        return by_rows(
            lambda flat: functional.linear(flat, self.weight, self.bias),
            hidden.to(self.weight.dtype),
        )


def by_rows(product: Callable[[Tensor], Tensor], hidden: Tensor) -> Tensor:
    """A product of (n, in), for `hidden` (..., in)."""
    flat = hidden.reshape(-1, hidden.shape[-1])
    count = len(flat)
    if spare := _spare(flat, count):
        flat = functional.pad(flat, (0, 0, 0, spare))
    return product(flat)[:count].reshape(*hidden.shape[:-1], -1)


def _spare(given: Tensor, count: int) -> int:
    """What fills up `count` on a CPU."""
    return -count % TOGETHER if given.device.type == "cpu" else 0


def attention(queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None = None) -> Tensor:
    """Attention: (n, heads, length, size) of keys and values (n, heads, positions, size).

    Args:
        queries: what asks.
        keys: what is asked.
        values: what it says.
        mask: shape (n, 1, length, positions), True where it may look; None for everywhere.
    """
    count = queries.shape[2]
    if spare := _spare(queries, count):
        queries = functional.pad(queries, (0, 0, 0, spare))
        mask = None if mask is None else functional.pad(mask, (0, 0, 0, spare), value=True)
    found = functional.scaled_dot_product_attention(queries, keys, values, attn_mask=mask)
    return found[:, :, :count]


def split_heads(hidden: Tensor, stacked: int, heads: int) -> list[Tensor]:
    """(n, length, stacked * d_model) to `stacked` of (n, heads, length, size)."""
    found = hidden.unflatten(-1, (stacked, heads, -1)).permute(2, 0, 3, 1, 4)
    return [one.contiguous() for one in found]


def merge_heads(found: Tensor) -> Tensor:
    """(n, heads, length, size) to (n, length, d_model)."""
    return found.transpose(1, 2).flatten(2)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleBuilder:
    """Makes modules of arrays.

    Attributes:
        arrays: by CTranslate2's names, as stored.
        dtype: of the weights.
        device: to put them on.
        linears: what makes each product, by its name.
    """

    arrays: Arrays
    dtype: torch.dtype
    device: torch.device
    linears: Callable[[str], MakeLinear] = lambda _: Linear

    def stored(self, name: str) -> Tensor:
        """An array as it is stored."""
        return torch.from_numpy(self.arrays[name].copy()).to(self.device)

    def plain(self, name: str) -> Tensor:
        """An array in float32; whole numbers come with what they were scaled by."""
        found = torch.from_numpy(self.arrays[name].copy()).float()
        if (scale := self.arrays.get(f"{name}_scale")) is not None:
            each = torch.from_numpy(scale.copy()).float()
            found /= each.reshape(*each.shape, *(1,) * (found.ndim - each.ndim))
        return found.to(self.device)

    def weight(self, name: str) -> Tensor:
        """An array in the type of the weights."""
        return self.plain(name).to(self.dtype)

    def product(self, name: str) -> nn.Module:
        """A linear layer."""
        weight, bias = (self.plain(f"{name}/{part}") for part in ("weight", "bias"))
        return self.linears(name)(weight.to(self.dtype), bias.to(self.dtype))


class LayerNorm(nn.Module):
    """Layer normalisation, in float32."""

    def __init__(self, source: ModuleBuilder, name: str) -> None:
        super().__init__()
        self.register_buffer("weight", source.plain(f"{name}/gamma"))
        self.register_buffer("bias", source.plain(f"{name}/beta"))

    def forward(self, hidden: Tensor) -> Tensor:
        """See the class."""
        return functional.layer_norm(hidden, self.weight.shape, self.weight, self.bias)


class FeedForward(nn.Module):
    """The second half of a layer."""

    def __init__(self, source: ModuleBuilder, name: str) -> None:
        super().__init__()
        self.layer_norm = LayerNorm(source, f"{name}/layer_norm")
        self.linear_0 = source.product(f"{name}/linear_0")
        self.linear_1 = source.product(f"{name}/linear_1")

    def forward(self, hidden: Tensor) -> Tensor:
        """What is added to `hidden`."""
        return self.linear_1(functional.gelu(self.linear_0(self.layer_norm(hidden))))


class EncoderLayer(nn.Module):
    """Attention to all positions, and what follows."""

    def __init__(self, source: ModuleBuilder, name: str, heads: int) -> None:
        super().__init__()
        self._heads = heads
        self.layer_norm = LayerNorm(source, f"{name}/self_attention/layer_norm")
        self.linear_0 = source.product(f"{name}/self_attention/linear_0")
        self.linear_1 = source.product(f"{name}/self_attention/linear_1")
        self.ffn = FeedForward(source, f"{name}/ffn")

    def forward(self, hidden: Tensor) -> Tensor:
        """(rows, positions, d_model) to the same, float32."""
        stacked = self.linear_0(self.layer_norm(hidden))
        found = attention(*split_heads(stacked, 3, self._heads))
        hidden = hidden + self.linear_1(merge_heads(found))
        return hidden + self.ffn(hidden)


class Encoder(nn.Module):
    """Whisper's encoder."""

    def __init__(self, source: ModuleBuilder) -> None:
        super().__init__()
        layout = Layout.of(source.arrays, "encoder")
        for number in (1, 2):
            for part in ("weight", "bias"):
                name = f"conv{number}/{part}"
                self.register_buffer(name.replace("/", "_"), source.weight(f"encoder/{name}"))
        positions = source.plain("encoder/position_encodings/encodings")
        self.register_buffer("positions", positions)
        self.layers = nn.ModuleList(
            EncoderLayer(source, f"encoder/layer_{layer}", layout.heads)
            for layer in range(layout.layers)
        )
        self.layer_norm = LayerNorm(source, "encoder/layer_norm")

    def forward(self, features: Tensor) -> Tensor:
        """(rows, n_mels, frames) to (rows, frames / 2, d_model), in the type of the weights."""
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
class Read:
    """What a reading of tokens goes by.

    Attributes:
        positions: of the tokens, shape (n, length).
        keys: of self-attention, a tensor for each layer, (n, heads, capacity, size); those of the
            tokens are written into them.
        values: likewise.
        crossed: keys and values of cross-attention of each layer in turn, (rows, heads, positions,
            size); row r is what the sequences r * n / rows and on hear.
    """

    positions: Tensor
    keys: Sequence[Tensor]
    values: Sequence[Tensor]
    crossed: Sequence[Tensor]


class DecoderLayer(nn.Module):
    """Attention to what has been read and to what is heard, and what follows."""

    def __init__(self, source: ModuleBuilder, name: str, heads: int) -> None:
        super().__init__()
        self._heads = heads
        own, other = f"{name}/self_attention", f"{name}/attention"
        self.own_norm = LayerNorm(source, f"{own}/layer_norm")
        self.own_linear_0 = source.product(f"{own}/linear_0")
        self.own_linear_1 = source.product(f"{own}/linear_1")
        self.norm = LayerNorm(source, f"{other}/layer_norm")
        self.linear_0 = source.product(f"{other}/linear_0")
        self.linear_1 = source.product(f"{other}/linear_1")
        self.linear_2 = source.product(f"{other}/linear_2")
        self.ffn = FeedForward(source, f"{name}/ffn")

    def crossed(self, output: Tensor) -> list[Tensor]:
        """Keys and values for encoder output (rows, positions, d_model)."""
        return split_heads(self.linear_1(output), 2, self._heads)

    def forward(
        self, hidden: Tensor, read: Read, layer: int, mask: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Hidden states (n, length, d_model), float32, and queries (n, heads, length, size)."""
        stacked = self.own_linear_0(self.own_norm(hidden))
        queries, keys, values = split_heads(stacked, 3, self._heads)
        sequences = torch.arange(len(hidden), device=hidden.device)[:, None]
        read.keys[layer][sequences, :, read.positions] = keys.transpose(1, 2)
        read.values[layer][sequences, :, read.positions] = values.transpose(1, 2)
        found = attention(queries, read.keys[layer], read.values[layer], mask)
        hidden = hidden + self.own_linear_1(merge_heads(found))
        [queries] = split_heads(self.linear_0(self.norm(hidden)), 1, self._heads)
        found = self._heard(queries, *read.crossed[2 * layer : 2 * layer + 2])
        hidden = hidden + self.linear_2(merge_heads(found))
        return hidden + self.ffn(hidden), queries

    def _heard(self, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """The beams of a row are as positions of one sequence: its keys are read once."""
        count, heads, length, size = queries.shape
        asked = queries.reshape(len(keys), -1, heads, length, size).transpose(1, 2).flatten(2, 3)
        found = attention(asked, keys, values)
        return found.unflatten(2, (-1, length)).transpose(1, 2).reshape(count, heads, length, size)


class Decoder(nn.Module):
    """Whisper's decoder."""

    def __init__(self, source: ModuleBuilder, vocabulary: nn.Module) -> None:
        super().__init__()
        self.layout = Layout.of(source.arrays, "decoder")
        self.vocabulary = vocabulary
        self.register_buffer("positions", source.stored("decoder/position_encodings/encodings"))
        self.layers = nn.ModuleList(
            DecoderLayer(source, f"decoder/layer_{layer}", self.layout.heads)
            for layer in range(self.layout.layers)
        )
        self.layer_norm = LayerNorm(source, "decoder/layer_norm")

    def crossed(self, output: Tensor) -> list[Tensor]:
        """Keys and values of each layer in turn, for encoder output (rows, positions, d_model)."""
        return [one for layer in self.layers for one in layer.crossed(output)]

    def forward(self, tokens: Tensor, read: Read) -> tuple[Tensor, list[Tensor]]:
        """Read tokens.

        Args:
            tokens: shape (n, length).
            read: where they stand, and what is known.

        Returns:
            Hidden states (n, length, d_model), float32, and each layer's queries of
            cross-attention, (n, heads, length, size).
        """
        hidden = self.vocabulary.rows(tokens) + self.positions[read.positions]
        every = torch.arange(read.keys[0].shape[2], device=tokens.device)
        mask = every <= read.positions[:, None, :, None]
        asked = []
        for number, layer in enumerate(self.layers):
            hidden, queries = layer(hidden, read, number, mask)
            asked.append(queries)
        return self.layer_norm(hidden), asked

    def logits(self, hidden: Tensor) -> Tensor:
        """(n, d_model) to (n, vocabulary), float32."""
        return self.vocabulary.logits(hidden)


class TokenEmbedding(nn.Module):
    """The matrix that tokens are read by, and said by."""

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        self.register_buffer("weight", weight)

    def rows(self, tokens: Tensor) -> Tensor:
        """(...) to (..., d_model), float32."""
        return self.weight[tokens].float()

    def product(self, hidden: Tensor) -> Tensor:
        """(n, d_model) to (n, vocabulary), as exact as the type of the weights is."""
        return functional.linear(hidden.to(self.weight.dtype), self.weight).float()

    def logits(self, hidden: Tensor) -> Tensor:
        """(n, d_model) to (n, vocabulary), float32.

        A logit of 20 in bfloat16 is rounded to an eighth, so that two tokens often tie. Those of
        the likeliest are products in float32.
        """
        found = by_rows(self.product, hidden)
        if self.weight.dtype == torch.float32:
            return found
        likeliest = found.topk(EXACT, dim=-1).indices
        exact = (self.rows(likeliest) * hidden[:, None]).sum(-1)
        return found.scatter(-1, likeliest, exact)
