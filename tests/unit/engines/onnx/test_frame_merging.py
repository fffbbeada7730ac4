from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whisperbatch.engines.onnx import encoder
from whisperbatch.engines.onnx.encoder import (
    MAX_GROUP_SIZE,
    MAX_ROUNDING,
    MIN_SHARE,
    Merged,
    group_count,
    log_sizes,
    merge_positions,
)
from whisperbatch.engines.search import Floats, Integers
from whisperbatch.engines.settings import MIN_KEPT_FRAMES


def sounds(positions: int, seed: int) -> Floats:
    """Hidden states that change slowly, now and then faster, as those of speech."""
    rng = np.random.default_rng(seed)
    speeds = np.repeat(rng.uniform(0.02, 1, positions), rng.integers(5, 20, positions))[:positions]
    times = np.cumsum(speeds)
    frequencies = rng.uniform(0.05, 2, 16)
    return (3 + np.sin(np.outer(times, frequencies) + np.arange(16))).astype(np.float32)


def nearest_first(states: Floats, count: int) -> Merged:
    """Merge one pair after another: the definition, without any of the shortcuts."""
    centred = states - states.mean(axis=1, keepdims=True, dtype=np.float64)
    normalised = centred / centred.std(axis=1, keepdims=True)
    groups = [[position] for position in range(len(states))]

    def distance(pair: int) -> float:
        if len(groups[pair]) + len(groups[pair + 1]) > MAX_GROUP_SIZE:
            return np.inf
        left, right = (normalised[groups[n]].mean(axis=0) for n in (pair, pair + 1))
        return float(np.linalg.norm(left - right))

    distances = [distance(pair) for pair in range(len(groups) - 1)]
    while len(groups) > count:
        nearest = int(np.argmin(distances))
        groups[nearest] += groups.pop(nearest + 1)
        del distances[nearest]
        for pair in range(max(nearest - 1, 0), min(nearest + 1, len(distances))):
            distances[pair] = distance(pair)
    means = np.stack([states[group].mean(axis=0) for group in groups])
    return Merged(means.astype(np.float32), np.array([len(group) for group in groups]))


def firsts(sizes: Integers) -> set[int]:
    return set((np.cumsum(sizes) - sizes).tolist())


@given(st.integers(1, 200), st.floats(MIN_SHARE, 1), st.integers(0, 1000), st.booleans())
def test_every_share_is_reached_with_groups_of_at_most_160_ms(
    positions: int, share: float, seed: int, is_constant: bool
) -> None:
    states = sounds(positions, seed)
    if is_constant:
        states[:] = states[0]
    before = states.copy()
    count = group_count(positions, share)
    merged = merge_positions(states, count)
    assert merged.states.shape == (count, 16)
    assert merged.states.dtype == np.float32
    assert merged.sizes.sum() == positions
    assert 1 <= merged.sizes.min() <= merged.sizes.max() <= MAX_GROUP_SIZE
    assert np.array_equal(states, before)
    ends = np.cumsum(merged.sizes)
    for number, (start, end) in enumerate(pairwise([0, *ends])):
        np.testing.assert_allclose(merged.states[number], states[start:end].mean(0), rtol=1e-4)


def test_the_number_of_groups_is_the_share_of_the_positions() -> None:
    counts = [group_count(300, share) for share in (0.25, 1 / 3, 0.5, 0.55, 1.0)]
    assert counts == [75, 100, 150, 165, 300]
    assert [group_count(positions, 0.25) for positions in (1, 4, 5)] == [1, 1, 2]
    assert MIN_KEPT_FRAMES == MIN_SHARE


def test_the_number_of_groups_is_rounded_to_a_near_multiple() -> None:
    counts = [group_count(positions, 0.7) for positions in (500, 750, 1000, 1250, 1500)]
    assert counts == [350, 512, 704, 896, 1024]
    assert [group_count(1500, share) for share in (0.25, 0.55, 1.0)] == [384, 832, 1500]


@given(st.integers(1, 1500), st.floats(MIN_SHARE, 1))
def test_rounding_changes_the_number_of_groups_little(positions: int, share: float) -> None:
    count, exact = group_count(positions, share), positions * share
    assert exact * (1 - MAX_ROUNDING) - 1 <= count <= exact * (1 + MAX_ROUNDING) + 1
    assert MIN_SHARE * positions <= count <= positions


@pytest.mark.parametrize("count", [0, 24, 101])
def test_a_number_of_groups_that_cannot_be_reached_is_refused(count: int) -> None:
    with pytest.raises(ValueError, match=f"100 positions cannot be merged to {count} groups"):
        merge_positions(sounds(100, 0), count)


@pytest.mark.parametrize("share", [0.25, 0.5, 0.8])
def test_the_nearest_neighbours_are_merged_first(share: float) -> None:
    for seed in range(3):
        states = sounds(300, seed)
        merged = merge_positions(states, group_count(300, share))
        expected = nearest_first(states, group_count(300, share))
        assert len(firsts(merged.sizes) ^ firsts(expected.sizes)) <= 0.03 * 300


def test_neighbours_that_are_equal_become_one_group() -> None:
    rng = np.random.default_rng(0)
    sizes = np.array([1, 8, 3, 1, 1, 5, 2, 7])  # of runs of equal states
    states = np.repeat(rng.standard_normal((len(sizes), 16)), sizes, axis=0).astype(np.float32)
    merged = merge_positions(states, len(sizes))
    assert merged.sizes.tolist() == sizes.tolist()


def test_the_result_depends_on_the_states_alone() -> None:
    states = sounds(1500, 1)
    merged = merge_positions(states, 750)
    rows = np.empty(3 * states.nbytes + 4, np.uint8)
    for offset in (0, 4, states.nbytes):  # another address, and another alignment in memory
        copied = rows[offset : offset + states.nbytes].view(np.float32).reshape(states.shape)
        copied[:] = states
        again = merge_positions(copied, 750)
        assert again.states.tobytes() == merged.states.tobytes()
        assert again.sizes.tobytes() == merged.sizes.tobytes()


def test_noise_in_the_last_digits_moves_few_groups() -> None:
    states = sounds(1500, 2)
    noise = 1e-6 * np.random.default_rng(0).standard_normal(states.shape)
    merged = merge_positions(states, 750)
    noisy = merge_positions((states + noise).astype(np.float32), 750)
    assert len(firsts(merged.sizes) ^ firsts(noisy.sizes)) <= 4


@pytest.mark.parametrize("value", [np.nan, np.inf, 0, 1e30])
def test_states_that_are_not_numbers_end_in_groups_too(value: float) -> None:
    """Weights may be damaged: the error is found in the attention, not here."""
    states = sounds(100, 0)
    states[20:70] = value
    assert merge_positions(states, 50).sizes.sum() == 100


def test_few_rounds_merge_all_positions(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds = []
    distances = encoder._distances

    def counted(squares: Floats, *groups: Integers) -> Floats:
        rounds.append(len(groups[0]))
        result: Floats = distances(squares, *groups)  # type: ignore[arg-type,assignment]
        return result

    monkeypatch.setattr(encoder, "_distances", counted)
    merge_positions(sounds(1500, 3), 750)
    assert len(rounds) <= 20


def test_attention_to_a_group_is_attention_to_its_positions() -> None:
    rng = np.random.default_rng(0)
    sizes = np.array([1, 3, 8])
    scores, values = rng.standard_normal(3), rng.standard_normal((3, 4))
    weights = np.exp(scores + log_sizes(sizes))
    expected = np.exp(np.repeat(scores, sizes))
    np.testing.assert_allclose(
        weights @ values / weights.sum(),
        expected @ np.repeat(values, sizes, axis=0) / expected.sum(),
        rtol=1e-6,
    )
