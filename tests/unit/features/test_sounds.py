"""Soft speech is raised; the measure of noise; the correlation of sounds."""

from dataclasses import replace

import numpy as np
import pytest

from tests.unit.fakes import noise
from tests.unit.synthetic_words import word
from whisperbatch.features.levels import FRAME, MARGIN, MAX_GAIN, level_speech
from whisperbatch.features.measures import (
    HOP,
    band_levels,
    correlations,
    has_pattern,
    is_noisy,
    share_to_keep,
)
from whisperbatch.features.whisper import WhisperFeatures
from whisperbatch.types import SAMPLING_RATE, Chunk, Samples, SpeechSpan, to_samples


def noise_of_level(seconds: float, dbfs: float) -> Samples:
    values = np.random.default_rng(0).standard_normal(to_samples(seconds))
    scaled: Samples = (values / values.std() * 10 ** (dbfs / 20)).astype(np.float32)
    return scaled


def chunk_of(*levels: float, start: int = 0, seconds: float = 2.0) -> Chunk:
    """Return a chunk with a span of each level, and pauses of 1 s at -80 dBFS."""
    parts: list[Samples] = []
    spans: list[SpeechSpan] = []
    position = start
    for dbfs in levels:
        parts += [noise_of_level(seconds, dbfs), noise_of_level(1.0, -80)]
        spans.append(SpeechSpan(position, position + len(parts[-2])))
        position += len(parts[-2]) + len(parts[-1])
    samples = np.concatenate(parts[:-1])
    return Chunk(0, 0, (SpeechSpan(start, start + len(samples)),), tuple(spans), samples)


def levels_of(chunk: Chunk, samples: Samples) -> list[float]:
    return [
        10 * np.log10(np.mean(samples[span.start - chunk.start : span.end - chunk.start] ** 2))
        for span in chunk.speech
    ]


@pytest.mark.parametrize("start", [0, 123_456])
def test_soft_spans_are_raised_and_the_loudest_is_unchanged(start: int) -> None:
    chunk = chunk_of(-20, -40, -22, -70, start=start)
    before = chunk.samples.copy()
    after = level_speech(chunk)
    assert levels_of(chunk, after) == pytest.approx([-20, -20 - MARGIN, -22, -40], abs=0.1)
    assert np.array_equal(after[: to_samples(2)], chunk.samples[: to_samples(2)])
    assert np.array_equal(chunk.samples, before)
    assert after.dtype == np.float32
    assert after.shape == chunk.samples.shape


def test_similar_levels_are_unchanged() -> None:
    chunk = chunk_of(-20, -20 - MARGIN + 0.5, -21)
    assert level_speech(chunk) is chunk.samples


def test_one_span_is_unchanged_whatever_its_level_is() -> None:
    chunk = chunk_of(-70)
    assert level_speech(chunk) is chunk.samples


def test_the_gain_changes_gradually_in_a_pause_and_never_attenuates() -> None:
    chunk = chunk_of(-50, -20, -45)
    factors = level_speech(chunk) / chunk.samples
    assert factors.min() >= 1 - 1e-5
    assert np.abs(np.diff(20 * np.log10(factors))).max() < 0.01


def test_gains_before_between_and_after_spans_are_interpolated() -> None:
    chunk = chunk_of(-50, -20, -45)
    first, second, third = chunk.speech
    spans = (
        SpeechSpan(first.start + 5000, first.end),
        SpeechSpan(second.start, third.start),  # the third follows without a pause
        SpeechSpan(third.start, third.end - 3000),
    )
    factors = level_speech(replace(chunk, speech=spans)) / chunk.samples
    gains = [20 * np.log10(factors[(span.start + span.end) // 2]) for span in spans]
    decibels = np.interp(
        np.arange(len(factors)),
        [border for span in spans for border in (span.start, span.end)],
        np.repeat(gains, 2),
    )
    np.testing.assert_allclose(20 * np.log10(factors), decibels, atol=1e-3)


def test_a_silent_span_and_a_span_shorter_than_a_frame_get_a_finite_level() -> None:
    loud = chunk_of(-20)
    short = np.full(FRAME // 4, 0.001, np.float32)
    samples = np.concatenate([loud.samples, np.zeros(16_000, np.float32), short])
    end = len(loud.samples)
    spans = (*loud.speech, SpeechSpan(end, end + 16_000), SpeechSpan(end + 16_000, len(samples)))
    after = level_speech(Chunk(0, 0, (SpeechSpan(0, len(samples)),), spans, samples))
    assert np.isfinite(after).all()
    assert not after[end : end + 16_000].any()
    assert after[-1] == pytest.approx(0.001 * 10 ** (MAX_GAIN / 20), rel=1e-3)


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
