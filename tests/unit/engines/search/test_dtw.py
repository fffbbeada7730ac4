import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whisperbatch.engines.alignment import (
    MEDIAN_WIDTH,
    _dtw_starts,
    median_filter,
    token_starts,
)
from whisperbatch.errors import EngineError


def slow_path_cost(costs: np.ndarray) -> float:
    """Return the cost of the cheapest path, computed position by position."""
    tokens, positions = costs.shape
    sums = np.full((tokens + 1, positions + 1), np.inf)
    sums[0, 0] = 0
    for token, position in np.ndindex(tokens, positions):
        before = min(sums[token, position], sums[token, position + 1], sums[token + 1, position])
        sums[token + 1, position + 1] = costs[token, position] + before
    return float(sums[-1, -1])


def path_cost(costs: np.ndarray, starts: np.ndarray) -> float:
    """Return the cost of the cheapest path that reaches each token at its start."""
    tokens, positions = costs.shape
    total = 0.0
    for token, start in enumerate(starts):
        next_start = starts[token + 1] if token + 1 < tokens else positions
        next_position = costs[token, start : max(next_start, start + 1)].sum()
        # a step to the next token alone: this token also has the position of the next start
        same_position = (
            costs[token, start : next_start + 1].sum()
            if token + 1 < tokens and next_start > start
            else np.inf
        )
        total += min(next_position, same_position)
    return total


@given(st.integers(0, 10_000), st.integers(1, 8), st.integers(1, 20))
def test_the_path_is_the_cheapest(seed: int, tokens: int, positions: int) -> None:
    costs = np.random.default_rng(seed).normal(size=(tokens, positions))
    starts = _dtw_starts(costs)
    assert starts[0] == 0
    assert (np.diff(starts) >= 0).all()
    assert path_cost(costs, starts) == pytest.approx(slow_path_cost(costs))


@given(st.integers(0, 10_000), st.integers(1, 40))
def test_the_median_filter_equals_numpys_median(seed: int, count: int) -> None:
    values = np.random.default_rng(seed).normal(size=(2, 3, count)).astype(np.float32)
    filtered = median_filter(values)
    half = MEDIAN_WIDTH // 2
    if count <= half:
        assert np.array_equal(filtered, values)
        return
    padded = np.pad(values, ((0, 0), (0, 0), (half, half)), mode="reflect")
    windows = np.lib.stride_tricks.sliding_window_view(padded, MEDIAN_WIDTH, axis=-1)
    assert np.array_equal(filtered, np.median(windows, axis=-1).astype(np.float32))


def test_tokens_begin_where_their_attention_begins() -> None:
    spans = [(0, 40), (40, 70), (70, 150), (150, 200)]
    rng = np.random.default_rng(0)
    scores = rng.normal(0, 0.3, (6, len(spans), 200)).astype(np.float32)
    for token, (start, end) in enumerate(spans):
        scores[:, token, start:end] += 6
    starts = token_starts(scores)
    assert np.abs(starts - [start for start, _ in spans]).max() <= MEDIAN_WIDTH // 2


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_scores_of_damaged_weights(value: float) -> None:
    scores = np.zeros((2, 3, 50), np.float32)
    scores[1, 2, 7] = value
    with pytest.raises(EngineError, match="the weights are damaged"):
        token_starts(scores)


def test_one_token_or_one_position_begins_at_0() -> None:
    assert token_starts(np.zeros((2, 1, 50), np.float32)).tolist() == [0]
    assert token_starts(np.zeros((2, 3, 1), np.float32)).tolist() == [0, 0, 0]
