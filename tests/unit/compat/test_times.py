"""Times of segments without word times: of their clip, or of their window."""

import pytest

from whisperbatch.compat.faster_whisper._results import Segment
from whisperbatch.compat.faster_whisper._session import Clip, from_window_start, with_clip_times


def segments(*times: tuple[float, float]) -> list[Segment]:
    return [Segment(1, 0, start, end, " a", [], 0, 0, 0, None, 0) for start, end in times]


@pytest.mark.parametrize(
    ("words", "clips", "expected"),
    [
        ([(0.3, 10.2), (11.4, 21)], [(0, 11), (11, 22)], [(0, 11), (11, 22)]),
        ([(0.3, 20), (31, 44)], [(0, 45)], [(0, 20), (31, 45)]),  # two chunks of one clip
        ([(5.3, 20)], [(0, 4), (5, None)], [(5, 20)]),  # no speech in the first clip
        ([(50, 51)], [(0, 4)], [(50, 51)]),
        ([], [(0, 4)], []),
    ],
)
def test_segments_have_the_times_of_their_clips(
    words: list[tuple[float, float]],
    clips: list[Clip],
    expected: list[tuple[float, float]],
) -> None:
    timed = with_clip_times(segments(*words), clips)
    assert [(segment.start, segment.end) for segment in timed] == expected


def test_text_with_a_prefix_starts_with_its_window() -> None:
    words = [(0.4, 2.0), (2.5, 3.0)]
    assert [s.start for s in from_window_start(segments(*words), 0.0, 1.0)] == [0.0, 2.5]
    assert [s.start for s in from_window_start(segments(*words), 0.0, 0.3)] == [0.4, 2.5]
    assert list(from_window_start([], 0.0, 1.0)) == []
