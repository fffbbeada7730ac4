import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.fakes import write_noise
from tests.unit.jobs.planned_jobs import write_plan
from whisperbatch.errors import OptionError
from whisperbatch.jobs.plans.format import PlannedSpan
from whisperbatch.jobs.plans.planning import MAX_SPANS, divide, pack, span_duration


def span(number: int, duration: float) -> PlannedSpan:
    return PlannedSpan(f"{number:04}", f"r{number}", "a.mp3", "v", 0, None, duration)


@pytest.mark.parametrize(
    ("minutes", "expected"),
    [
        (0.1, ((0, None),)),
        (30, ((0, None),)),
        (35, ((0, 3), (3, None))),
        (60, ((0, 6), (6, None))),
        (61, ((0, 4), (4, 8), (8, None))),
    ],
)
def test_recordings_longer_than_a_task_are_divided_at_boundaries(
    minutes: float, expected: tuple[tuple[int, int | None], ...]
) -> None:
    assert divide(minutes * 60, 1800.0) == expected


@given(st.floats(0, 200_000), st.floats(300, 4000))
def test_spans_share_their_ends_and_have_the_whole_recording(
    duration: float, longest: float
) -> None:
    parts = divide(duration, longest)
    assert parts[0][0] == 0
    assert parts[-1][1] is None
    assert all(before[1] == after[0] for before, after in pairwise(parts))
    lengths = [span_duration(first, last, duration) for first, last in parts]
    assert sum(lengths) == pytest.approx(duration)
    assert all(length <= max(longest, 300.0) + 31 for length in lengths)  # 31 s: no boundary there


def test_a_36_hour_recording_has_spans_of_20_to_30_minutes() -> None:
    duration = 36 * 3600.0
    lengths = [span_duration(*part, duration) for part in divide(duration, 1800.0)]
    assert len(lengths) == 72
    assert min(lengths) >= 1200
    assert max(lengths) <= 1800


@given(st.lists(st.floats(0.1, 5000), max_size=60), st.floats(1, 2000))
def test_tasks_have_every_span_once_and_are_not_too_long(
    durations: list[float], task: float
) -> None:
    spans = [span(number, duration) for number, duration in enumerate(durations)]
    tasks = list(pack(spans, task))
    assert sorted(item.id for group in tasks for item in group) == [item.id for item in spans]
    for group in tasks:
        assert len(group) == 1 or sum(item.duration for item in group) <= task
    order = [item.duration for group in tasks for item in group]
    assert order == sorted(order, reverse=True)


def test_a_task_has_a_bounded_number_of_spans() -> None:
    tasks = list(pack([span(number, 0.1) for number in range(1200)], 1800.0))
    assert [len(group) for group in tasks] == [MAX_SPANS, MAX_SPANS, 200]


def test_the_language_of_a_manifest_and_multilingual_are_refused_together(tmp_path: Path) -> None:
    """Otherwise each of these recordings would fail when it is transcribed."""
    talk = write_noise(tmp_path / "a.wav", seconds=1)
    manifest = tmp_path / "m.jsonl"
    manifest.write_text(json.dumps({"uri": str(talk), "language": "fr"}) + "\n")
    settings: dict[str, Any] = {"language": None, "multilingual": True}
    with pytest.raises(OptionError, match=r"a\.wav: the manifest states language='fr'"):
        write_plan(tmp_path / "talks.plan", [manifest], **settings)
