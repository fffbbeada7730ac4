"""`best_sequence` returns a sequence that no other sequence surpasses."""

import math
from collections.abc import Sequence
from itertools import pairwise, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whisperbatch.language.code_switching import (
    CHANGE_PENALTY,
    FULL_SPEECH,
    MIN_PROBABILITY,
    best_sequence,
)
from whisperbatch.types import LanguageScores

CODES = ("en", "fr", "de")
THRESHOLD = 0.5


@st.composite
def language_scores(draw: st.DrawFn) -> LanguageScores:
    shares = draw(st.lists(st.floats(0, 1), min_size=4, max_size=4))
    total = sum(shares)
    codes = (*CODES, "nl")  # "nl" is not a candidate
    probabilities = {c: s / total if total else 0.25 for c, s in zip(codes, shares, strict=True)}
    return LanguageScores(probabilities, draw(st.floats(0, 8)))


def log_probability(
    scores: Sequence[LanguageScores], path: Sequence[str], before: str | None, after: str | None
) -> float:
    """The log-probability of a sequence of languages, minus the penalty of its changes."""
    result = 0.0
    for score, code in zip(scores, path, strict=True):
        total = sum(score.probabilities[c] for c in CODES)
        if not total or max(score.probabilities[c] for c in CODES) < THRESHOLD:
            continue
        probability = max(score.probabilities[code] / total, MIN_PROBABILITY)
        result += min(score.seconds / FULL_SPEECH, 1) * math.log(probability)
    languages = [code for code in (before, *path, after) if code]
    changes = sum(code != following for code, following in pairwise(languages))
    return result - CHANGE_PENALTY * changes


neighbours = st.sampled_from((None, *CODES))


@given(st.lists(language_scores(), min_size=1, max_size=5), neighbours, neighbours)
def test_no_sequence_is_more_probable(
    scores: list[LanguageScores], before: str | None, after: str | None
) -> None:
    sequence = best_sequence(scores, CODES, THRESHOLD, before, after)
    highest = max(
        log_probability(scores, path, before, after) for path in product(CODES, repeat=len(scores))
    )
    assert log_probability(scores, sequence, before, after) == pytest.approx(highest)
