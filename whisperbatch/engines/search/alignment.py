"""How a text came about: what places it in its row."""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from whisperbatch.engines.search.beam_search import Floats
from whisperbatch.engines.search.dtw import token_starts
from whisperbatch.protocols import Alignment

POSITION: Final = 0.02  # seconds of audio in one position of encoder output


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """How a hypothesis came about.

    Attributes:
        tokens: of the hypothesis.
        logprobs: of each.
        queries: of the prompt, from the start of transcript on, and of the tokens; shape
            (alignment heads, prompt + tokens, size).
        keys: what they are compared with, shape (alignment heads, positions, size), in float32 or
            in bfloat16's bits.
    """

    tokens: tuple[int, ...]
    logprobs: tuple[float, ...]
    queries: Floats
    keys: npt.NDArray[Any]

    def alignment(self, frames: int) -> Alignment:
        """Where the tokens lie among the row's first `frames` frames of features."""
        positions = max(frames // 2, 1)
        scores = self.queries @ _plain(self.keys[:, :positions]).transpose(0, 2, 1)
        before = len(scores[0]) - len(self.tokens) - 1
        times = token_starts(scores, before).astype(np.float64) * POSITION
        return Alignment(times[:-1], times[1:], np.exp(np.array(self.logprobs, np.float64)))


def _plain(kept: npt.NDArray[Any]) -> Floats:
    """In float32: numpy has no bfloat16, whose bits are the upper half."""
    return kept if kept.dtype == np.float32 else (kept.astype(np.uint32) << 16).view(np.float32)
