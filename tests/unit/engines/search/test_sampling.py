"""The noise makes the most probable token a sample, and belongs to one hypothesis only."""

from collections import Counter

import numpy as np
import pytest

from whisperbatch.engines.search import TokenNoise
from whisperbatch.protocols import Sampling

LOGITS = np.log(np.array([0.5, 0.3, 0.15, 0.05], np.float32))
DRAWS = 4000


@pytest.mark.parametrize("temperature", [0.3, 1.0, 2.0])
def test_the_most_probable_token_with_noise_is_a_sample(temperature: float) -> None:
    noise = TokenNoise([Sampling(temperature, 1, 7)], len(LOGITS))
    counts = Counter(int(np.argmax(LOGITS + noise(0, 0))) for _ in range(DRAWS))
    weights = np.exp(LOGITS / temperature)
    for token, expected in enumerate(weights / weights.sum()):
        assert counts[token] / DRAWS == pytest.approx(expected, abs=0.03)


def test_the_noise_depends_on_seed_hypothesis_and_step_only() -> None:
    rows = [Sampling(1.0, 2, 3), Sampling(0.5, 2, 4)]
    together, alone = TokenNoise(rows, 50), TokenNoise(rows[1:], 50)
    together(0, 0)
    first, second = (together(1, 1) for _ in range(2))
    np.testing.assert_array_equal(alone(0, 1), first)
    np.testing.assert_array_equal(alone(0, 1), second)
    assert not np.array_equal(first, second)
    assert not np.array_equal(TokenNoise(rows[1:], 50)(0, 0), first)
    assert not np.array_equal(TokenNoise([Sampling(0.5, 2, 5)], 50)(0, 1), first)


def test_the_noise_is_finite() -> None:
    noise = TokenNoise([Sampling(1.0, 1, 0)], 1 << 20)
    assert all(np.isfinite(noise(0, 0)).all() for _ in range(16))
