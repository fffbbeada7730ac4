"""Weights of eight bits: reading those of CTranslate2, and rounding others.

    weight = level * scale, level from -127 to 127

The functions take and return NumPy arrays or PyTorch tensors.
"""

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from whisperbatch.engines.layout import Arrays

MAX_LEVEL: Final = 127
MIN_SCALE: Final = 1e-8  # keeps the scale of zeros above 0, also in float16


def int8_scales(magnitudes: Any) -> Any:  # noqa: ANN401 - NumPy's or PyTorch's
    """Return the scales of groups of weights, from the largest magnitude of each group."""
    return (magnitudes / MAX_LEVEL).clip(MIN_SCALE)


def int8_levels(weights: Any, scales: Any) -> Any:  # noqa: ANN401 - NumPy's or PyTorch's
    """Return the levels of weights, rounded to whole numbers, in the type of `weights`.

    Args:
        weights: in float32.
        scales: of a shape that broadcasts to the shape of `weights`.
    """
    return (weights / scales).round().clip(-MAX_LEVEL, MAX_LEVEL)


def stored_scales(arrays: Arrays, name: str) -> npt.NDArray[np.float32] | None:
    """Return the scales of an array that CTranslate2 stored as integers; None for other arrays.

    CTranslate2 stores `level = weight * factor`, with one factor for each row, or in int16 for the
    whole array.

    Args:
        arrays: by CTranslate2's names.
        name: of the array.

    Returns:
        Float32, with as many dimensions as the array, so that levels * scales are the weights.
    """
    factor = arrays.get(f"{name}_scale")
    if factor is None:
        return None
    ones = (1,) * (arrays[name].ndim - factor.ndim)
    return np.reciprocal(factor.astype(np.float32)).reshape(*factor.shape, *ones)
