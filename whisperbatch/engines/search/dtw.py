"""Where each token lies: dynamic time warping over cross-attention.

After openai/whisper (timing.py): the attention of the heads that follow the speech is normalised
over the tokens, smoothed by a median over time, averaged, and the way through it that is attended
to most says where each token begins.
"""

from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

WIDTH: Final = 7  # positions that a median is taken of

Floats: TypeAlias = npt.NDArray[np.float32]


def token_starts(scores: Floats, before: int = 0) -> npt.NDArray[np.int64]:
    """The position at which each token begins.

    Args:
        scores: of attention, before the softmax; shape (heads, tokens, positions).
        before: tokens that come first and are not spoken: those of the prompt. What they attend
            to is not what the others do.

    Returns:
        Shape (tokens - before,), not decreasing; the first is 0.
    """
    weights = np.zeros((scores.shape[1] - before, scores.shape[2]), np.float32)
    for head in scores:  # one at a time: it stays in the cache
        powers = np.exp(head - head.max(axis=1, keepdims=True))
        powers /= powers.sum(axis=1, keepdims=True)
        powers -= powers.mean(axis=0)
        powers /= np.maximum(np.sqrt(np.square(powers).mean(axis=0)), 1e-30)
        weights += median(powers[before:])
    return _warped(-weights.astype(np.float64))


def median(values: Floats) -> Floats:
    """The median of the `WIDTH` values around each, along the last axis; edges are reflected."""
    half = WIDTH // 2
    count = values.shape[-1]
    if count <= half:
        return values
    padded = np.pad(values, [(0, 0)] * (values.ndim - 1) + [(half, half)], mode="reflect")
    parts = [padded[..., n : n + count] for n in range(WIDTH)]
    for first, second in _NETWORK:
        low = np.minimum(parts[first], parts[second])
        parts[second] = np.maximum(parts[first], parts[second])
        parts[first] = low
    return parts[half]


# Sorts seven values as far as the middle one needs.
# (N. Devillard, Fast median search, 1998: the network for seven)
_NETWORK: Final = (
    (0, 5), (0, 3), (1, 6), (2, 4), (0, 1), (3, 5), (2, 6), (2, 3), (3, 6), (4, 5), (1, 4), (1, 3),
    (3, 4),
)  # fmt: skip


def _warped(costs: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """Where the cheapest way from the first cell to the last enters each row of `costs`.

    A step goes down, right, or both. Within a row, the cheapest cost up to a cell is that of the
    cell where the way came into the row and of all cells from there: a running minimum.
    """
    tokens, positions = costs.shape
    sums = np.empty((tokens, positions))
    sums[0] = np.cumsum(costs[0])
    for token in range(1, tokens):
        above = sums[token - 1]
        entered = above.copy()
        np.minimum(above[1:], above[:-1], out=entered[1:])
        ahead = np.cumsum(costs[token])
        entered -= ahead
        entered += costs[token]
        sums[token] = np.minimum.accumulate(entered) + ahead
    found = np.zeros(tokens, np.int64)
    token, position = tokens - 1, positions - 1
    while token:
        down, right, both = sums[token - 1, position], np.inf, np.inf
        if position:
            right, both = sums[token, position - 1], sums[token - 1, position - 1]
        if both <= down and both <= right:
            found[token] = position
            token, position = token - 1, position - 1
        elif down <= right:
            found[token] = position
            token -= 1
        else:
            position -= 1
    return found
