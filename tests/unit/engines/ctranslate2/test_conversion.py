"""Conversion of CTranslate2's results."""

from types import SimpleNamespace

import pytest

from whisperbatch.engines.ctranslate2.engine import to_hypothesis


@pytest.mark.parametrize("length_penalty", [0.0, 1.0, 0.5])
def test_a_prefix_does_not_change_the_mean_log_probability(length_penalty: float) -> None:
    """CTranslate2 divides the total by the length of the text, in which the prefix counts."""
    score = -3.0 / 5**length_penalty
    result = SimpleNamespace(sequences_ids=[[7, 8, 1, 2, 3]], scores=[score], no_speech_prob=0.1)
    hypothesis = to_hypothesis(result, length_penalty, (7, 8))
    assert hypothesis.tokens == (1, 2, 3)
    assert hypothesis.avg_logprob == pytest.approx(-3.0 / 4)
    assert hypothesis.no_speech_prob == 0.1
