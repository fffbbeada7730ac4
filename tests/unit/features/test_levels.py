"""Soft speech is raised to the level of the loudest speech in its chunk."""

import numpy as np
import pytest

from whisperbatch.features.levels import FRAME, MARGIN, MAX_GAIN, level_speech
from whisperbatch.types import Chunk, Samples, SpeechSpan, to_samples


def noise(seconds: float, dbfs: float) -> Samples:
    values = np.random.default_rng(0).standard_normal(to_samples(seconds))
    scaled: Samples = (values / values.std() * 10 ** (dbfs / 20)).astype(np.float32)
    return scaled


def chunk_of(*levels: float, start: int = 0, seconds: float = 2.0) -> Chunk:
    """Return a chunk with a span of each level, and pauses of 1 s at -80 dBFS."""
    parts: list[Samples] = []
    spans: list[SpeechSpan] = []
    position = start
    for dbfs in levels:
        parts += [noise(seconds, dbfs), noise(1.0, -80)]
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
