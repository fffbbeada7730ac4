"""The measurements of retries: noise at a level, and sums of figures."""

import numpy as np
import pytest

from benchmarks import corpora, retries, scoring
from benchmarks.sounds import level


def test_the_noise_has_its_level_and_is_repeatable() -> None:
    name = "prompts:en:20:0"
    clean = retries.build(name, None)
    noisy, again = (retries.build(name, 10.0) for _ in range(2))
    assert clean.samples.tolist() == corpora.build(name).samples.tolist()
    assert noisy.samples.tolist() == again.samples.tolist()
    noise = noisy.samples.astype(np.float64) - clean.samples
    assert level(clean.samples.astype(np.float64)) - level(noise) == pytest.approx(10, abs=0.2)
    assert noisy.utterances == clean.utterances


def test_figures_add_up() -> None:
    one = retries.Figures(scoring.Score(10, 1, 0, 0), chunks=2, calls=1, rows=2, seconds=1.5)
    both = one + retries.Figures(scoring.Score(10, 0, 2, 0), chunks=3, retried=1, calls=3, rows=4)
    assert (both.score.words, both.score.errors, both.chunks, both.retried) == (20, 3, 5, 1)
    assert (both.calls, both.rows, both.seconds) == (4, 6, 1.5)
    assert str(both).split() == ["3", "15.00%", "1", "of", "5", "0", "4", "1.5", "1.5"]
