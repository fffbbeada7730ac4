"""The correlation of sounds: high for the same sound, low for others and for steady sounds."""

import numpy as np
import pytest

from tests.unit.synthetic_words import noise, word
from whisperbatch.features.measures import HOP, band_levels, correlations, has_pattern


def test_the_same_sound_is_found_at_its_place_at_any_level() -> None:
    silence = noise(0.5, seed=9) * 1e-3
    audio = np.concatenate([silence, word("one"), silence, 0.1 * word("one"), silence])
    levels = band_levels(audio)
    start, length = len(silence) // HOP, len(word("one")) // HOP
    found = correlations(levels[start : start + length], levels)
    second = (2 * len(silence) + len(word("one"))) // HOP
    assert found[start] == pytest.approx(1.0, abs=0.01)
    assert found[second - 2 : second + 3].max() > 0.9
    assert np.delete(found, range(start - 20, start + 21)).argmax() == pytest.approx(
        second - 41, abs=2
    )


def test_other_sounds_and_noise_are_not_similar() -> None:
    levels = band_levels(np.concatenate([word("one"), word("two"), noise(1.0)]))
    length = len(word("one")) // HOP
    assert correlations(levels[:length], levels[length:]).max() < 0.5
    steady = band_levels(noise(2.0))
    assert correlations(steady[:40], steady[60:]).max() < 0.5


def test_a_steady_sound_has_no_pattern() -> None:
    assert not has_pattern(band_levels(np.zeros(16_000, np.float32)))
    assert has_pattern(band_levels(word("one")))
    levels = band_levels(np.full(16_000, 0.5, np.float32))
    assert correlations(levels[10:40], levels[:90]).tolist() == [0.0] * 61


def test_a_pattern_that_is_too_long_fits_nowhere() -> None:
    levels = band_levels(word("one"))
    assert correlations(levels, levels[:-1]).size == 0
