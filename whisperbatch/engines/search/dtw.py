"""Find the start of each token, by dynamic time warping (DTW) over cross-attention.

The method is openai/whisper's (timing.py). The attention of the alignment heads is normalised over
the tokens, smoothed by a median filter over time and summed over the heads. DTW finds the path with
the most attention that passes through all tokens in order. A token starts at the encoder position
at which the path reaches the token.

    scores (heads, tokens, positions) -> softmax -> normalise -> median -> sum (tokens, positions)
        -> DTW -> start position of each token (tokens,)
"""

from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from whisperbatch.errors import EngineError

MEDIAN_WIDTH: Final = 7  # encoder positions

Floats: TypeAlias = npt.NDArray[np.float32]


def token_starts(scores: Floats, prompt_length: int = 0) -> npt.NDArray[np.int64]:
    """Return the encoder position at which each token starts.

    Args:
        scores: cross-attention before the softmax, shape (heads, tokens, positions). The scores of
            a token come from the query that predicts the token.
        prompt_length: number of prompt tokens at the start of `scores`. They are part of the
            normalisation only. The path does not pass through them, because prompt tokens are not
            spoken and attend to other positions than spoken tokens do.

    Returns:
        Shape (tokens - prompt_length,), not decreasing; the first value is 0.

    Raises:
        EngineError: the scores are not numbers.
    """
    weights = np.zeros((scores.shape[1] - prompt_length, scores.shape[2]), np.float32)
    for head_scores in scores:  # the arrays of a single head fit into the processor's cache
        peaks = head_scores.max(axis=1, keepdims=True)
        if not np.isfinite(peaks).all():
            raise EngineError(
                "the attention is not a number: the weights are damaged; download the model again"
            )
        attention = np.exp(head_scores - peaks)
        attention /= attention.sum(axis=1, keepdims=True)
        attention -= attention.mean(axis=0)
        # the standard deviation is 0 if there is only one token
        attention /= np.maximum(np.sqrt(np.square(attention).mean(axis=0)), 1e-30)
        weights += median_filter(attention[prompt_length:])
    return _dtw_starts(-weights.astype(np.float64))


def median_filter(values: Floats) -> Floats:
    """Return the median of the `MEDIAN_WIDTH` values around each value, along the last axis.

    At both ends the values are mirrored, without repeating the end value. As in openai/whisper, a
    last axis of at most `MEDIAN_WIDTH // 2` values is too short to mirror and returned unchanged.
    """
    half = MEDIAN_WIDTH // 2
    count = values.shape[-1]
    if count <= half:
        return values
    padded = np.pad(values, [(0, 0)] * (values.ndim - 1) + [(half, half)], mode="reflect")
    shifted = [padded[..., n : n + count] for n in range(MEDIAN_WIDTH)]
    for low, high in _MEDIAN_NETWORK:
        smaller = np.minimum(shifted[low], shifted[high])
        shifted[high] = np.maximum(shifted[low], shifted[high])
        shifted[low] = smaller
    return shifted[half]


# Sorting network for the median of seven values (N. Devillard, Fast median search, 1998). For each
# pair of indices, the smaller value moves to the first index and the larger value to the second.
# After the last pair, the value at index 3 is the median.
_MEDIAN_NETWORK: Final = (
    (0, 5), (0, 3), (1, 6), (2, 4), (0, 1), (3, 5), (2, 6), (2, 3), (3, 6), (4, 5), (1, 4), (1, 3),
    (3, 4),
)  # fmt: skip


def _dtw_starts(costs: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """Return the position at which the cheapest path reaches each token.

    The path leads from the first token and position to the last token and position. Each step goes
    to the next token, to the next position, or to both.

    The cheapest path to (token, position) reaches the token at some position `entry`, and stays at
    the token until `position`. With `cumulative = cumsum(costs[token])`, its cost is

        before[entry] + costs[token, entry:position + 1].sum()
            = before[entry] - cumulative[entry] + costs[token, entry] + cumulative[position]

    where `before[entry]` is the cost of the path before it reaches the token. The cheapest `entry`
    is therefore a running minimum, and Python needs no loop over the positions.

    Args:
        costs: shape (tokens, positions).

    Returns:
        Shape (tokens,), not decreasing; the first value is 0.
    """
    tokens, positions = costs.shape
    path_costs = np.empty((tokens, positions))  # of the cheapest path to (token, position)
    path_costs[0] = np.cumsum(costs[0])
    for token in range(1, tokens):
        previous = path_costs[token - 1]
        before = previous.copy()
        np.minimum(previous[1:], previous[:-1], out=before[1:])
        cumulative = np.cumsum(costs[token])
        relative_costs = before  # reuses the memory
        relative_costs -= cumulative
        relative_costs += costs[token]
        path_costs[token] = np.minimum.accumulate(relative_costs) + cumulative
    starts = np.zeros(tokens, np.int64)
    token, position = tokens - 1, positions - 1
    while token:
        # cost of the path before its step to (token, position), for each kind of step
        to_token, to_position, to_both = path_costs[token - 1, position], np.inf, np.inf
        if position:
            to_position = path_costs[token, position - 1]
            to_both = path_costs[token - 1, position - 1]
        if to_both <= to_token and to_both <= to_position:
            starts[token] = position
            token, position = token - 1, position - 1
        elif to_token <= to_position:
            starts[token] = position
            token -= 1
        else:
            position -= 1
    return starts
