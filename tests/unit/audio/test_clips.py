from collections.abc import Generator

import numpy as np
import pytest

from whisperbatch.audio.clips import clips
from whisperbatch.types import Samples

SECOND = 16_000

Ranges = tuple[tuple[float, float | None], ...]


class Source:
    """A recording whose samples count up; `read` is the number of samples read."""

    def __init__(self, length: int, size: int) -> None:
        self.samples: Samples = np.arange(length, dtype=np.float32)
        self.size = size
        self.read = 0

    def blocks(self) -> Generator[Samples, None, None]:
        for start in range(0, len(self.samples), self.size):
            block = self.samples[start : start + self.size]
            self.read += len(block)
            yield block


def read_ranges(source: Source, ranges: Ranges) -> list[tuple[int, Samples]]:
    empty = np.zeros(0, np.float32)
    return [
        (clip.first, np.concatenate([empty, *clip.blocks]))
        for clip in clips(source.blocks(), ranges)
    ]


@pytest.mark.parametrize("size", [1, 7, 1600, SECOND, 3 * SECOND + 1, 10**6])
@pytest.mark.parametrize(
    "ranges",
    [
        ((0.0, None),),
        ((0.0, 0.5), (0.5, 0.75), (0.75, None)),
        ((0.1, 0.2), (1.0, 1.5)),
        ((0.25, 0.250_01), (1.999, None)),
        ((0.5, 1.0), (1.0, 2.0)),
    ],
)
def test_each_range_yields_its_samples(ranges: Ranges, size: int) -> None:
    source = Source(2 * SECOND, size)
    results = read_ranges(source, ranges)
    for (first, audio), (start, end) in zip(results, ranges, strict=True):
        assert first == round(start * SECOND)
        last = 2 * SECOND if end is None else round(end * SECOND)
        np.testing.assert_array_equal(audio, source.samples[first:last])


def test_nothing_is_read_after_the_last_range() -> None:
    source = Source(100 * SECOND, 1000)
    read_ranges(source, ((1.0, 2.0), (3.0, 4.0)))
    assert source.read == 4 * SECOND


def test_block_that_starts_at_the_end_of_the_last_range_is_not_read() -> None:
    source = Source(2 * SECOND, SECOND)
    read_ranges(source, ((0.0, 1.0),))
    assert source.read == SECOND


def test_range_beyond_the_end_is_truncated() -> None:
    source = Source(SECOND, 1000)
    [(first, audio)] = read_ranges(source, ((0.5, 9.0),))
    assert first == SECOND // 2
    np.testing.assert_array_equal(audio, source.samples[SECOND // 2 :])


def test_ranges_after_the_end_are_skipped() -> None:
    results = read_ranges(Source(SECOND, 1000), ((0.5, 0.6), (2.0, 3.0), (4.0, None)))
    assert [first for first, _ in results] == [SECOND // 2]


def test_empty_recording() -> None:
    [(first, audio)] = read_ranges(Source(0, 1), ((0.0, None),))
    assert (first, len(audio)) == (0, 0)
    assert read_ranges(Source(0, 1), ((1.0, 2.0),)) == []


def test_ranges_are_streamed() -> None:
    source = Source(100 * SECOND, 1000)
    clip = next(clips(source.blocks(), ((2.0, None),)))
    assert clip.first == clip.position == 2 * SECOND
    assert len(next(clip.blocks)) == 1000
    assert source.read == 2 * SECOND + 1000


def test_error_of_the_source_is_raised() -> None:
    def broken() -> Generator[Samples, None, None]:
        yield np.zeros(SECOND, np.float32)
        raise OSError("unplugged")

    with pytest.raises(OSError, match="unplugged"):
        [list(clip.blocks) for clip in clips(broken(), ((0.0, None),))]
    with pytest.raises(OSError, match="unplugged"):
        list(clips(broken(), ((2.0, None),)))


def test_ranges_without_room_for_speech_are_skipped() -> None:
    source = Source(2 * SECOND, 1000)
    ranges: Ranges = ((0.0, 0.05), (0.1, 0.2), (0.3, 0.35), (0.5, None))
    clip_list = [(clip.first, list(clip.blocks)) for clip in clips(source.blocks(), ranges, 1600)]
    assert [first for first, _ in clip_list] == [1600, 8000]
    np.testing.assert_array_equal(np.concatenate(clip_list[0][1]), source.samples[1600:3200])
    np.testing.assert_array_equal(np.concatenate(clip_list[1][1]), source.samples[8000:])


def test_of_a_range_that_began_before_the_audio_only_the_rest_is_read() -> None:
    source = Source(4 * SECOND, 1000)
    ranges: Ranges = ((0.0, 0.5), (1.0, 3.0), (3.5, None))
    clip_list = [
        (clip.first, clip.last, clip.position, np.concatenate(list(clip.blocks)))
        for clip in clips(source.blocks(), ranges, position=2 * SECOND)
    ]
    assert [clip[:3] for clip in clip_list] == [
        (SECOND, 3 * SECOND, 2 * SECOND),
        (7 * SECOND // 2, None, 7 * SECOND // 2),
    ]
    np.testing.assert_array_equal(clip_list[0][3], source.samples[:SECOND])
    np.testing.assert_array_equal(clip_list[1][3], source.samples[3 * SECOND // 2 :])
