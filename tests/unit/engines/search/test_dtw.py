import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whisperbatch.engines.search.dtw import WIDTH, _warped, median, token_starts


def slowly_warped(costs: np.ndarray) -> float:
    """The cheapest way's cost, cell by cell."""
    tokens, positions = costs.shape
    sums = np.full((tokens + 1, positions + 1), np.inf)
    sums[0, 0] = 0
    for token, position in np.ndindex(tokens, positions):
        before = min(sums[token, position], sums[token, position + 1], sums[token + 1, position])
        sums[token + 1, position + 1] = costs[token, position] + before
    return float(sums[-1, -1])


def cheapest_through(costs: np.ndarray, entered: np.ndarray) -> float:
    """The cost of the way that enters each row there, and stays in it until the next is entered."""
    tokens, positions = costs.shape
    total = 0.0
    for token, start in enumerate(entered):
        following = entered[token + 1] if token + 1 < tokens else positions
        after = costs[token, start : max(following, start + 1)].sum()
        # down, then both: the cell below the end of the row may be entered from above
        shared = (
            costs[token, start : following + 1].sum()
            if token + 1 < tokens and following > start
            else np.inf
        )
        total += min(after, shared)
    return total


@given(st.integers(0, 10_000), st.integers(1, 8), st.integers(1, 20))
def test_the_way_is_the_cheapest(seed: int, tokens: int, positions: int) -> None:
    costs = np.random.default_rng(seed).normal(size=(tokens, positions))
    entered = _warped(costs)
    assert entered[0] == 0
    assert (np.diff(entered) >= 0).all()
    assert cheapest_through(costs, entered) == pytest.approx(slowly_warped(costs))


@given(st.integers(0, 10_000), st.integers(1, 40))
def test_median(seed: int, count: int) -> None:
    values = np.random.default_rng(seed).normal(size=(2, 3, count)).astype(np.float32)
    found = median(values)
    half = WIDTH // 2
    if count <= half:
        assert np.array_equal(found, values)
        return
    padded = np.pad(values, ((0, 0), (0, 0), (half, half)), mode="reflect")
    windows = np.lib.stride_tricks.sliding_window_view(padded, WIDTH, axis=-1)
    assert np.array_equal(found, np.median(windows, axis=-1).astype(np.float32))


def test_tokens_begin_where_they_are_attended_to() -> None:
    spans = [(0, 40), (40, 70), (70, 150), (150, 200)]
    rng = np.random.default_rng(0)
    scores = rng.normal(0, 0.3, (6, len(spans), 200)).astype(np.float32)
    for token, (start, end) in enumerate(spans):
        scores[:, token, start:end] += 6
    found = token_starts(scores)
    assert np.abs(found - [start for start, _ in spans]).max() <= WIDTH // 2


def test_one_token_begins_at_the_start() -> None:
    assert token_starts(np.zeros((2, 1, 50), np.float32)).tolist() == [0]
    assert token_starts(np.zeros((2, 3, 1), np.float32)).tolist() == [0, 0, 0]
