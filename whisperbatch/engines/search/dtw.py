"""The position of each token, by dynamic time warping (DTW) over cross-attention.

The method is openai/whisper's (timing.py): the attention of the heads that follow the speech is
normalised over the tokens, smoothed by a median over time and averaged over the heads. The path of
maximal attention through the result passes through the tokens in order; where the path enters a
token, the token begins.

    scores (heads, tokens, positions) -> softmax -> normalise -> median -> sum (tokens, positions)
        -> DTW -> start position of each token (tokens,)
"""

from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

MEDIAN_WIDTH: Final = 7  # encoder positions

Floats: TypeAlias = npt.NDArray[np.float32]


def token_starts(scores: Floats, prompt_length: int = 0) -> npt.NDArray[np.int64]:
    """Return the encoder position at which each token begins.

    Args:
        scores: attention before the softmax; shape (heads, tokens, positions).
        prompt_length: number of prompt tokens at the start of `scores`. Prompt tokens are not
            spoken and attend to other positions than spoken tokens do: they take part in the
            normalisation, but the path does not pass through them.

    Returns:
        Shape (tokens - prompt_length,), not decreasing; the first value is 0.
    """
    weights = np.zeros((scores.shape[1] - prompt_length, scores.shape[2]), np.float32)
    for head in scores:  # one head at a time, because it fits into the processor's cache
        attention = np.exp(head - head.max(axis=1, keepdims=True))
        attention /= attention.sum(axis=1, keepdims=True)
        attention -= attention.mean(axis=0)
        attention /= np.maximum(np.sqrt(np.square(attention).mean(axis=0)), 1e-30)
        weights += median_filter(attention[prompt_length:])
    return _dtw_starts(-weights.astype(np.float64))


def median_filter(values: Floats) -> Floats:
    """Return the median of the `MEDIAN_WIDTH` values around each value, along the last axis.

    The values are reflected at both ends. Fewer values than half the width are returned as they
    are.
    """
    half = MEDIAN_WIDTH // 2
    count = values.shape[-1]
    if count <= half:
        return values
    padded = np.pad(values, [(0, 0)] * (values.ndim - 1) + [(half, half)], mode="reflect")
    shifted = [padded[..., n : n + count] for n in range(MEDIAN_WIDTH)]
    for first, second in _MEDIAN_NETWORK:
        smaller = np.minimum(shifted[first], shifted[second])
        shifted[second] = np.maximum(shifted[first], shifted[second])
        shifted[first] = smaller
    return shifted[half]


# Each pair of values is put in order; after the last pair, the middle one of seven is the median.
# (N. Devillard, Fast median search, 1998: the network for seven values)
_MEDIAN_NETWORK: Final = (
    (0, 5), (0, 3), (1, 6), (2, 4), (0, 1), (3, 5), (2, 6), (2, 3), (3, 6), (4, 5), (1, 4), (1, 3),
    (3, 4),
)  # fmt: skip


def _dtw_starts(costs: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """Return the column at which the cheapest path enters each row of `costs`.

    The path leads from the first cell to the last; each step goes down, right, or both. The
    cheapest path to a cell enters the cell's row at some column and continues right from there.
    With the cumulative sum of the row's costs, the best entry is a running minimum, so a row needs
    no loop over its columns.

    Args:
        costs: shape (tokens, positions).

    Returns:
        Shape (tokens,).
    """
    tokens, positions = costs.shape
    path_costs = np.empty((tokens, positions))  # of the cheapest path that ends in a cell
    path_costs[0] = np.cumsum(costs[0])
    for token in range(1, tokens):
        above = path_costs[token - 1]
        entry_costs = above.copy()  # of the path up to the row, if it enters at this column
        np.minimum(above[1:], above[:-1], out=entry_costs[1:])
        cumulative = np.cumsum(costs[token])
        entry_costs -= cumulative
        entry_costs += costs[token]
        path_costs[token] = np.minimum.accumulate(entry_costs) + cumulative
    starts = np.zeros(tokens, np.int64)
    token, position = tokens - 1, positions - 1
    while token:
        down, right, diagonal = path_costs[token - 1, position], np.inf, np.inf
        if position:
            right = path_costs[token, position - 1]
            diagonal = path_costs[token - 1, position - 1]
        if diagonal <= down and diagonal <= right:
            starts[token] = position
            token, position = token - 1, position - 1
        elif down <= right:
            starts[token] = position
            token -= 1
        else:
            position -= 1
    return starts
