"""The speaker of each step: the most probable sequence, with few changes within speech."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from whisperbatch.diarization.embeddings import TrackSegment
from whisperbatch.diarization.segmentation import FRAME
from whisperbatch.diarization.turns import (
    CHANGE,
    STEP_FRAMES,
    Scores,
    label_steps,
    rate_labels,
    score_steps,
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
