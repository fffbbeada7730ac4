"""Samples of even sound in which nothing shows any speech."""

import numpy as np
import pytest

from whisperbatch.second_opinion.regions import MAX_REGION, SampleFinder
from whisperbatch.types import SpeechFrames

HOP = 512
BLOCK = 64


def block(level: float = 0.1, probability: float = 0.01) -> SpeechFrames:
    return SpeechFrames(
        np.full(BLOCK * HOP, level, np.float32), np.full(BLOCK, probability, np.float32)
    )


def samples(
    blocks: list[SpeechFrames], regions: frozenset[int] = frozenset()
) -> list[tuple[int, int]]:
    finder = SampleFinder(0.5, HOP)
    found = [
        region
        for number, each in enumerate(blocks)
        for region in finder.push(each, in_region=number in regions)
    ]
    found += finder.finish()
    assert all((region.end - region.start) * HOP <= MAX_REGION for region in found)
    return [(region.start, region.end) for region in found]


def test_even_sound_has_one_sample() -> None:
    assert samples([block()] * 200) == [(0, 11 * BLOCK)]


def test_a_sample_with_text_is_followed_by_another() -> None:
    finder = SampleFinder(0.5, HOP)
    found = []
    for _ in range(40):
        found += list(finder.push(block(), in_region=False))
        finder.wanted = True
    assert len(found) == 3
    assert [region.start for region in found] == [0, found[0].end, found[1].end]


@pytest.mark.parametrize(
    "breaks", [block(level=1e-4), block(probability=0.9)], ids=["silence", "speech"]
)
def test_silence_and_speech_begin_a_new_range(breaks: SpeechFrames) -> None:
    assert samples(([block()] * 8 + [breaks]) * 9) == []
    assert samples([block()] * 5 + [breaks] + [block()] * 30) == [(6 * BLOCK, 17 * BLOCK)]


def test_regions_are_checked_elsewhere() -> None:
    assert samples([block()] * 30, frozenset(range(0, 30, 5))) == []


def test_a_short_recording_of_even_sound_is_its_own_sample() -> None:
    assert samples([block()] * 3) == [(0, 3 * BLOCK)]
    assert samples([block(probability=0.9), *[block()] * 3]) == []
    assert samples([block(level=0.0)] * 3) == []
