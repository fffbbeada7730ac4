"""`RegionFinder`: sound without lasting speech, in positions of VAD frames."""

from collections.abc import Sequence

import numpy as np
import pytest

from whisperbatch.options import Options
from whisperbatch.second_opinion.regions import (
    MAX_REGION,
    PADDING,
    RegionFinder,
    RejectedRegion,
)
from whisperbatch.types import SAMPLING_RATE, SpeechFrames

HOP = 512
SECOND = SAMPLING_RATE / HOP  # VAD frames

Part = tuple[float, float, float]
"""Seconds, level in dBFS, and speech probability."""

SILENCE = -80.0
FAINT = -40.0


def frames_of(parts: Sequence[Part], hum: float = SILENCE) -> SpeechFrames:
    """Return noise with these levels, over constant noise of the level `hum`."""
    rng = np.random.default_rng(0)
    samples, probabilities = [], []
    for seconds, level, probability in parts:
        count = round(seconds * SECOND)
        power = 10 ** (level / 10) + 10 ** (hum / 10)
        samples.append(np.sqrt(power) * rng.standard_normal(count * HOP))
        probabilities.append(np.full(count, probability))
    return SpeechFrames(
        np.concatenate(samples).astype(np.float32),
        np.concatenate(probabilities).astype(np.float32),
    )


def regions(parts: Sequence[Part], hum: float = SILENCE, block: int = 64) -> list[RejectedRegion]:
    finder = RegionFinder(Options(), HOP)
    whole = frames_of(parts, hum)
    found: list[RejectedRegion] = []
    for start in range(0, len(whole.probabilities), block):
        samples = whole.samples[start * HOP : (start + block) * HOP]
        for region in finder.push(
            SpeechFrames(samples, whole.probabilities[start : start + block])
        ):
            assert region.end <= finder.frame + 1
            found.append(region)
        assert not found or found[-1].end <= finder.settled
    return found + list(finder.finish())


def seconds(found: Sequence[RejectedRegion]) -> list[tuple[float, float]]:
    return [(region.start / SECOND, region.end / SECOND) for region in found]


def test_sound_that_the_vad_rejects_is_a_region_with_padding() -> None:
    found = regions([(3, SILENCE, 0.0), (4, FAINT, 0.05), (3, SILENCE, 0.0)])
    padding = PADDING / SAMPLING_RATE
    assert seconds(found) == [pytest.approx((3 - padding, 7 + padding), abs=0.07)]


@pytest.mark.parametrize(
    "parts",
    [
        [(10, SILENCE, 0.0)],
        [(3, SILENCE, 0.0), (6, FAINT, 0.9), (3, SILENCE, 0.0)],
        [(3, SILENCE, 0.0), (1.4, FAINT, 0.0), (3, SILENCE, 0.0)],
        # words that the VAD detects, with breaths between them
        [(3, SILENCE, 0.0), *[(0.6, FAINT, 0.9), (0.5, -55.0, 0.0)] * 6, (3, SILENCE, 0.0)],
    ],
    ids=["silence", "speech", "too short", "single words"],
)
def test_silence_speech_and_short_sounds_are_no_regions(parts: list[Part]) -> None:
    assert regions(parts) == []


def test_a_word_that_the_vad_detects_is_part_of_the_region() -> None:
    parts = [(3, SILENCE, 0.0), (2, FAINT, 0.1), (0.6, FAINT, 0.9), (2, FAINT, 0.1)]
    assert len(regions([*parts, (3, SILENCE, 0.0)])) == 1


def test_padding_does_not_reach_into_speech() -> None:
    speech = (2, -20.0, 0.9)
    [found] = regions([(1, SILENCE, 0.0), speech, (4, FAINT, 0.05), speech])
    assert found.start / SECOND == pytest.approx(3, abs=0.07)
    assert found.end / SECOND == pytest.approx(7, abs=0.07)


def test_a_pause_divides_regions() -> None:
    sound = (3, FAINT, 0.0)
    assert len(regions([(1, SILENCE, 0.0), sound, (1, SILENCE, 0.0), sound])) == 1
    assert len(regions([(1, SILENCE, 0.0), sound, (2, SILENCE, 0.0), sound])) == 2


def test_steady_noise_is_the_noise_floor() -> None:
    assert regions([(20, SILENCE, 0.0)], hum=-30) == []
    assert len(regions([(5, SILENCE, 0.0), (4, -15.0, 0.0), (5, SILENCE, 0.0)], hum=-30)) == 1


def test_long_sound_is_cut_where_it_is_quietest() -> None:
    parts = [(1, SILENCE, 0.0), (21, FAINT, 0.0), (0.2, -60.0, 0.0), (21, FAINT, 0.0)]
    first, second = regions(parts)
    assert first.end / SECOND == pytest.approx(22.1, abs=0.15)
    assert second.start == first.end
    for region in (first, second):
        assert region.end - region.start <= (MAX_REGION + 2 * PADDING) / HOP


def test_regions_do_not_depend_on_the_size_of_blocks() -> None:
    parts = [(2, SILENCE, 0.0), (4, FAINT, 0.1), (2, -20.0, 0.9), (20, FAINT, 0.2)]
    expected = regions(parts)
    assert len(expected) == 2
    assert regions(parts, block=1) == regions(parts, block=999) == expected
