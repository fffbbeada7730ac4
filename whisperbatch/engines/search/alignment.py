"""Alignment of a text from the queries and keys that the decoder computed."""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from whisperbatch.engines.search.beam_search import Floats
from whisperbatch.engines.search.dtw import token_starts
from whisperbatch.protocols import Alignment

SECONDS_PER_POSITION: Final = 0.02  # audio that an encoder position stands for
FRAMES_PER_POSITION: Final = 2  # feature frames


@dataclass(frozen=True, slots=True, eq=False)
class DecodingTrace:
    """A hypothesis with the queries and keys of the alignment heads while it was decoded.

    Attributes:
        tokens: the tokens of the hypothesis.
        logprobs: the log-probability of each token.
        queries: of the prompt, from the start of transcript on, and of the tokens; shape
            (alignment heads, prompt + tokens, head_size).
        keys: of the encoder output; shape (alignment heads, positions, head_size), in float32 or
            as the bits of bfloat16 (uint16).
    """

    tokens: tuple[int, ...]
    logprobs: tuple[float, ...]
    queries: Floats
    keys: npt.NDArray[Any]

    def alignment(self, frames: int) -> Alignment:
        """Return the times of the tokens.

        Args:
            frames: feature frames of the row that are not padding.
        """
        positions = max(frames // FRAMES_PER_POSITION, 1)
        scores = self.queries @ _as_float32(self.keys[:, :positions]).transpose(0, 2, 1)
        # The query that predicts a token places it. The prompt's last query predicts the first
        # token; the last token's query gives the end of the text.
        prompt_length = len(scores[0]) - len(self.tokens) - 1
        times = token_starts(scores, prompt_length).astype(np.float64) * SECONDS_PER_POSITION
        return Alignment(times[:-1], times[1:], np.exp(np.array(self.logprobs, np.float64)))


def _as_float32(keys: npt.NDArray[Any]) -> Floats:
    """Return the keys in float32: bfloat16, which NumPy lacks, is the upper half of its bits."""
    return keys if keys.dtype == np.float32 else (keys.astype(np.uint32) << 16).view(np.float32)
