"""The decoder in four or eight bits a weight; what is multiplied with it stays as it is.

Four bits are found by half-quadratic quantisation (Badri and Shaji, Half-quadratic quantization of
large machine learning models, 2023): the zero of each group of weights moves, so that most errors
become small, and few may be large. It needs no recordings to calibrate on. The last layer, whose
errors nothing mends, is kept in eight bits: it makes half of what four bits do to the text.

The vocabulary is kept in eight bits either way: of base it is half of the decoder. On a CPU PyTorch
multiplies with the small weights as they are; elsewhere they are spread out for each product, which
saves memory and no time.
"""

import functools
from collections.abc import Callable
from typing import Final, Literal, TypeAlias, get_args

import torch
from torch import nn
from torch.nn import functional

from whisperbatch.engines.torch.modules import Linear, MakeLinear, TokenEmbedding, by_rows

Tensor: TypeAlias = torch.Tensor
Quantization: TypeAlias = Literal["hqq4", "int8"]

QUANTIZATIONS: Final[tuple[str, ...]] = get_args(Quantization)
GROUP_SIZES: Final = (32, 64, 128)
GROUP_SIZE: Final = 64
LEVELS: Final = 15
MIDDLE: Final = 8  # what PyTorch takes for the zero of four bits
ROUNDS: Final = 10  # 20 find the same to four digits
NORM: Final = 0.5  # of the errors: below 1, so that a few may be large; 0.7 is no better, and slow
TIGHT: Final = 10.0  # how near to the weights the first round stays,
TIGHTER: Final = 1.01  # and how much nearer each one
EIGHT_BITS: Final = 127
AT_ONCE: Final = 64  # rows of a matrix: they stay in the cache
TINY: Final = 1e-8


def linears(
    quantization: Quantization | None, group_size: int, layers: int
) -> Callable[[str], MakeLinear]:
    """What makes each product of a decoder of so many layers, by its name."""
    plain, last = Linear if quantization is None else EightBits, f"decoder/layer_{layers - 1}/"
    small = functools.partial(FourBits, group_size=group_size)
    few = quantization == "hqq4"
    return lambda name: small if few and not name.startswith(last) else plain


class FourBits(nn.Module):
    """(..., in) to (..., out), with `in` a multiple of `group_size`: weights that share a scale."""

    def __init__(self, weight: Tensor, bias: Tensor, *, group_size: int = GROUP_SIZE) -> None:
        super().__init__()
        self._dtype, self._group_size = weight.dtype, group_size
        levels, scale, zero = four_bits(weight.float(), group_size)
        shift = (MIDDLE - zero) * scale
        pairs = torch.stack([scale, shift], -1).transpose(0, 1).to(self._dtype)
        if weight.device.type == "cpu":
            packed = torch._convert_weight_to_int4pack_for_cpu(levels.int(), 1)  # noqa: SLF001 - PyTorch's name for it
        else:
            packed = levels[:, ::2] | levels[:, 1::2] << 4
        self.register_buffer("weight", packed)
        self.register_buffer("pairs", pairs.contiguous())  # (groups, out, 2)
        self.register_buffer("bias", bias)

    def forward(self, hidden: Tensor) -> Tensor:
        """See the class."""
        return by_rows(self._product, hidden.to(self._dtype)) + self.bias

    def _product(self, flat: Tensor) -> Tensor:
        if flat.device.type == "cpu":
            product = torch._weight_int4pack_mm_for_cpu  # noqa: SLF001 - likewise
            return product(flat, self.weight, self._group_size, self.pairs)
        levels = torch.stack([self.weight & LEVELS, self.weight >> 4], -1).flatten(1)
        scale, shift = self.pairs.transpose(0, 1).unbind(-1)
        groups = levels.unflatten(1, (-1, self._group_size)).to(self._dtype)
        spread = (groups - MIDDLE) * scale[..., None]
        return functional.linear(flat, (spread + shift[..., None]).flatten(1))


def four_bits(weight: Tensor, group_size: int) -> tuple[Tensor, Tensor, Tensor]:
    """Levels (out, in), uint8 up to `LEVELS`, with scale and zero of each group (out, groups).

    A weight is (level - zero) * scale.
    """
    parts = [_four_bits(part.unflatten(1, (-1, group_size))) for part in weight.split(AT_ONCE)]
    levels, scale, zero = (torch.cat(some) for some in zip(*parts, strict=True))
    return levels.flatten(1).to(torch.uint8), scale[..., 0], zero[..., 0]


def _four_bits(groups: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    low, high = groups.amin(-1, keepdim=True), groups.amax(-1, keepdim=True)
    scale = ((high - low) / LEVELS).clamp(min=TINY)
    zero, tight = -low / scale, TIGHT
    for _ in range(ROUNDS):
        levels = (groups / scale + zero).round().clamp(0, LEVELS)
        error = groups - (levels - zero) * scale
        size = error.abs()
        kept = error.sign() * (size - size.clamp(min=TINY) ** (NORM - 1) / tight).clamp(min=0)
        zero = (levels - (groups - kept) / scale).mean(-1, keepdim=True)
        tight *= TIGHTER
    return (groups / scale + zero).round().clamp(0, LEVELS), scale, zero


class EightBits(nn.Module):
    """(..., in) to (..., out), with a scale for each row of the matrix."""

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        super().__init__()
        small, scale = eight_bits(weight)
        self.register_buffer("weight", small)
        self.register_buffer("scale", scale)
        self.register_buffer("bias", bias)

    def forward(self, hidden: Tensor) -> Tensor:
        """See the class."""
        found = by_rows(
            lambda flat: _scaled(flat, self.weight, self.scale), hidden.to(self.scale.dtype)
        )
        return found + self.bias


class SmallVocabulary(TokenEmbedding):
    """A vocabulary in eight bits."""

    def __init__(self, weight: Tensor) -> None:
        small, scale = eight_bits(weight)
        super().__init__(small)
        self.register_buffer("scale", scale)

    def rows(self, tokens: Tensor) -> Tensor:
        """See `TokenEmbedding`."""
        return self.weight[tokens].float() * self.scale[tokens][..., None].float()

    def product(self, hidden: Tensor) -> Tensor:
        """See `TokenEmbedding`."""
        return _scaled(hidden.to(self.scale.dtype), self.weight, self.scale).float()


def eight_bits(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Whole numbers (out, in), and what each row is to be multiplied by, (out,)."""
    scale = (weight.float().abs().amax(1) / EIGHT_BITS).clamp(min=TINY).to(weight.dtype)
    return (weight.float() / scale.float()[:, None]).round().clamp(-127, 127).char(), scale


def _scaled(flat: Tensor, weight: Tensor, scale: Tensor) -> Tensor:
    if flat.device.type == "cpu":
        return torch._weight_int8pack_mm(flat, weight, scale)  # noqa: SLF001 - PyTorch's name for it
    return functional.linear(flat, weight.to(flat.dtype)) * scale
