"""Quantization of the decoder's weights to four or eight bits. Activations are not quantized.

Four bits use half-quadratic quantization, HQQ (Badri and Shaji, Half-quadratic quantization of
large machine learning models, 2023): the zero point of each group of weights is moved so that most
errors become small, while a few may be large. HQQ needs no recordings for calibration. The last
layer is quantized to eight bits, because no later layer could correct its errors: it causes half
of the change that four bits make to the text.

The token embedding is quantized to eight bits in both cases: it is half of base's decoder. On a
CPU, PyTorch multiplies with the quantized weights directly. On other devices the weights are
dequantized for each product, which saves memory but no time.
"""

import functools
from typing import Final, TypeAlias, cast

import torch
from torch import nn
from torch.nn import functional

from whisperbatch.engines.arrays import int8_levels, int8_scales
from whisperbatch.engines.settings import GROUP_SIZE, Quantization
from whisperbatch.engines.torch.modules import (
    Linear,
    LinearChooser,
    TokenEmbedding,
    with_padded_rows,
)

Tensor: TypeAlias = torch.Tensor

MAX_LEVEL: Final = 15  # of four bits
ZERO_LEVEL: Final = 8  # the level that PyTorch's int4 product takes as zero
ITERATIONS: Final = 10  # of HQQ; 20 give the same result to four digits
ERROR_NORM: Final = (
    0.5  # the p of HQQ's norm: below 1 allows a few large errors; 0.7: no better, slow
)
BETA: Final = 10.0  # HQQ's beta: how near to the weights the first iteration stays
BETA_GROWTH: Final = 1.01  # HQQ's kappa: factor on beta after each iteration
LEVEL_UNIT: Final = 128  # levels of eight bits that make 1 in a product of floats; a power of 2
BLOCK_ROWS: Final = 64  # rows of a matrix that are quantized together: they stay in the cache
EPSILON: Final = 1e-8


def linear_chooser(
    quantization: Quantization | None, group_size: int, layers: int
) -> LinearChooser:
    """Return a function from the name of a linear layer to its factory.

    Args:
        quantization: of the decoder.
        group_size: for "hqq4": number of weights that share a scale.
        layers: number of layers of the decoder.
    """
    last_layer = f"decoder/layer_{layers - 1}/"
    default = Linear if quantization is None else Linear8Bit
    linear_4bit = functools.partial(Linear4Bit, group_size=group_size)
    is_hqq4 = quantization == "hqq4"
    return lambda name: linear_4bit if is_hqq4 and not name.startswith(last_layer) else default


class Linear4Bit(nn.Module):
    """Linear layer, (..., in) to (..., out), with weights of four bits.

    Args:
        weight: shape (out, in); `in` is a multiple of `group_size`.
        bias: shape (out,).
        group_size: number of weights that share a scale and a zero point.
    """

    def __init__(self, weight: Tensor, bias: Tensor, *, group_size: int = GROUP_SIZE) -> None:
        super().__init__()
        self._dtype, self._group_size = weight.dtype, group_size
        levels, scale, zero = quantize_hqq4(weight.float(), group_size)
        shift = (ZERO_LEVEL - zero) * scale
        scale_and_shift = torch.stack([scale, shift], -1).transpose(0, 1).to(self._dtype)
        if weight.device.type == "cpu":
            packed = torch._convert_weight_to_int4pack_for_cpu(levels.int(), 1)  # noqa: SLF001 - no public name
        else:
            packed = levels[:, ::2] | levels[:, 1::2] << 4
        self.register_buffer("weight", packed)
        self.register_buffer("scale_and_shift", scale_and_shift.contiguous())  # (groups, out, 2)
        self.register_buffer("bias", bias)

    def forward(self, hidden: Tensor) -> Tensor:
        """See the class."""
        return with_padded_rows(self._product, hidden.to(self._dtype)) + self.bias

    def _product(self, flat: Tensor) -> Tensor:
        if flat.device.type == "cpu":
            product = torch._weight_int4pack_mm_for_cpu  # noqa: SLF001 - no public name
            return product(flat, self.weight, self._group_size, self.scale_and_shift)
        levels = torch.stack([self.weight & MAX_LEVEL, self.weight >> 4], -1).flatten(1)
        scale, shift = self.scale_and_shift.transpose(0, 1).unbind(-1)
        groups = levels.unflatten(1, (-1, self._group_size)).to(self._dtype)
        scaled = (groups - ZERO_LEVEL) * scale[..., None]
        return functional.linear(flat, (scaled + shift[..., None]).flatten(1))


def quantize_hqq4(weight: Tensor, group_size: int) -> tuple[Tensor, Tensor, Tensor]:
    """Quantize a matrix (out, in) to four bits: weight = (level - zero) * scale.

    Returns:
        Levels (out, in), uint8 from 0 to `MAX_LEVEL`; scales and zero points, (out, groups) each.
    """
    blocks = [
        _quantize_groups(block.unflatten(1, (-1, group_size))) for block in weight.split(BLOCK_ROWS)
    ]
    levels, scale, zero = (torch.cat(parts) for parts in zip(*blocks, strict=True))
    return levels.flatten(1).to(torch.uint8), scale[..., 0], zero[..., 0]


def _quantize_groups(groups: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return levels (rows, groups, group_size), scales and zero points (rows, groups, 1)."""
    low, high = groups.amin(-1, keepdim=True), groups.amax(-1, keepdim=True)
    scale = ((high - low) / MAX_LEVEL).clamp(min=EPSILON)
    zero, beta = -low / scale, BETA
    for _ in range(ITERATIONS):
        levels = (groups / scale + zero).round().clamp(0, MAX_LEVEL)
        error = groups - (levels - zero) * scale
        size = error.abs()
        threshold = size.clamp(min=EPSILON) ** (ERROR_NORM - 1) / beta
        large_error = error.sign() * (size - threshold).clamp(min=0)
        zero = (levels - (groups - large_error) / scale).mean(-1, keepdim=True)
        beta *= BETA_GROWTH
    return (groups / scale + zero).round().clamp(0, MAX_LEVEL), scale, zero


class Linear8Bit(nn.Module):
    """Linear layer, (..., in) to (..., out), with weights of eight bits.

    Args:
        weight: shape (out, in). Each of its rows gets a scale.
        bias: shape (out,).
    """

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        super().__init__()
        quantized, scale = quantize_int8(weight)
        self.register_buffer("weight", quantized)
        self.register_buffer("scale", scale)
        self.register_buffer("bias", bias)

    def forward(self, hidden: Tensor) -> Tensor:
        """See the class."""
        product = with_padded_rows(
            lambda flat: _product_int8(flat, self.weight, self.scale), hidden.to(self.scale.dtype)
        )
        return product + self.bias


class TokenEmbedding8Bit(TokenEmbedding):
    """A token embedding with weights of eight bits and a scale for each token."""

    def __init__(self, weight: Tensor) -> None:
        quantized, scale = quantize_int8(weight)
        super().__init__(quantized)
        self.register_buffer("scale", scale)

    def embed(self, tokens: Tensor) -> Tensor:
        """See `TokenEmbedding`."""
        return self.weight[tokens].float() * self.scale[tokens][..., None].float()

    @property
    def dtype(self) -> torch.dtype:
        """See `TokenEmbedding`."""
        return cast("torch.dtype", self.scale.dtype)

    def project(self, hidden: Tensor) -> Tensor:
        """See `TokenEmbedding`."""
        return _product_int8(hidden, self.weight, self.scale).float()


def quantize_int8(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Quantize a matrix to eight bits: weight = level * scale.

    Returns:
        Levels (out, in), int8 from -127 to 127, and the scale of each row, (out,).
    """
    scale: Tensor = int8_scales(weight.float().abs().amax(1)).to(weight.dtype)
    levels: Tensor = int8_levels(weight.float(), scale.float()[:, None])
    return levels.char(), scale


def _product_int8(flat: Tensor, weight: Tensor, scale: Tensor) -> Tensor:
    if flat.device.type == "cpu":
        return torch._weight_int8pack_mm(flat, weight, scale)  # noqa: SLF001 - no public name
    return product_of_levels(flat, weight, scale)


def product_of_levels(flat: Tensor, weight: Tensor, scale: Tensor) -> Tensor:
    """Return the product with a matrix in eight bits, by a product of floats.

    The levels are divided by `LEVEL_UNIT`, which is exact. Otherwise the sums do not fit in
    float16, where 65,504 is the largest number: base wrote wrong text on CUDA.

    Args:
        flat: shape (n, in).
        weight: levels from -127 to 127, shape (out, in), int8.
        scale: of each row of `weight`, shape (out,).

    Returns:
        Shape (n, out), in the type of `flat`.
    """
    fractions = weight.to(flat.dtype) / LEVEL_UNIT
    return functional.linear(flat, fractions) * (scale * LEVEL_UNIT)
