"""The stream of the mix: a span equals the whole, transitions, latency, notices."""

from collections.abc import Iterator

import numpy as np
import pytest

from tests.unit.audio.mixing.voices import noise, relative_level, voice
from whisperbatch.audio import mixing
from whisperbatch.audio.mixing import CELL, LOOK_AHEAD, mix
from whisperbatch.audio.resampling import ChannelBlock
from whisperbatch.types import SAMPLING_RATE, SECTION, WARM_UP, Notices, Samples, Span

VOICE = voice(1, 30)


@pytest.fixture(autouse=True)
def _counter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        mixing, "count_speech", lambda sound: 60 if counter_of(sound) else 0, raising=True
    )


def counter_of(sound: Samples) -> bool:
    """Whether a sound has pauses, as a voice has."""
    frames = sound[: len(sound) // 800 * 800].reshape(-1, 800)
    levels = 10 * np.log10(np.mean(np.square(frames), axis=1) + 1e-12)
    return bool(levels.max() - levels.min() > 20)


def blocks(channels: Samples, size: int = SAMPLING_RATE) -> Iterator[Samples]:
    for start in range(0, len(channels), size):
        yield channels[start : start + size]


def mixed(channels: Samples, notices: Notices | None = None, position: int = 0) -> Samples:
    return np.concatenate(list(mix(blocks(channels), notices, position)))


def test_ordinary_stereo_is_exactly_the_mean() -> None:
    channels = np.stack([VOICE, 0.7 * VOICE], axis=1)
    notices = Notices("memory")
    samples = mixed(channels, notices)
    np.testing.assert_array_equal(samples, channels.mean(axis=1, dtype=np.float32))
    assert notices.all() == ()


def test_inverted_from_the_middle_on() -> None:
    later = np.arange(len(VOICE)) >= 15 * SAMPLING_RATE
    channels = np.stack([VOICE, np.where(later, -VOICE, VOICE)], axis=1)
    notices = Notices("memory")
    samples = mixed(channels, notices)
    np.testing.assert_allclose(samples, VOICE, atol=1e-6)
    assert [notice.kind for notice in notices.all()] == ["channels", "channels"]
    first, second = notices.all()
    assert first.start <= 15 <= first.end == second.start
    assert second.end == 30
    assert "inverted" in second.text


def test_a_choice_depends_on_its_cell_and_the_look_ahead_alone() -> None:
    channels = np.stack([VOICE, -VOICE], axis=1)
    changed = channels.copy()
    changed[3 * CELL + LOOK_AHEAD :] = noise(1)[0]
    np.testing.assert_array_equal(mixed(channels)[: 3 * CELL], mixed(changed)[: 3 * CELL])


def test_the_sizes_of_blocks_do_not_matter() -> None:
    channels = np.stack([VOICE, noise(3, 30, level=0.2)], axis=1)
    expected = mixed(channels)
    for size in (1000, 16_001, len(channels)):
        samples = np.concatenate(list(mix(blocks(channels, size))))
        np.testing.assert_array_equal(samples, expected)


def test_a_span_has_the_samples_of_the_whole() -> None:
    """Inverted at first: what was chosen before a span is not remembered."""
    start = Span(1).start
    assert start == SECTION - WARM_UP
    sound = np.tile(VOICE, 11)[: start + 20 * SAMPLING_RATE]
    sound[start : start + SAMPLING_RATE] = 0
    channels = np.stack([sound, -sound], axis=1)
    channels[start:, 1] += noise(4, 20, level=0.2)
    whole = mixed(channels)
    np.testing.assert_array_equal(mixed(channels[start:], None, start), whole[start:])
    earlier = start - 17_000  # as a reader that begins at a whole second
    np.testing.assert_array_equal(mixed(channels[earlier:], None, earlier)[17_000:], whole[start:])


def test_the_first_samples_come_after_a_cell_and_its_look_ahead() -> None:
    count = 0

    def counted() -> Iterator[Samples]:
        nonlocal count
        for block in blocks(np.stack([VOICE, -VOICE], axis=1), 1600):
            count += len(block)
            yield block

    first = next(mix(counted()))
    assert len(first) <= SAMPLING_RATE
    assert count <= CELL + LOOK_AHEAD + 1600


def test_no_click_where_the_choice_changes() -> None:
    later = np.arange(len(VOICE)) >= 14.4 * SAMPLING_RATE
    tone = np.sin(2 * np.pi * 300 * np.arange(len(VOICE)) / SAMPLING_RATE).astype(np.float32)
    channels = np.stack([VOICE, np.where(later, tone, VOICE)], axis=1)
    samples = mixed(channels)
    steps = np.abs(np.diff(samples))
    assert steps.max() <= 1.5 * np.abs(np.diff(VOICE)).max()


def test_the_number_of_channels_changes() -> None:
    parts = [VOICE[:50_000], np.stack([VOICE, -VOICE], axis=1)[50_000:150_000], VOICE[150_000:]]
    samples = np.concatenate(list(mix(parts)))
    assert len(samples) == len(VOICE)
    assert relative_level(samples, VOICE) > 20
    np.testing.assert_array_equal(samples[150_000:], VOICE[150_000:])


def test_no_notice_comes_before_the_first_sample_that_is_needed() -> None:
    channels = np.stack([VOICE, -VOICE], axis=1)
    notices = Notices("memory")
    first = SECTION - WARM_UP
    begin = first - 10 * SAMPLING_RATE - 100
    list(mixing.Mixer(notices, begin, first)(map(ChannelBlock.of, blocks(channels))))
    [notice] = notices.all()
    assert notice.start == first / SAMPLING_RATE
    assert notice.end == (begin + len(VOICE)) / SAMPLING_RATE
