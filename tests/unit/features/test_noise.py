"""The measure of noise, on built sounds with syllables."""

import numpy as np
import pytest

from whisperbatch.features.measures import is_noisy, share_to_keep
from whisperbatch.features.whisper import WhisperFeatures
from whisperbatch.types import SAMPLING_RATE, Samples

SECONDS = 10


def syllables(rng: np.random.Generator) -> Samples:
    """Return noise at 0.1 with four syllables per second."""
    time = np.arange(SECONDS * SAMPLING_RATE) / SAMPLING_RATE
    envelope = np.maximum(np.sin(2 * np.pi * 4 * time), 0)
    samples: Samples = (0.1 * envelope * rng.standard_normal(len(time))).astype(np.float32)
    return samples


@pytest.mark.parametrize(
    ("decibels", "noisy"), [(-60, False), (-40, False), (-15, True), (0, True)]
)
@pytest.mark.parametrize("n_mels", [80, 128])
def test_noise_between_syllables_makes_a_row_noisy(
    decibels: float, noisy: bool, n_mels: int
) -> None:
    rng = np.random.default_rng(0)
    speech = syllables(rng)
    noise = 0.1 * 10 ** (decibels / 20) * rng.standard_normal(len(speech))
    features = WhisperFeatures(n_mels)((speech + noise).astype(np.float32))
    assert is_noisy(features) is noisy


def test_digital_silence_and_padding_do_not_make_a_noisy_row_clear() -> None:
    rng = np.random.default_rng(0)
    noisy = syllables(rng) + 0.02 * rng.standard_normal(SECONDS * SAMPLING_RATE).astype(np.float32)
    silence = np.zeros(SECONDS * SAMPLING_RATE, np.float32)
    extractor = WhisperFeatures(80)
    features = extractor(np.concatenate([noisy, silence]))
    padding = np.full((80, 500), extractor.pad_value(features), np.float32)
    assert is_noisy(np.concatenate([features, padding], axis=1))
    clear = extractor(np.concatenate([syllables(rng), silence]))
    assert not is_noisy(np.concatenate([clear, padding], axis=1))


@pytest.mark.parametrize("samples", [0, 160, 8000])
def test_rows_without_a_second_of_sound_keep_all_positions(samples: int) -> None:
    row = np.full((80, 3000), -10, np.float32)  # digital silence
    row[:, : samples // 160] = np.random.default_rng(0).standard_normal((80, samples // 160))
    assert share_to_keep(row, 0.5) == 1.0
    assert not is_noisy(row)
