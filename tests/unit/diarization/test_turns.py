"""Turns: spans of speakers, both speakers of overlapping speech, and nobody in silence."""

from collections.abc import Sequence

import numpy as np
import pytest

from tests.unit.diarization.synthetic import window
from whisperbatch.diarization.embeddings import Memory
from whisperbatch.diarization.segmentation import FIRST_SAMPLE, FRAME, FRAMES, Window, find_runs
from whisperbatch.diarization.turns import (
    GAP,
    OVERLAP_CONFIDENCE,
    SpeakerFrames,
    find_frames,
    join_frames,
    time_of,
)
from whisperbatch.types import SAMPLING_RATE

NAMES = {0: "A", 1: "B", 2: "C"}


def found(who: dict[int, int], *stretches: tuple[int, int, Sequence[int]]) -> list[SpeakerFrames]:
    """Return the spans of a window whose tracks have these speakers."""
    return both(who, window(*stretches))[0]


def both(who: dict[int, int], each: Window) -> tuple[list[SpeakerFrames], list[SpeakerFrames]]:
    """Return the spans and the exclusive spans of a window whose tracks have these speakers."""
    memory = Memory()
    memory.add(each, find_runs(each), [], np.zeros((0, 1), np.float32))
    bounds = np.array([(s.start, s.end) for s in memory.segments]).reshape(-1, 2)
    labels = np.array([who[s.track] for s in memory.segments], np.int64)
    return find_frames(memory, bounds, labels, np.full(len(labels), 0.9, np.float32))


def times(all_spans: Sequence[SpeakerFrames]) -> list[tuple[int, int, int]]:
    return [(span.start, span.end, span.speaker) for span in all_spans]


def test_overlapping_speech_has_both_speakers() -> None:
    result = found({0: 1, 2: 0}, (20, 100, [0]), (80, 160, [2]))
    assert times(result) == [(20, 80, 1), (80, 100, 0), (80, 100, 1), (100, 160, 0)]
    overlapping = [span for span in result if span.start == 80]
    assert [span.confidence for span in overlapping] == [OVERLAP_CONFIDENCE] * 2


def test_exclusive_spans_have_the_dominant_speaker() -> None:
    each = window((20, 200, [0]), (80, 260, [2]))
    each.alone[:, 2] = np.where(np.arange(FRAMES) < 140, -1.0, 1.0)
    _, exclusive = both({0: 1, 2: 0}, each)
    assert times(exclusive) == [(20, 80, 1), (80, 140, 1), (140, 200, 0), (200, 260, 0)]
    turns = join_frames(exclusive, {0: "A", 1: "B"}, gap=0)
    assert [(turn.start, turn.end, turn.speaker) for turn in turns] == [
        (time_of(20), time_of(140), "B"),
        (time_of(140), time_of(260), "A"),
    ]


def test_exclusive_spans_of_one_voice_in_two_tracks() -> None:
    _, exclusive = both({0: 0, 1: 0}, window((20, 100, [0]), (80, 160, [1])))
    assert times(exclusive) == [(20, 80, 0), (80, 100, 0), (100, 160, 0)]


def test_overlapping_speech_never_has_one_speaker_twice() -> None:
    """The clusters take both tracks for one voice, which has no second voice beside it."""
    result = found({0: 0, 1: 0}, (20, 100, [0]), (80, 160, [1]))
    assert times(result) == [(20, 80, 0), (80, 100, 0), (100, 160, 0)]


def test_the_only_speaker_of_a_recording_is_certain_in_overlapping_tracks() -> None:
    result = found({0: 0, 1: 0}, (20, 100, [0]), (80, 160, [1]))
    assert [span.confidence for span in result if span.start == 80] == [1.0]


def test_two_tracks_of_one_voice_have_no_other_speaker() -> None:
    """Somebody else speaks elsewhere, in another track."""
    result = found({0: 0, 1: 0, 2: 1}, (20, 100, [0]), (80, 160, [1]), (300, 390, [2]))
    assert times(result) == [(20, 80, 0), (80, 100, 0), (100, 160, 0), (300, 390, 1)]


def test_the_near_speech_of_a_track_decides() -> None:
    """The network took two voices for track 0: before the overlap, speaker 1 spoke."""
    each = window((0, 60, [0]), (300, 340, [0]), (330, 400, [1]))
    memory = Memory()
    memory.add(each, find_runs(each), [], np.zeros((0, 1), np.float32))
    bounds = np.array([(s.start, s.end) for s in memory.segments])
    result, _ = find_frames(memory, bounds, np.array([0, 1, 2]), np.ones(3, np.float32))
    assert [s.speaker for s in result if (s.start, s.end) == (330, 340)] == [1, 2]


def test_overlap_by_unknown_tracks_has_the_speakers_around() -> None:
    result = found({0: 0, 1: 1, 2: 1}, (20, 100, [0]), (100, 120, [1, 2]))
    assert times(result) == [(20, 100, 0), (100, 120, 0)]


def test_only_overlapping_speech_has_no_known_speaker() -> None:
    assert found({}, (100, 120, [0, 1])) == []


def test_silence_has_no_spans() -> None:
    assert found({}) == []
    assert join_frames([], {}) == ()


@pytest.mark.parametrize("gap", [0, GAP, GAP + 1])
def test_only_a_short_gap_is_part_of_a_turn(gap: int) -> None:
    turns = join_frames([SpeakerFrames(0, 50, 0, 1.0), SpeakerFrames(50 + gap, 90, 0, 1.0)], NAMES)
    assert len(turns) == (1 if gap <= GAP else 2)
    assert turns[0].start == time_of(0)
    assert turns[-1].end == time_of(90)


def test_a_turn_does_not_end_because_another_speaker_begins() -> None:
    all_spans = [
        SpeakerFrames(0, 50, 0, 1.0),
        SpeakerFrames(40, 70, 1, 1.0),
        SpeakerFrames(50, 90, 0, 1.0),
    ]
    turns = join_frames(all_spans, NAMES)
    assert [(t.start, t.end, t.speaker) for t in turns] == [
        (time_of(0), time_of(90), "A"),
        (time_of(40), time_of(70), "B"),
    ]


def test_a_span_inside_of_another_does_not_end_the_turn_earlier() -> None:
    inside = [SpeakerFrames(0, 90, 0, 1.0), SpeakerFrames(10, 20, 0, 1.0)]
    (turn,) = join_frames(inside, NAMES)
    assert turn.end == time_of(90)
    (turn,) = join_frames([*inside, SpeakerFrames(90, 95, 0, 1.0)], NAMES)
    assert turn.end == time_of(95)


def test_the_confidence_of_a_turn_is_the_mean_over_time() -> None:
    (turn,) = join_frames([SpeakerFrames(0, 30, 0, 1.0), SpeakerFrames(30, 40, 0, 0.2)], NAMES)
    assert turn.confidence == pytest.approx(0.8)


def test_turns_are_in_order_of_time() -> None:
    all_spans = [
        SpeakerFrames(0, 10, 2, 1.0),
        SpeakerFrames(20, 30, 0, 1.0),
        SpeakerFrames(40, 50, 1, 1.0),
    ]
    assert [turn.speaker for turn in join_frames(all_spans, NAMES)] == ["C", "A", "B"]


def test_times_of_frames() -> None:
    assert time_of(0) == FIRST_SAMPLE / SAMPLING_RATE
    assert time_of(1000) == pytest.approx((FIRST_SAMPLE + 1000 * FRAME) / SAMPLING_RATE)
