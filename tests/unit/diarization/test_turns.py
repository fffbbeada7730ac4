"""The speaker of each step, and turns: overlapping speech, and nobody in silence."""

from collections.abc import Sequence
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.diarization.synthetic import window
from whisperbatch.diarization.embeddings import Memory, TrackSegment
from whisperbatch.diarization.segmentation import FIRST_SAMPLE, FRAME, FRAMES, Window, find_runs
from whisperbatch.diarization.turns import (
    CHANGE,
    GAP,
    OVERLAP_CONFIDENCE,
    STEP_FRAMES,
    Scores,
    SpeakerFrames,
    find_frames,
    join_frames,
    label_steps,
    rate_labels,
    score_steps,
    time_of,
)
from whisperbatch.types import SAMPLING_RATE

SECOND = SAMPLING_RATE // FRAME  # frames, about


def scores(*rows: tuple[float, ...]) -> Scores:
    return np.array(rows, np.float32)


def steps_of(
    segments: list[TrackSegment], centres: list[int], values: Scores
) -> tuple[Scores, ...]:
    bounds, found, owners = score_steps(segments, np.array(centres, np.int64), values)
    return bounds, found, owners  # type: ignore[return-value]


@settings(max_examples=100)
@given(st.lists(st.tuples(st.integers(0, 20), st.integers(1, 50)), min_size=1, max_size=8))
def test_steps_cover_each_segment_once(drawn: list[tuple[int, int]]) -> None:
    segments, at = [], 0
    for number, (gap, length) in enumerate(drawn):
        segments.append(TrackSegment(at + gap, at + gap + length, 0, 0, number))
        at += gap + length
    bounds, values, owners = score_steps(
        segments, np.zeros(0, np.int64), np.zeros((0, 2), np.float32)
    )
    assert len(bounds) == len(values) == len(owners)
    for number, segment in enumerate(segments):
        own = bounds[owners == number]
        assert own[0, 0] == segment.start
        assert own[-1, 1] == segment.end
        assert own[1:, 0].tolist() == own[:-1, 1].tolist()
        lengths = own[:, 1] - own[:, 0]
        assert (lengths[:-1] == STEP_FRAMES).all()
        assert 0 < lengths[-1] <= STEP_FRAMES


def test_scores_are_interpolated_between_the_middles_of_pieces() -> None:
    long = TrackSegment(0, 4 * SECOND, 0, 0, 1, [0, 1])
    bounds, values, _ = steps_of(
        [long], [SECOND, 3 * SECOND], scores((1.0, 0.0, 0.2), (0.0, 1.0, 0.2))
    )
    middles = bounds.mean(axis=1)
    expected = np.clip((3 * SECOND - middles) / (2 * SECOND), 0, 1)
    np.testing.assert_allclose(values[:, 0], expected, atol=1e-5)
    np.testing.assert_allclose(values[:, 2], 0.2, atol=1e-6)


def test_a_short_run_also_trusts_its_track() -> None:
    """The longer the run, the less."""
    first = TrackSegment(0, 3 * SECOND, 0, 1, 1, [0])
    firsts = []
    for seconds in (0.3, 0.6, 1.6):
        end = 4 * SECOND + round(seconds * SECOND)
        second = TrackSegment(4 * SECOND, end, 0, 1, 2, [1])
        _, values, owners = steps_of(
            [first, second], [SECOND, 4 * SECOND], scores((0.8, 0.2), (0.2, 0.8))
        )
        firsts.append(float(values[owners == 1][0, 0]))
    assert firsts == sorted(firsts, reverse=True)
    assert firsts[0] > 0.35
    assert firsts[-1] == pytest.approx(0.2, abs=0.01)


def test_a_phrase_between_pauses_has_the_scores_of_its_own_pieces() -> None:
    """A chain of three phrases, the second by another voice. Short phrases are trusted less."""
    firsts = []
    for seconds in (0.4, 1.0):
        middle = 3 * SECOND + round(seconds * SECOND)
        parts = [
            TrackSegment(0, 3 * SECOND, 0, 0, 1, [0], 1),
            TrackSegment(3 * SECOND, middle, 0, 0, 1, [1], 2),
            TrackSegment(middle, middle + 3 * SECOND, 0, 0, 1, [2], 3),
        ]
        centres = [3 * SECOND // 2, 3 * SECOND + 10, middle + 3 * SECOND // 2]
        _, values, owners = steps_of(parts, centres, scores((0.8, 0.2), (0.2, 0.8), (0.8, 0.2)))
        np.testing.assert_allclose(values[owners != 1][:, 0], 0.8, atol=1e-6)
        firsts.append(float(values[owners == 1][-1, 0]))
    assert 0.2 < firsts[0] < 0.5
    assert firsts[1] == pytest.approx(0.2, abs=0.01)


def test_a_run_without_pieces_has_the_speaker_of_its_track() -> None:
    first = TrackSegment(0, 3 * SECOND, 0, 1, 1, [0])
    other = TrackSegment(3 * SECOND, 6 * SECOND, 0, 2, 2, [1])
    short = TrackSegment(6 * SECOND, 6 * SECOND + 10, 0, 1, 3)
    segments = [first, other, short]
    bounds, values, owners = steps_of(
        segments, [SECOND, 4 * SECOND], scores((0.8, 0.2), (0.3, 0.7))
    )
    labels = label_steps(segments, bounds, values, owners)  # type: ignore[arg-type]
    assert [set(labels[owners == number].tolist()) for number in range(3)] == [{0}, {1}, {0}]


def test_a_track_of_another_window_is_another_track() -> None:
    first = TrackSegment(0, 3 * SECOND, 0, 1, 1, [0])
    short = TrackSegment(6 * SECOND, 6 * SECOND + 10, 1, 1, 3)
    _, values, owners = steps_of([first, short], [SECOND], scores((0.8, 0.2)))
    assert (values[owners == 1] == 0).all()


def labels_of(values: Scores, chains: list[int], length: int = STEP_FRAMES) -> list[int]:
    """Return the speakers of steps; consecutive steps of one chain are one segment."""
    segments = [
        TrackSegment(number * length, (number + 1) * length, 0, 0, chain)
        for number, chain in enumerate(chains)
    ]
    bounds = np.array([(s.start, s.end) for s in segments])
    result: list[int] = label_steps(segments, bounds, values, np.arange(len(chains))).tolist()
    return result


def test_a_short_doubt_within_speech_changes_no_speaker() -> None:
    values = scores(*[(0.7, 0.4)] * 10, (0.4, 0.6), *[(0.7, 0.4)] * 10)
    assert labels_of(values, [1] * 21) == [0] * 21


def test_lasting_evidence_within_speech_changes_the_speaker() -> None:
    values = scores(*[(0.7, 0.4)] * 10, *[(0.4, 0.7)] * 10)
    assert labels_of(values, [1] * 20) == [0] * 10 + [1] * 10


def test_a_change_between_runs_costs_nothing() -> None:
    values = scores(*[(0.7, 0.4)] * 10, (0.4, 0.41), *[(0.7, 0.4)] * 10)
    assert labels_of(values, [*[1] * 10, 2, *[3] * 10]) == [0] * 10 + [1] + [0] * 10


@settings(max_examples=150)
@given(
    st.lists(st.tuples(*[st.floats(-1, 1, width=16)] * 3, st.booleans()), min_size=1, max_size=6),
    st.integers(1, 3),
)
def test_no_sequence_has_a_higher_score(
    drawn: list[tuple[float, float, float, bool]], count: int
) -> None:
    values = np.array([row[:count] for row in drawn], np.float32)
    chains = np.cumsum([row[3] for row in drawn]).tolist()
    seconds = STEP_FRAMES * FRAME / SAMPLING_RATE

    def score(labels: tuple[int, ...] | list[int]) -> float:
        total = sum(values[step, label] * seconds for step, label in enumerate(labels))
        changes = [
            labels[step] != labels[step - 1] and chains[step] == chains[step - 1]
            for step in range(1, len(labels))
        ]
        return float(total - CHANGE * sum(changes))

    best = max(score(labels) for labels in product(range(count), repeat=len(drawn)))
    assert score(labels_of(values, chains)) == pytest.approx(best, abs=1e-5)


def test_confidence_grows_with_the_distance_to_the_other_voices() -> None:
    values = scores((0.5, 0.5), (0.6, 0.5), (0.9, 0.1), (0.1, 0.9))
    found = rate_labels(values, np.array([0, 0, 0, 0])).tolist()
    assert found[0] == pytest.approx(0.5)
    assert 0.5 < found[1] < found[2] <= 1
    assert 0 <= found[3] < 0.01
    assert rate_labels(scores((0.2,)), np.array([0])).tolist() == [1.0]


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
