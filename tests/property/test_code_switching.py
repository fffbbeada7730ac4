"""The likeliest sequence of languages is the best of all that there are."""

import math
from collections.abc import Sequence
from itertools import pairwise, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whisperbatch.language.code_switching import CHANGE, FULL, LEAST, likeliest
from whisperbatch.types import LanguageScores

CODES = ("en", "fr", "de")
THRESHOLD = 0.5


@st.composite
def places(draw: st.DrawFn) -> LanguageScores:
    shares = draw(st.lists(st.floats(0, 1), min_size=4, max_size=4))
    total = sum(shares)
    codes = (*CODES, "nl")  # one that is no candidate
    probabilities = {c: s / total if total else 0.25 for c, s in zip(codes, shares, strict=True)}
    return LanguageScores(probabilities, draw(st.floats(0, 8)))


def worth(
    heard: Sequence[LanguageScores], path: Sequence[str], before: str | None, after: str | None
) -> float:
    """Log-probability of a sequence."""
    found = 0.0
    for one, code in zip(heard, path, strict=True):
        total = sum(one.probabilities[c] for c in CODES)
        if not total or max(one.probabilities[c] for c in CODES) < THRESHOLD:
            continue
        share = max(one.probabilities[code] / total, LEAST)
        found += min(one.seconds / FULL, 1) * math.log(share)
    joined = [code for code in (before, *path, after) if code]
    return found - CHANGE * sum(one != other for one, other in pairwise(joined))


ends = st.sampled_from((None, *CODES))


@given(st.lists(places(), min_size=1, max_size=5), ends, ends)
def test_no_sequence_is_likelier(
    heard: list[LanguageScores], before: str | None, after: str | None
) -> None:
    found = likeliest(heard, CODES, THRESHOLD, before, after)
    best = max(worth(heard, path, before, after) for path in product(CODES, repeat=len(heard)))
    assert worth(heard, found, before, after) == pytest.approx(best)
