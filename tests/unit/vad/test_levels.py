"""Levels for the VAD, and the parts of them that are computed only where they are needed."""

from collections.abc import Iterable, Iterator

import numpy as np
import pytest

from benchmarks.steady_sounds import STEADY, UNSTEADY, syllables, with_sound
from whisperbatch.types import Samples, SpeechFrames
from whisperbatch.vad import steady_sound
from whisperbatch.vad.levels import (
    BLOCK,
    FRAME,
    LEVEL_FRAMES,
    MAX_GAIN,
    SMOOTHING_FRAMES,
    TARGET_LEVEL,
    GainControlledVad,
    frame_levels,
    quantile_of,
    reblock,
)
from whisperbatch.vad.steady_sound import LONG_FRAME, remove_steady_sound


class Recorder:
    """A Vad that keeps what it gets."""

    hop = FRAME

    def __init__(self) -> None:
        self.blocks: list[Samples] = []

    def __call__(self, blocks: Iterable[Samples]) -> Iterator[SpeechFrames]:
        for block in reblock(blocks):
            self.blocks.append(block)
            yield SpeechFrames(block, np.zeros(-(-len(block) // FRAME), np.float32))


def noise(levels: Iterable[float], rest: int = 0) -> Samples:
    """Return noise with a level (dBFS) for each second, without the last `rest` samples."""
    rng = np.random.default_rng(1)
    parts = [10 ** (level / 20) * rng.standard_normal(16_000) for level in levels]
    return np.concatenate(parts)[: -rest or None].astype(np.float32)


def expected_gains(samples: Samples) -> np.ndarray:
    """Return the gain (dB) at the centre of each VAD frame, from the whole recording at once."""
    levels = frame_levels(samples)
    frames = range(len(levels))
    loudest = [levels[max(n - LEVEL_FRAMES, 0) : n + LEVEL_FRAMES + 1].max() for n in frames]
    gains = np.clip(TARGET_LEVEL - np.array(loudest), 0, MAX_GAIN)
    padded = np.pad(gains, SMOOTHING_FRAMES, mode="edge")
    return np.array([padded[n : n + 2 * SMOOTHING_FRAMES + 1].mean() for n in frames])


@pytest.mark.parametrize("rest", [0, 1, FRAME - 1, 15_000])
@pytest.mark.parametrize(
    "levels",
    [[-30] * 3, [-10] * 9 + [-45] * 12 + [-30] * 4, [-45] * 5 + [-10] + [-60] * 14, [-30]],
)
def test_gains_follow_the_levels_around_each_frame(levels: list[float], rest: int) -> None:
    samples = noise(levels, rest)
    vad = Recorder()
    frames = list(GainControlledVad(vad)(iter([samples])))
    np.testing.assert_array_equal(np.concatenate([f.samples for f in frames]), samples)
    raised = np.concatenate(vad.blocks)
    centres = np.arange(FRAME // 2, len(samples), FRAME)
    found = 20 * np.log10(raised[centres] / samples[centres])
    np.testing.assert_allclose(found, expected_gains(samples)[: len(centres)], atol=1e-3)


@pytest.mark.parametrize("count", [1, FRAME - 1, FRAME, BLOCK + 1, 7 * BLOCK])
def test_loud_audio_reaches_the_vad_unchanged(count: int) -> None:
    samples = np.full(count, -0.2, np.float32)
    vad = Recorder()
    list(GainControlledVad(vad)(iter([samples])))
    np.testing.assert_array_equal(np.concatenate(vad.blocks), samples)


@pytest.mark.parametrize("count", [1, FRAME - 1, BLOCK, BLOCK + 1])
def test_silence_stays_silence(count: int) -> None:
    vad = Recorder()
    list(GainControlledVad(vad)(iter([np.zeros(count, np.float32)])))
    np.testing.assert_array_equal(np.concatenate(vad.blocks), np.zeros(count))


def test_complete_blocks_are_not_copied() -> None:
    blocks = [np.zeros(BLOCK, np.float32), np.ones(BLOCK, np.float32)]
    assert [id(block) for block in reblock(blocks)] == [id(block) for block in blocks]


@pytest.mark.parametrize("count", [1, 2, 3, 10, 11, 200])
@pytest.mark.parametrize("quantile", [0.0, 0.25, 0.5, 0.9, 1.0])
def test_quantile_is_that_of_numpy(count: int, quantile: float) -> None:
    values = np.random.default_rng(count).random(count).astype(np.float32)
    found = quantile_of(values, quantile)
    assert found == pytest.approx(np.quantile(values, quantile), rel=1e-6)


@pytest.mark.parametrize("name", [*STEADY, *UNSTEADY])
def test_the_lowest_bins_alone_never_decide_otherwise_than_all(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sound = with_sound(syllables(8.0), {**STEADY, **UNSTEADY}[name], 15).astype(np.float32)
    quick = [block.cleaned for block in remove_steady_sound(reblock([sound]))]
    monkeypatch.setattr(steady_sound, "FIRST_BINS", LONG_FRAME // 2)
    for found, block in zip(quick, remove_steady_sound(reblock([sound])), strict=True):
        if block.cleaned is None or found is None:
            assert found is block.cleaned
        else:
            np.testing.assert_array_equal(found, block.cleaned)


@pytest.mark.parametrize("count", [1, 2047, 2048, 4095, 4096, 6144, BLOCK])
def test_powers_of_two_blocks_are_those_of_their_samples(count: int) -> None:
    samples = noise([-20] * 5)[: BLOCK + count]
    blocks = [steady_sound._Block(block) for block in reblock([samples])]
    np.testing.assert_array_equal(
        steady_sound._Part(*blocks)._joined_powers(), steady_sound._powers(samples)
    )
