"""Align a text from the cross-attention queries and keys that the decoder computed for the text.

The method is openai/whisper's (timing.py). The attention of the alignment heads is normalised over
the tokens, smoothed by a median filter over time and summed over the heads. Dynamic time warping
(DTW) finds the path with the most attention that passes through all tokens in order. A token starts
at the encoder position at which the path reaches the token.

    scores (heads, tokens, positions) -> softmax -> normalise -> median -> sum (tokens, positions)
        -> DTW -> start position of each token (tokens,)
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from whisperbatch.engines.search import Floats, Integers
from whisperbatch.errors import EngineError
from whisperbatch.protocols import Alignment
from whisperbatch.runtimes.matrix_products import product

SECONDS_PER_POSITION: Final = 0.02  # seconds of audio per encoder position
FRAMES_PER_POSITION: Final = 2  # feature frames per encoder position

NO_TOKENS: Final = Alignment(np.zeros(0), np.zeros(0), np.zeros(0))
"""The alignment of an empty text."""

MEDIAN_WIDTH: Final = 7  # encoder positions


@dataclass(frozen=True, slots=True, eq=False)
class DecodingTrace:
    """The tokens of a hypothesis, and the queries and keys of the alignment heads.

    Alignment heads are the cross-attention heads whose attention follows the speech.

    Attributes:
        tokens: the tokens of the text, without start of transcript and end of text.
        logprobs: the natural-log probability of each token.
        queries: one query for each token that the decoder read, from the start of transcript on,
            with `tokens` at the end. Divided by sqrt(head_size). Shape (alignment heads, tokens
            read, head_size).
        keys: one key for each encoder position, or for each group of positions; shape (alignment
            heads, positions or groups, head_size).
        groups: the group of each encoder position, shape (positions,), not decreasing; None if
            there is a key for each position.
    """

    tokens: tuple[int, ...]
    logprobs: tuple[float, ...]
    queries: Floats
    keys: Floats
    groups: Integers | None = None

    def alignment(self, frames: int, end_of_text: int) -> Alignment:
        """Return start, end and probability of each text token.

        Args:
            frames: number of feature frames of the row, without padding.
            end_of_text: the end-of-text token; the ids of text tokens are smaller.
        """
        if not self.tokens:
            return NO_TOKENS
        positions = max(frames // FRAMES_PER_POSITION, 1)
        scores = self._scores(positions)
        # Each query belongs to the next token, which it predicts: the last query of the prompt to
        # the first token of the text, and the last query to the token after the text. The start of
        # the token after the text is the end of the text.
        prompt_length = len(scores[0]) - len(self.tokens) - 1  # prompt tokens that are predicted
        times = token_starts(scores, prompt_length).astype(np.float64) * SECONDS_PER_POSITION
        is_text = np.array(self.tokens) < end_of_text
        probabilities = np.exp(np.array(self.logprobs, np.float64))
        return Alignment(times[:-1][is_text], times[1:][is_text], probabilities[is_text])

    def _scores(self, positions: int) -> Floats:
        """Return the scores of the first positions.

        Each position of a group has the score of the group's key, without the log of the group's
        size. After the softmax over all positions, the attention to a group is therefore divided
        equally between its positions, as if they had not been merged but had equal keys. DTW, and
        the median filter over time, then need not know about groups: a group of 8 positions has the
        attention and the duration of 8 positions.

        Returns:
            Shape (alignment heads, tokens read, positions).
        """
        if self.groups is None:
            return product(self.queries, self.keys[:, :positions].transpose(0, 2, 1))
        groups = self.groups[:positions]
        keys = self.keys[:, : groups[-1] + 1]
        scores: Floats = product(self.queries, keys.transpose(0, 2, 1))[..., groups]
        return scores


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
