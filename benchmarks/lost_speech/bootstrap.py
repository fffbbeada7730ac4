"""Paired bootstrap over recordings: is a system worse than the reference, or is it chance?

Bisani and Ney, "Bootstrap estimates for confidence intervals in ASR performance evaluation", 2004:
each draw takes as many recordings as there are, with replacement, and computes the difference of
the two systems over them. The distribution of the difference over many draws is its uncertainty.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import numpy as np

from benchmarks.recordings import random_from

DRAWS: Final = 5000
CONFIDENCE: Final = 0.95
MIN_RECORDINGS: Final = 5  # draws from fewer recordings hardly differ from each other

Verdict: TypeAlias = Literal["better", "worse", "same", "unknown"]


@dataclass(frozen=True, slots=True)
class Difference:
    """The rate of a system minus the rate of the reference; positive is worse.

    Attributes:
        estimate: difference over all recordings.
        low: lower end of the interval that contains the difference with 95 % confidence.
        high: upper end.
        recordings: number of recordings.
    """

    estimate: float
    low: float
    high: float
    recordings: int

    @property
    def points(self) -> str:
        """The difference and its interval in percentage points."""
        values = (100 * value for value in (self.estimate, self.low, self.high))
        return "{:+.2f} points ({:+.2f} to {:+.2f})".format(*values)

    @property
    def verdict(self) -> Verdict:
        """Whether the interval excludes zero; "unknown" with too few recordings."""
        if self.recordings < MIN_RECORDINGS:
            return "unknown"
        return "worse" if self.low > 0 else "better" if self.high < 0 else "same"


def compare(
    system: Sequence[float], reference: Sequence[float], sizes: Sequence[float], seed: int = 0
) -> Difference | None:
    """Compare two systems on the same recordings.

    Args:
        system: errors of the system in each recording.
        reference: errors of the reference in each recording.
        sizes: what the errors are divided by: words, or minutes.
        seed: of the draws.

    Returns:
        The difference; None without a recording whose size is above zero.
    """
    kept = [number for number, size in enumerate(sizes) if size > 0]
    if not kept:
        return None
    excess = np.array([system[number] - reference[number] for number in kept], float)
    weights = np.array([sizes[number] for number in kept], float)
    count = len(kept)
    numbers = np.frombuffer(random_from(seed).randbytes(4 * DRAWS * count), "<u4")
    drawn = (numbers % count).reshape(DRAWS, count)
    rates = excess[drawn].sum(axis=1) / weights[drawn].sum(axis=1)
    low, high = np.quantile(rates, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return Difference(float(excess.sum() / weights.sum()), float(low), float(high), count)
