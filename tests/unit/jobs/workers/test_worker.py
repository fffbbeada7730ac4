import errno
import os
import shutil
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import fsspec
import pytest

from tests.unit.fakes import FakeEngine, noise, write_noise
from tests.unit.jobs.planned_jobs import write_plan
from tests.unit.media_files import encode
from whisperbatch import jobs
from whisperbatch.errors import EngineError, ModelError, OptionError, WriteError
from whisperbatch.jobs import SpanEnded, WorkReport
from whisperbatch.jobs.leases import Leases
from whisperbatch.jobs.plans.format import PlanFiles
from whisperbatch.jobs.plans.recordings import version_of
from whisperbatch.jobs.workers import results, spans
from whisperbatch.jobs.workers.results import Results, SpanResult
from whisperbatch.transcriber import Transcriber
from whisperbatch.writers import render, write_through


def level_engine(**keywords: Any) -> FakeEngine:
    """Return an engine that writes the level of each row: its text depends on the row only."""
    return FakeEngine(decode=lambda call: f" Level {call.row.level:.6f}.", **keywords)


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "ENGINE_PAUSES", (0.0,))
    monkeypatch.setattr(results, "STORAGE_PAUSES", (0.0, 0.0))
    monkeypatch.setattr(spans, "POLL", 0.05)


@pytest.fixture
def talks(tmp_path: Path) -> Path:
    """Eight recordings of 2 to 9 s."""
    folder = tmp_path / "talks"
    folder.mkdir()
    for number in range(8):
        data = encode([noise(2 + number, seed=number)], "wav", "pcm_s16le", rate=16000)
        (folder / f"{number}.wav").write_bytes(data)
    return folder


@pytest.fixture
def path(tmp_path: Path, talks: Path) -> Path:
    """A plan of about five tasks."""
    write_plan(tmp_path / "talks.plan", [talks])
    return tmp_path / "talks.plan"


def run_work(path: Path, engine: FakeEngine | None = None, **keywords: Any) -> WorkReport:
    with Transcriber(engine or level_engine()) as asr:
        return jobs.work(path, asr=asr, **{"lease_duration": 60.0, **keywords})


def results_of(path: Path) -> dict[str, SpanResult]:
    """Return the result of each span, by the name of its recording."""
    results = Results(PlanFiles.at(str(path)).work)
    found = [results.read(span) for span in results.ids()]
    return {Path(result.uri).name: result for result in found if result}


def leases_of(path: Path) -> dict[str, int]:
    return Leases(PlanFiles.at(str(path)).work, "test").generations()


@pytest.mark.usefixtures("no_threads_left")
def test_every_span_has_the_transcript_of_its_recording(path: Path, talks: Path) -> None:
    engine = level_engine()
    events: list[SpanEnded] = []
    report = run_work(path, engine, on_span=events.append)
    assert (report.transcribed, report.failed, report.left) == (8, 0, 0)
    assert report.seconds == pytest.approx(44.0)
    assert len(events) == 8
    results = results_of(path)
    with Transcriber(level_engine()) as asr:
        for file in talks.iterdir():
            expected = asr.transcribe(file, vad=False, language="en", word_timestamps=True)
            assert results[file.name].transcript == expected
    assert len(engine.calls) == 8
    assert leases_of(path) == {}
    assert run_work(path, engine) == WorkReport(0, 0, 0, 0.0)
    assert len(engine.calls) == 8


def test_two_workers_share_the_tasks(path: Path) -> None:
    engines = [level_engine(delay={"decode": 0.1}) for _ in range(2)]
    threads = [threading.Thread(target=run_work, args=(path, engine)) for engine in engines]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results_of(path)) == 8
    assert sum(len(engine.calls) for engine in engines) == 8
    assert all(engine.calls for engine in engines)


def test_shards_have_different_tasks(path: Path) -> None:
    engines = [level_engine(), level_engine()]
    reports = [run_work(path, engine, shard=(n, 2)) for n, engine in enumerate(engines)]
    assert sum(report.transcribed for report in reports) == 8
    assert all(report.transcribed for report in reports)
    assert len(results_of(path)) == 8


def test_recordings_that_cannot_be_read_are_failures(path: Path, talks: Path) -> None:
    (talks / "1.wav").unlink()
    write_noise(talks / "2.wav", 3.5)
    report = run_work(path)
    assert (report.transcribed, report.failed, report.left) == (6, 2, 0)
    failures = {name: result.failure for name, result in results_of(path).items() if result.failure}
    assert {name: failure.kind for name, failure in failures.items()} == {
        "1.wav": "audio",
        "2.wav": "audio",
    }
    assert "there is no such file" in failures["1.wav"].message
    assert "has changed since the plan" in failures["2.wav"].message
    assert jobs.status(path).failed == 2


def test_a_recording_that_changes_while_it_is_read_is_a_failure(
    path: Path, talks: Path, tmp_path: Path
) -> None:
    def decode(call: Any) -> str:
        write_noise(tmp_path / "new.wav", 3.5)
        (tmp_path / "new.wav").replace(talks / "2.wav")  # never an empty file
        return " Half of the old recording."

    run_work(path, FakeEngine(decode=decode))
    failed = {name: result.failure for name, result in results_of(path).items() if result.failure}
    assert failed.keys() == {"2.wav"}
    assert "has changed since the plan was made" in failed["2.wav"].message


def test_an_engine_that_fails_once_is_asked_again(path: Path) -> None:
    report = run_work(path, level_engine(failing={"decode": (0,)}))
    assert (report.transcribed, report.failed, report.left) == (8, 0, 0)


def fails_on(file: Path) -> Callable[..., str]:
    """Return a function that decodes all rows but that of a recording."""
    engine = FakeEngine()
    with Transcriber(engine) as asr:
        asr.transcribe(file, vad=False, language="en")
    level = engine.calls[0].row.level

    def decode(call: Any) -> str:
        if call.row.level == level:
            raise EngineError("fake: decode failed")
        return " Text."

    return decode


def test_a_span_at_which_the_engine_fails_is_left_and_later_given_up(
    path: Path, talks: Path
) -> None:
    decode = fails_on(talks / "2.wav")
    first = run_work(path, FakeEngine(decode=decode))
    assert (first.transcribed, first.failed, first.left) == (7, 0, 1)
    status = jobs.status(path)
    assert (status.done, status.interrupted, status.missing) == (status.tasks - 1, 1, 1)
    assert status.errors == ("fake: decode failed",)
    second = run_work(path, FakeEngine(decode=decode))
    assert (second.transcribed, second.failed, second.left) == (0, 1, 0)
    failure = results_of(path)["2.wav"].failure
    assert failure
    assert failure.kind == "engine"
    assert leases_of(path) == {}


def test_a_worker_whose_engine_always_fails_ends(path: Path) -> None:
    with pytest.raises(EngineError, match="3 recordings in a row failed, so this worker ends"):
        run_work(path, level_engine(failing={"decode": range(10_000)}))
    assert results_of(path) == {}
    report = run_work(path)  # nothing is lost
    assert report.transcribed == 8


def test_a_store_that_fails_leaves_spans_to_later_runs(
    tmp_path: Path, talks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    system = fsspec.filesystem("memory")
    for file in talks.iterdir():
        system.pipe_file(f"/{tmp_path.name}/{file.name}", file.read_bytes())
    path = tmp_path / "stored.plan"
    plan = write_plan(path, [f"memory://{tmp_path.name}"])
    assert not plan.failures

    def fail(*_: object, **__: object) -> None:
        raise TimeoutError("the store does not answer")

    with monkeypatch.context() as patch:
        patch.setattr(type(system), "open", fail)
        report = run_work(path)
    assert (report.transcribed, report.failed, report.left) == (0, 0, 8)
    assert results_of(path) == {}
    assert "the store does not answer" in jobs.status(path).errors[0]
    assert run_work(path).transcribed == 8


def test_a_recording_at_which_workers_die_is_a_failure(path: Path) -> None:
    files = PlanFiles.at(str(path))
    leases = Leases(files.work, "dead", duration=1.0, clock=lambda: 0.0)
    task = files.read().tasks[-1]
    lease = leases.acquire(task.id)
    assert lease
    leases.write(replace(lease, attempts={task.spans[0].id: 2}, alone=task.spans[0].id))
    run_work(path)
    crashed = results_of(path)[Path(task.spans[0].uri).name].failure
    assert crashed
    assert crashed.kind == "crash"
    assert sum(result.failure is None for result in results_of(path).values()) == 7


def test_failed_spans_are_transcribed_again_if_the_worker_is_told_so(
    path: Path, talks: Path
) -> None:
    run_work(path, FakeEngine(decode=fails_on(talks / "2.wav")))
    run_work(path, FakeEngine(decode=fails_on(talks / "2.wav")))
    before = results_of(path)
    assert before["2.wav"].failure
    assert run_work(path) == WorkReport(0, 0, 0, 0.0)
    report = run_work(path, retry_failed=True)
    assert (report.transcribed, report.failed) == (1, 0)
    after = results_of(path)
    assert after["2.wav"].transcript
    assert {**after, "2.wav": None} == {**before, "2.wav": None}  # the others are not made again
    assert jobs.status(path).failed == 0
    assert leases_of(path) == {}
    assert run_work(path, retry_failed=True) == WorkReport(0, 0, 0, 0.0)


def test_a_worker_retries_the_failures_of_its_shard_only(path: Path, talks: Path) -> None:
    plan = PlanFiles.at(str(path)).read()
    data = {file: file.read_bytes() for file in talks.iterdir()}
    for file in data:
        file.unlink()
    assert run_work(path).failed == 8
    for recording in plan.recordings:
        file = Path(recording.uri)
        time = recording.version.partition(", time ")[2]
        file.write_bytes(data[file])
        os.utime(file, (float(time), float(time)))
    if any(version_of(r.uri) != r.version for r in plan.recordings):
        pytest.skip("this file system rounds times")
    report = run_work(path, shard=(0, 2), retry_failed=True)
    spans = sum(len(task.spans) for task in plan.tasks[::2])
    assert report.transcribed == spans
    assert jobs.status(path).failed == 8 - spans


def test_a_language_that_failed_is_detected_again(long_talk: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.wav"
    shutil.copy2(long_talk, copy)
    path = tmp_path / "long.plan"
    write_plan(path, [copy], 300.0, language=None)
    copy.unlink()
    assert run_work(path).failed == 3
    shutil.copy2(long_talk, copy)
    report = run_work(path, retry_failed=True)
    assert (report.transcribed, report.failed) == (3, 0)


def test_temporary_files_of_dead_workers_are_deleted(path: Path) -> None:
    work = Path(f"{path}.work/leases")
    work.mkdir(parents=True)
    (work / ".77aa.0.json-4711-00c0ffee.tmp").write_bytes(b"half")
    os.utime(work / ".77aa.0.json-4711-00c0ffee.tmp", (1, 1))
    run_work(path)
    assert list(work.iterdir()) == []


@pytest.mark.usefixtures("no_threads_left")
def test_a_full_disk_leaves_no_lease_that_a_further_run_waits_for(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = write_through

    def write(target: Path, data: bytes, **keywords: Any) -> None:
        if "leases" not in target.parts or b'"expires": 0.0' in data:
            raise OSError(errno.ENOSPC, "No space left on device")
        original(target, data, **keywords)

    with monkeypatch.context() as patch:
        patch.setattr("whisperbatch.jobs.plans.stores.write_through", write)
        with pytest.raises(WriteError, match="No space left"):
            run_work(path, lease_duration=500.0)
    assert jobs.status(path).running == ()
    assert run_work(path, lease_duration=500.0).transcribed == 8


def test_spans_of_a_dead_worker_are_transcribed_one_at_a_time(path: Path) -> None:
    files = PlanFiles.at(str(path))
    leases = Leases(files.work, "dead", duration=1.0, clock=lambda: 0.0)
    for task in files.read().tasks:
        assert leases.acquire(task.id)
    engine = level_engine(delay={"decode": 0.02})
    assert run_work(path, engine).transcribed == 8
    assert engine.batches == [1] * 8


@pytest.mark.usefixtures("no_threads_left")
def test_a_worker_that_is_stopped_gives_its_tasks_up(path: Path) -> None:
    with Transcriber(level_engine(delay={"decode": 0.3})) as asr:
        job = jobs.WorkerJob.open(path, lease_duration=500.0)
        stopped: list[SpanEnded] = []

        def stop(event: SpanEnded) -> None:
            stopped.append(event)
            job.stop()

        job.run(asr, stop)
    assert 0 < len(results_of(path)) < 8
    assert jobs.status(path).running == ()
    report = run_work(path, lease_duration=500.0)
    assert len(results_of(path)) == 8
    assert report.transcribed >= 1


@pytest.mark.usefixtures("no_threads_left")
def test_an_exception_of_the_caller_gives_the_tasks_up(path: Path) -> None:
    def interrupt(_: SpanEnded) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_work(path, lease_duration=500.0, on_span=interrupt)
    assert jobs.status(path).running == ()
    assert run_work(path, lease_duration=500.0).transcribed >= 1
    assert len(results_of(path)) == 8


def test_a_worker_that_was_asleep_leaves_the_task_to_the_other(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    engine = level_engine(delay={"decode": 0.8})
    files = PlanFiles.at(str(path))
    thread = threading.Thread(
        target=run_work, args=(path, engine), kwargs={"lease_duration": 1.0, "wait": False}
    )
    thread.start()
    other = Leases(files.work, "other", duration=500.0)
    while not (held := other.generations()):
        threading.Event().wait(0.02)
    task = next(iter(held))
    lease = other.read(task, 0)
    assert other.acquire(task, lease)  # as if it had expired
    thread.join()
    assert f"task {task} was taken by another worker" in caplog.text
    missing = next(t for t in files.read().tasks if t.id == task).spans
    assert not any(Results(files.work).exists(span.id) for span in missing)


def test_without_wait_a_worker_does_not_wait_for_others(path: Path) -> None:
    files = PlanFiles.at(str(path))
    task = files.read().tasks[0]
    assert Leases(files.work, "other", duration=500.0).acquire(task.id)
    report = run_work(path, wait=False)
    assert report.transcribed == 8 - len(task.spans)


@pytest.mark.parametrize(
    ("keywords", "error", "message"),
    [
        ({"shard": (4, 4)}, OptionError, "numbers start at 0"),
        ({"shard": "0/4"}, OptionError, "numbers start at 0"),
        ({"lease_duration": 0.5}, OptionError, "lease_duration=0.5 is out of range"),
        ({"wait": "no"}, OptionError, "wait must be True or False"),
        ({"device": "cpu"}, OptionError, "device has no effect with asr"),
        ({"engine": level_engine(fingerprint="other")}, ModelError, "are not those of the plan"),
    ],
)
def test_wrong_arguments_are_refused(
    path: Path, keywords: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        run_work(path, **keywords)
    assert results_of(path) == {}


@pytest.mark.parametrize("change", ["options", "load", "chunk_rules"])
def test_a_plan_whose_settings_were_edited_is_refused(path: Path, change: str) -> None:
    files = PlanFiles.at(str(path))
    plan = files.read()
    edited: dict[str, Any] = {
        "options": {**plan.header.options, "initial_prompt": "Dr. Ørsted"},
        "load": {"compute_type": "int8"},
        "chunk_rules": plan.header.chunk_rules - 1,
    }
    files.write(replace(plan, header=replace(plan.header, **{change: edited[change]})))
    with pytest.raises(OptionError, match="make the plan again"):
        run_work(path)
    assert results_of(path) == {}


def test_keywords_that_change_the_text_belong_to_the_plan(path: Path) -> None:
    with pytest.raises(OptionError, match="compute_type changes the text, so it belongs to plan"):
        jobs.work(path, compute_type="int8")


@pytest.fixture(scope="module")
def long_talk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording of three sections."""
    path = tmp_path_factory.mktemp("long") / "long.wav"
    path.write_bytes(encode([noise(800)], "wav", "pcm_s16le", rate=16000))
    return path


def test_a_long_recording_is_divided_and_its_language_detected_once(
    long_talk: Path, tmp_path: Path
) -> None:
    path = tmp_path / "long.plan"
    plan = write_plan(path, [long_talk], 300.0, language=None)
    assert len(plan.tasks) == 3
    engine = level_engine()
    assert run_work(path, engine).transcribed == 3
    detections = engine.detections
    alone = level_engine()
    with Transcriber(alone) as asr:
        expected = asr.transcribe(long_talk, vad=False, word_timestamps=True)
    assert detections == alone.detections
    jobs.join(path, tmp_path / "out", formats=("json",))
    assert (tmp_path / "out/long.json").read_text() == render(expected, "json")
    assert expected.language == "fr"


def test_a_language_that_cannot_be_detected_fails_all_spans(
    long_talk: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy.wav"
    copy.write_bytes(long_talk.read_bytes())
    path = tmp_path / "long.plan"
    write_plan(path, [copy], 300.0, language=None)
    copy.unlink()
    report = run_work(path)
    assert (report.transcribed, report.failed) == (0, 3)
