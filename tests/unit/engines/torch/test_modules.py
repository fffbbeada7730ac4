"""The result of a row is equal to the last bit for every batch; quantized weights are close."""

from typing import Any

import pytest

pytestmark = pytest.mark.torch

DTYPES = ("float32", "bfloat16")
ROW_COUNTS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 15, 16, 17, 23, 32, 33, 40)


def random_tensor(*shape: int, dtype: str) -> Any:
    import torch  # noqa: PLC0415 - not always installed

    return torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(getattr(torch, dtype))


@pytest.mark.parametrize(
    "kind", ["Linear", "Linear4Bit", "Linear8Bit", "TokenEmbedding", "TokenEmbedding8Bit"]
)
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_product_of_a_row_does_not_depend_on_other_rows(kind: str, dtype: str) -> None:
    import torch  # noqa: PLC0415

    from whisperbatch.engines.torch import modules, quantization  # noqa: PLC0415

    python_module = modules if kind in ("Linear", "TokenEmbedding") else quantization
    module_type = getattr(python_module, kind)
    is_embedding = "Embedding" in kind
    weight = random_tensor(1865 if is_embedding else 1536, 384, dtype=dtype) / 20
    module = (
        module_type(weight)
        if is_embedding
        else module_type(weight, random_tensor(1536, dtype=dtype))
    )
    product = module.logits if is_embedding else module
    rows = random_tensor(max(ROW_COUNTS), 384, dtype="float32")
    with torch.inference_mode():
        alone = torch.cat([product(row[None]) for row in rows])
        for count in ROW_COUNTS:
            assert torch.equal(product(rows[:count]), alone[:count])
            assert torch.equal(product(rows[-count:]), alone[-count:])


@pytest.mark.parametrize(("rows", "length"), [(120, 1), (12, 7), (8, 40), (3, 1500)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_long_products_of_a_row_do_not_depend_on_other_rows(
    dtype: str, rows: int, length: int
) -> None:
    """More rows together than a product with AMX may have."""
    import torch  # noqa: PLC0415

    from whisperbatch.engines.torch.modules import Linear  # noqa: PLC0415

    linear = Linear(random_tensor(512, 2048, dtype=dtype) / 50, random_tensor(512, dtype=dtype))
    hidden = random_tensor(rows, length, 2048, dtype="float32")
    with torch.inference_mode():
        together = linear(hidden)
        for row in range(rows):
            assert torch.equal(linear(hidden[row : row + 1])[0], together[row])


@pytest.mark.parametrize("positions", [64, 448, 1000, 1500])
@pytest.mark.parametrize("dtype", DTYPES)
def test_attention_of_a_row_does_not_depend_on_other_rows(dtype: str, positions: int) -> None:
    import torch  # noqa: PLC0415

    from whisperbatch.engines.torch.modules import attention  # noqa: PLC0415

    queries, keys, values = (
        random_tensor(9, 6, length, 64, dtype=dtype) for length in (11, positions, positions)
    )
    causal = torch.ones(9, 1, 11, positions, dtype=torch.bool).tril(positions // 2)
    with torch.inference_mode():
        for mask in (None, causal):
            expected = attention(queries, keys, values, mask)
            for rows in range(1, 10):
                part = None if mask is None else mask[:rows]
                output = attention(queries[:rows], keys[:rows], values[:rows], part)
                assert torch.equal(output, expected[:rows])
            for query in range(11):
                part = None if mask is None else mask[:, :, query : query + 1]
                output = attention(queries[:, :, query : query + 1], keys, values, part)
                assert torch.equal(output, expected[:, :, query : query + 1])


@pytest.mark.parametrize("group_size", [32, 64, 128])
def test_hqq_is_more_exact_than_rounding(group_size: int) -> None:
    """The mean error is smaller than with 16 even levels from a group's minimum to its maximum."""
    from whisperbatch.engines.torch.quantization import MAX_LEVEL, quantize_hqq4  # noqa: PLC0415

    weight = random_tensor(256, 512, dtype="float32") ** 3 / 50
    levels, scale, zero = quantize_hqq4(weight, group_size)
    assert levels.max() == MAX_LEVEL
    level_groups = levels.float().unflatten(1, (-1, group_size))
    dequantized = (level_groups - zero[..., None]) * scale[..., None]
    groups = weight.unflatten(1, (-1, group_size))
    low, high = groups.amin(-1, keepdim=True), groups.amax(-1, keepdim=True)
    step = (high - low) / MAX_LEVEL
    rounded = ((groups - low) / step).round() * step + low
    assert (dequantized - groups).abs().mean() < (rounded - groups).abs().mean()


@pytest.mark.parametrize("dtype", DTYPES)
def test_quantized_products_are_close(dtype: str) -> None:
    import torch  # noqa: PLC0415

    from whisperbatch.engines.torch.modules import Linear  # noqa: PLC0415
    from whisperbatch.engines.torch.quantization import Linear4Bit, Linear8Bit  # noqa: PLC0415

    weight, bias = random_tensor(512, 384, dtype=dtype) / 20, random_tensor(512, dtype=dtype)
    rows = random_tensor(10, 384, dtype="float32")
    with torch.inference_mode():
        exact = Linear(weight, bias)(rows).float()
        for module_type, max_error in ((Linear8Bit, 0.012), (Linear4Bit, 0.12)):
            product = module_type(weight, bias)(rows).float()
            assert 0 < (product - exact).norm() / exact.norm() < max_error


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_a_product_of_levels_has_no_sum_beyond_float16(dtype: str) -> None:
    """CUDA multiplies floats instead of levels; sums of levels would overflow."""
    import torch  # noqa: PLC0415

    from whisperbatch.engines.torch.quantization import (  # noqa: PLC0415
        product_of_levels,
        quantize_int8,
    )

    weight = random_tensor(512, 384, dtype="float32") / 20
    rows = 100 * random_tensor(10, 384, dtype="float32")
    levels, scale = quantize_int8(weight)
    assert (rows @ levels.float().T).abs().max() > torch.finfo(torch.float16).max
    kind = getattr(torch, dtype)
    product = product_of_levels(rows.to(kind), levels, scale.to(kind)).float()
    exact = rows @ weight.T
    assert 0 < (product - exact).norm() / exact.norm() < 0.012
