"""The calculation for a million hours, and the simulation of stragglers."""

import sys
from dataclasses import replace
from random import Random

import pytest

from benchmarks import million_hours
from benchmarks.million_hours import Audio, cores_per_gpu, cost_lines, result_bytes, totals
from benchmarks.stragglers import (
    LONGEST,
    Cluster,
    Order,
    Outcome,
    Simulation,
    Work,
    recordings,
    tasks_of,
)

EQUAL = Cluster(workers=4, rate=10.0, spread=0.0)


def run(
    tasks: list[list[Work]], cluster: Cluster, order: Order = "longest first", seed: int = 0
) -> Outcome:
    return Simulation(tasks, cluster, order, Random(seed)).run()  # noqa: S311 - a simulation


def test_lengths_have_the_hours_and_one_long_recording() -> None:
    lengths = recordings(500.0, 1200.0, 1.0, Random(0))  # noqa: S311 - a simulation
    assert sum(lengths) / 3600 == pytest.approx(500.0, abs=0.1)
    assert lengths.count(LONGEST) == 1
    assert sorted(lengths)[len(lengths) // 2] == pytest.approx(1200.0, rel=0.2)


@pytest.mark.parametrize("longest", [300.0, 1800.0, None])
def test_tasks_have_all_audio(longest: float | None) -> None:
    lengths = [LONGEST, 4000.0, 500.0, 400.0]
    tasks = tasks_of(lengths, longest, longest or 1800.0)
    assert sum(work[0] for works in tasks for work in works) == pytest.approx(sum(lengths))
    durations = [sum(work[0] for work in works) for works in tasks]
    assert durations == sorted(durations, reverse=True)
    starts = [before for works in tasks for _, before in works]
    assert (max(starts) > 0) == (longest is not None)


def test_equal_tasks_on_equal_workers_take_the_ideal_time() -> None:
    outcome = run([[(600.0, 0.0)]] * 40, EQUAL)
    assert outcome.finished == pytest.approx(outcome.ideal) == pytest.approx(600.0)
    assert outcome.repeated == 0.0
    assert outcome.waited == pytest.approx(0.0)


def test_a_task_that_is_alone_takes_the_time_of_one_worker() -> None:
    outcome = run([[(3000.0, 0.0), (1000.0, 0.0)]], EQUAL)
    assert outcome.finished == pytest.approx(400.0)
    assert outcome.ratio == pytest.approx(4.0)
    assert outcome.waited == pytest.approx(0.75)


def test_two_tasks_share_a_worker() -> None:
    outcome = run([[(1000.0, 0.0)], [(3000.0, 0.0)]], replace(EQUAL, workers=1))
    assert outcome.finished == pytest.approx(400.0)
    assert outcome.waited == 0.0


def test_audio_before_a_span_takes_time() -> None:
    outcome = run([[(1000.0, 5000.0)]], replace(EQUAL, skipping=500.0))
    assert outcome.finished == pytest.approx(110.0)


def test_a_shard_takes_the_time_of_its_worker() -> None:
    cluster = replace(EQUAL, spread=0.5)
    tasks = [[(600.0, 0.0)]] * 400
    shared, static, many = (
        run(tasks, replace(cluster, shards=shards)).ratio for shards in (0, 1, 10)
    )
    assert shared < many < static


@pytest.mark.parametrize("shards", [0, 1, 3])
@pytest.mark.parametrize("longest", [600.0, None])
def test_all_work_is_done_whoever_dies(shards: int, longest: float | None) -> None:
    lengths = [7200.0, *[900.0] * 60]
    tasks = tasks_of(lengths, longest, 1800.0)
    cluster = Cluster(workers=4, rate=4.0, deaths=2.0, lease=100.0, replaced=50.0, shards=shards)
    outcome = run(tasks, cluster)
    assert outcome.repeated > 0
    assert outcome.ratio > 1
    assert outcome.finished > run(tasks, replace(cluster, deaths=0.0)).finished


def test_longer_spans_repeat_more_work() -> None:
    lengths = [36_000.0] * 10
    cluster = Cluster(workers=10, rate=10.0, deaths=1.0)
    repeated = [
        sum(run(tasks_of(lengths, span, 1800.0), cluster, seed=seed).repeated for seed in range(5))
        for span in (300.0, 1800.0, 7200.0)
    ]
    assert repeated == sorted(repeated)


def test_a_seed_always_gives_the_same_outcome() -> None:
    lengths = recordings(100.0, 1200.0, 1.0, Random(0))  # noqa: S311 - a simulation
    tasks = tasks_of(lengths, 1800.0, 1800.0)
    cluster = Cluster(workers=5, deaths=1.0)
    assert run(tasks, cluster, "random", 3) == run(tasks, cluster, "random", 3)
    assert run(tasks, cluster, "random", 3) != run(tasks, cluster, "random", 4)


def test_quantities_grow_with_the_hours() -> None:
    audio = Audio(hours=1e5)
    small = totals(audio, task_duration=1800.0, rate=50.0, workers=100)
    large = totals(replace(audio, hours=1e6), task_duration=1800.0, rate=50.0, workers=100)
    assert large.spans == pytest.approx(10 * small.spans)
    assert large.read_bytes == pytest.approx(10 * small.read_bytes)
    assert large.machine_hours == 20_000.0
    assert large.plan_bytes / large.plans <= million_hours.MAX_PLAN_BYTES
    assert large.spans >= large.tasks
    assert large.spans >= large.recordings


def test_audio_before_spans_is_read_unless_it_can_be_skipped() -> None:
    audio = Audio(hours=1000.0)
    skipped = totals(replace(audio, seekable=True), task_duration=1800.0, rate=50.0, workers=1)
    decoded = totals(audio, task_duration=1800.0, rate=50.0, workers=1)
    assert skipped.decoded_hours == pytest.approx(1000.0, rel=0.01)
    assert skipped.read_bytes == pytest.approx(1000 * 3600 * 8000, rel=0.01)
    assert decoded.decoded_hours > skipped.decoded_hours
    slow = totals(audio, task_duration=1800.0, rate=50.0, workers=1, skip=500.0)
    extra = decoded.decoded_hours - skipped.decoded_hours
    assert slow.machine_hours - decoded.machine_hours == pytest.approx(extra / 500, rel=0.01)


def test_a_result_grows_with_its_words() -> None:
    assert result_bytes(0) < 2000
    assert 100 < (result_bytes(3000) - result_bytes(0)) / 3000 < 250


def test_cores_for_a_gpu() -> None:
    assert cores_per_gpu(1000.0, 500.0, 1000.0) == pytest.approx(3.0)


def test_a_cost_is_a_sum_or_a_formula() -> None:
    total = totals(Audio(hours=1000.0), task_duration=1800.0, rate=50.0, workers=1)
    formula = list(cost_lines(total, {}))
    assert formula[0].endswith("x --machine-price")
    assert "sum 0, without --machine-price" in formula[-1]
    prices = {"machine": 2.0, "put": 0.0, "get": 0.0, "transfer": 0.0, "storage": 0.0}
    assert list(cost_lines(total, {**prices}))[-1] == "  sum 40"


@pytest.mark.parametrize("arguments", [[], ["--simulate", "--workers", "3", "--hours-each", "20"]])
def test_the_program_prints_a_line_for_each_kind_or_span(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["million_hours", *arguments, "--seeds", "1"])
    million_hours.main()
    printed = capsys.readouterr().out
    found = ("| 30 |", "| whole |") if arguments else ("workers of kind cpu", "workers of kind gpu")
    assert all(text in printed for text in found)
