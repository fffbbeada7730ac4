"""What a row depends on: itself alone, to the last bit."""

from typing import Any

import pytest

pytestmark = pytest.mark.torch

TYPES = ("float32", "bfloat16")
COUNTS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 15, 16, 17, 23, 32, 33, 40)


def drawn(*shape: int, dtype: str) -> Any:
    import torch  # noqa: PLC0415 - not always there

    return torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(getattr(torch, dtype))


@pytest.mark.parametrize(
    "kind", ["Linear", "FourBits", "EightBits", "Vocabulary", "SmallVocabulary"]
)
@pytest.mark.parametrize("dtype", TYPES)
def test_a_product_of_a_row_does_not_depend_on_the_others(kind: str, dtype: str) -> None:
    import torch  # noqa: PLC0415

    from whisperbatch.engines.torch import modules, quantization  # noqa: PLC0415

    home = modules if kind in ("Linear", "Vocabulary") else quantization
    made = getattr(home, kind)
    words = "Vocabulary" in kind
    weight = drawn(1865 if words else 1536, 384, dtype=dtype) / 20
    module = made(weight) if words else made(weight, drawn(1536, dtype=dtype))
    product = module.logits if words else module
    rows = drawn(max(COUNTS), 384, dtype="float32")
    with torch.inference_mode():
        alone = torch.cat([product(row[None]) for row in rows])
        for count in COUNTS:
            assert torch.equal(product(rows[:count]), alone[:count])
            assert torch.equal(product(rows[-count:]), alone[-count:])


@pytest.mark.parametrize("positions", [64, 448, 1000, 1500])
@pytest.mark.parametrize("dtype", TYPES)
def test_attention_of_a_row_does_not_depend_on_the_others(dtype: str, positions: int) -> None:
    import torch  # noqa: PLC0415

    from whisperbatch.engines.torch.modules import attention  # noqa: PLC0415

    queries, keys, values = (
        drawn(9, 6, length, 64, dtype=dtype) for length in (11, positions, positions)
    )
    mask = torch.ones(9, 1, 11, positions, dtype=torch.bool).tril(positions // 2)
    with torch.inference_mode():
        for look in (None, mask):
            whole = attention(queries, keys, values, look)
            for rows in range(1, 10):
                some = None if look is None else look[:rows]
                assert torch.equal(
                    attention(queries[:rows], keys[:rows], values[:rows], some), whole[:rows]
                )
            for count in range(11):
                some = None if look is None else look[:, :, count : count + 1]
                one = attention(queries[:, :, count : count + 1], keys, values, some)
                assert torch.equal(one, whole[:, :, count : count + 1])


@pytest.mark.parametrize("group_size", [32, 64, 128])
def test_four_bits_are_nearer_than_rounding(group_size: int) -> None:
    """The mean error is less than that of 16 even levels from a group's least to its most."""
    from whisperbatch.engines.torch.quantization import LEVELS, four_bits  # noqa: PLC0415

    weight = drawn(256, 512, dtype="float32") ** 3 / 50
    levels, scale, zero = four_bits(weight, group_size)
    assert levels.max() == LEVELS
    found = (levels.float().unflatten(1, (-1, group_size)) - zero[..., None]) * scale[..., None]
    groups = weight.unflatten(1, (-1, group_size))
    low, high = groups.amin(-1, keepdim=True), groups.amax(-1, keepdim=True)
    step = (high - low) / LEVELS
    rounded = ((groups - low) / step).round() * step + low
    assert (found - groups).abs().mean() < (rounded - groups).abs().mean()


@pytest.mark.parametrize("dtype", TYPES)
def test_small_weights_are_near_to_large_ones(dtype: str) -> None:
    import torch  # noqa: PLC0415

    from whisperbatch.engines.torch.modules import Linear  # noqa: PLC0415
    from whisperbatch.engines.torch.quantization import EightBits, FourBits  # noqa: PLC0415

    weight, bias = drawn(512, 384, dtype=dtype) / 20, drawn(512, dtype=dtype)
    rows = drawn(10, 384, dtype="float32")
    with torch.inference_mode():
        exact = Linear(weight, bias)(rows).float()
        for made, most in ((EightBits, 0.012), (FourBits, 0.12)):
            found = made(weight, bias)(rows).float()
            assert 0 < (found - exact).norm() / exact.norm() < most
