"""Tasks that another program distributes."""

import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.unit.fakes import FakeEngine, write_noise
from tests.unit.jobs.planned_jobs import write_plan
from whisperbatch import jobs
from whisperbatch.errors import EngineError, ModelError
from whisperbatch.jobs import Failure, Plan, SpanOutcome, Task, TaskWorker, read_outcomes
from whisperbatch.jobs.leases import Leases
from whisperbatch.jobs.plans.format import PlanFiles
from whisperbatch.jobs.workers import results, worker
from whisperbatch.jobs.workers.results import Results, SpanResult
from whisperbatch.transcriber import Transcriber


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "ENGINE_PAUSES", (0.0,))


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    """Six recordings of 2 s in tasks of two, and a file that is no recording."""
    for number in range(6):
        write_noise(tmp_path / f"{number}.wav", 2.0)
    return write_plan(tmp_path / "talks.plan", [tmp_path / "*.wav"], 4.0)


def outcomes(
    folder: Path, plan: Plan, tasks: Sequence[Task], engine: FakeEngine | None = None
) -> list[SpanOutcome]:
    with Transcriber(engine or FakeEngine()) as asr:
        task_worker = TaskWorker(str(folder / "talks.plan"), plan.header, asr, group="ray")
        return list(task_worker.outcomes(tasks))


def ids(tasks: Sequence[Task]) -> list[str]:
    return sorted(span.id for task in tasks for span in task.spans)


@pytest.mark.usefixtures("no_threads_left")
def test_only_the_given_tasks_are_transcribed(plan: Plan, tmp_path: Path) -> None:
    assert len(plan.tasks) == 3
    found = outcomes(tmp_path, plan, plan.tasks[:2])
    assert [outcome.span.id for outcome in found] == [
        span.id for task in plan.tasks[:2] for span in task.spans
    ]
    assert all(outcome.transcript and not outcome.failure for outcome in found)
    assert {(outcome.start, outcome.end) for outcome in found} == {(0.0, 2.0)}
    files = PlanFiles.at(str(tmp_path / "talks.plan"))
    assert sorted(Results(files.work).ids()) == ids(plan.tasks[:2])
    assert Leases(files.work, "test").generations() == {}
    jobs.work(tmp_path / "talks.plan", asr=(asr := Transcriber(FakeEngine())))
    asr.close()
    assert sorted(Results(files.work).ids()) == ids(plan.tasks)


def test_results_that_exist_are_read(plan: Plan, tmp_path: Path) -> None:
    first = outcomes(tmp_path, plan, plan.tasks[:1])
    engine = FakeEngine()
    again = outcomes(tmp_path, plan, plan.tasks[:2], engine)
    assert len(engine.calls) == 2  # of the second task
    assert sorted(outcome.span.id for outcome in again) == ids(plan.tasks[:2])
    assert again[:2] == first
    stored = list(read_outcomes(str(tmp_path / "talks.plan"), plan.tasks[:1]))
    assert sorted(map(repr, stored)) == sorted(map(repr, first))


def test_a_result_that_is_deleted_meanwhile_is_an_error(plan: Plan, tmp_path: Path) -> None:
    found = list(read_outcomes(str(tmp_path / "talks.plan"), plan.tasks[:1]))
    assert [outcome.failure and outcome.failure.kind for outcome in found] == ["storage"] * 2


def test_a_task_of_a_dead_process_of_the_group_is_taken_at_once(plan: Plan, tmp_path: Path) -> None:
    files = PlanFiles.at(str(tmp_path / "talks.plan"))
    task = plan.tasks[0]
    assert Leases(files.work, "dead", group="ray").acquire(task.id)
    assert sorted(outcome.span.id for outcome in outcomes(tmp_path, plan, [task])) == ids([task])
    assert Leases(files.work, "test").generations() == {}


def test_a_task_of_a_work_process_is_waited_for(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "MAX_POLL", 0.05)
    files = PlanFiles.at(str(tmp_path / "talks.plan"))
    task = plan.tasks[0]
    leases = Leases(files.work, "alive")
    lease = leases.acquire(task.id)
    assert lease
    failure = Failure("audio", "written by the other process")

    def finish() -> None:
        for span in task.spans:
            result = SpanResult(
                id=span.id,
                uri=span.uri,
                worker="alive",
                engine="fake",
                started=0.0,
                finished=1.0,
                failure=failure,
            )
            Results(files.work).create(result)
        leases.finish(lease)

    timer = threading.Timer(0.3, finish)
    timer.start()
    engine = FakeEngine()
    found = outcomes(tmp_path, plan, [task], engine)
    timer.join()
    assert [outcome.failure for outcome in found] == [failure] * 2
    assert not engine.calls
    assert leases.generations() == {}


def test_a_recording_that_cannot_be_read(plan: Plan, tmp_path: Path) -> None:
    (tmp_path / "3.wav").unlink()
    found = {Path(o.span.uri).name: o for o in outcomes(tmp_path, plan, plan.tasks)}
    assert len(found) == 6
    failed = [name for name, outcome in found.items() if outcome.failure]
    assert failed == ["3.wav"]
    assert found["3.wav"].transcript is None


def test_an_error_that_may_pass_is_an_outcome_without_a_result(plan: Plan, tmp_path: Path) -> None:
    engine = FakeEngine(failing={"encode": range(2)})
    found = outcomes(tmp_path, plan, plan.tasks[:1], engine)
    assert sorted(outcome.span.id for outcome in found) == ids(plan.tasks[:1])
    failed = [outcome for outcome in found if outcome.failure]
    stored = Results(PlanFiles.at(str(tmp_path / "talks.plan")).work).ids()
    assert len(stored) == 2 - len(failed)


def test_a_broken_machine_ends_the_run(plan: Plan, tmp_path: Path) -> None:
    """The failures of all calls are counted together: a task alone may have less than three."""
    engine = FakeEngine(failing={"encode": range(1000)})
    with Transcriber(engine) as asr:
        task_worker = TaskWorker(str(tmp_path / "talks.plan"), plan.header, asr, group="ray")
        first = list(task_worker.outcomes(plan.tasks[:1]))
        assert [outcome.failure and outcome.failure.kind for outcome in first] == ["engine"] * 2
        with pytest.raises(EngineError, match="3 recordings in a row failed"):
            list(task_worker.outcomes(plan.tasks[1:2]))


def test_results_of_tasks_that_were_packed_differently_are_kept(plan: Plan, tmp_path: Path) -> None:
    outcomes(tmp_path, plan, plan.tasks[:1])
    spans = plan.tasks[1].spans[:1] + plan.tasks[0].spans
    engine = FakeEngine()
    found = outcomes(tmp_path, plan, [Task("packed again", spans)], engine)
    assert [outcome.span.id for outcome in found] == [span.id for span in spans]
    assert len(engine.calls) == 1


def test_other_weights_are_refused(plan: Plan, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="not those of the plan"):
        outcomes(tmp_path, plan, plan.tasks, FakeEngine(fingerprint="other"))
