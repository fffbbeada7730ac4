"""Align a text from the cross-attention queries and keys that the decoder computed for the text."""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from whisperbatch.engines.search.dtw import token_starts
from whisperbatch.engines.search.hypotheses import Floats, Integers
from whisperbatch.protocols import Alignment
from whisperbatch.runtimes.matrix_products import product

SECONDS_PER_POSITION: Final = 0.02  # seconds of audio per encoder position
FRAMES_PER_POSITION: Final = 2  # feature frames per encoder position

NO_TOKENS: Final = Alignment(np.zeros(0), np.zeros(0), np.zeros(0))
"""The alignment of an empty text."""


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
            heads, positions or groups, head_size), float32, or bfloat16 as its bits (uint16).
        groups: the group of each encoder position, shape (positions,), not decreasing; None if
            there is a key for each position.
    """

    tokens: tuple[int, ...]
    logprobs: tuple[float, ...]
    queries: Floats
    keys: npt.NDArray[Any]
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
            keys = _as_float32(self.keys[:, :positions])
            return product(self.queries, keys.transpose(0, 2, 1))
        groups = self.groups[:positions]
        keys = _as_float32(self.keys[:, : groups[-1] + 1])
        scores: Floats = product(self.queries, keys.transpose(0, 2, 1))[..., groups]
        return scores


def _as_float32(keys: npt.NDArray[Any]) -> Floats:
    """Return the keys in float32. The bits of a bfloat16 are the upper half of a float32's bits."""
    return keys if keys.dtype == np.float32 else (keys.astype(np.uint32) << 16).view(np.float32)
