import json
import secrets
from pathlib import Path
from typing import Any

import fsspec
import pytest

from tests.unit.fake_diarizer import use_fake_diarizer
from tests.unit.fakes import FakeEngine, noise, write_noise
from tests.unit.jobs.planned_jobs import write_plan
from tests.unit.media_files import encode
from whisperbatch import jobs
from whisperbatch.errors import ModelError, OptionError
from whisperbatch.jobs import JoinReport
from whisperbatch.jobs.plans.format import PlanFiles
from whisperbatch.jobs.plans.joining import busy_seconds
from whisperbatch.jobs.workers.results import Results
from whisperbatch.transcriber import Transcriber
from whisperbatch.writers import SubtitleOptions, render


def level_engine() -> FakeEngine:
    return FakeEngine(decode=lambda call: f" Level {call.row.level:.6f}.")


@pytest.fixture
def talks(tmp_path: Path) -> Path:
    """Four recordings and a broken one, in two folders."""
    (tmp_path / "talks/monday").mkdir(parents=True)
    for number, name in enumerate(("a", "b", "monday/a", "monday/c")):
        data = encode([noise(3 + number, seed=number)], "wav", "pcm_s16le", rate=16000)
        (tmp_path / f"talks/{name}.wav").write_bytes(data)
    (tmp_path / "talks/broken.mp3").write_bytes(b"no media")
    return tmp_path / "talks"


@pytest.fixture
def path(tmp_path: Path, talks: Path) -> Path:
    write_plan(tmp_path / "talks.plan", [talks], 5.0)
    return tmp_path / "talks.plan"


def run_work(path: Path | str) -> None:
    with Transcriber(level_engine()) as asr:
        jobs.work(path, asr=asr)


def files_in(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): path.read_text()
        for path in folder.rglob("*")
        if path.is_file() and ".joined" not in path.parts
    }


def join(path: Path, **keywords: Any) -> JoinReport:
    return jobs.join(path, path.parent / "out", **keywords)


def test_transcripts_are_those_of_single_runs(path: Path, talks: Path, tmp_path: Path) -> None:
    run_work(path)
    report = join(path, formats=("txt", "srt", "json"))
    assert (report.recordings, report.joined, report.failures) == (5, 4, {"audio": 1})
    assert report.hours == pytest.approx(18 / 3600, abs=1e-4)
    assert report.rtfx > 0
    assert report.engines == ("fake",)
    [message] = report.failed.values()
    assert "broken.mp3: is not media" in message
    expected = {}
    with Transcriber(level_engine()) as asr:
        for name in ("a", "b", "monday/a", "monday/c"):
            transcript = asr.transcribe(
                str(talks / f"{name}.wav"), vad=False, language="en", word_timestamps=True
            )
            for suffix in ("txt", "srt", "json"):
                expected[f"{name}.{suffix}"] = render(transcript, suffix)
    assert files_in(tmp_path / "out") == expected
    written = json.loads((tmp_path / "talks.plan.report.json").read_text())
    assert written == {**json.loads(report.to_json())}


def test_speakers_are_those_of_single_runs(
    talks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_fake_diarizer(monkeypatch)
    options: dict[str, Any] = {
        "diarize": True,
        "vad": False,
        "language": "en",
        "word_timestamps": True,
    }
    formats = ("json", "rttm", "csv", "tsv")
    names = ("a", "b", "monday/a")
    write_plan(tmp_path / "talks.plan", [talks / f"{name}.wav" for name in names], **options)
    run_work(tmp_path / "talks.plan")
    assert join(tmp_path / "talks.plan", formats=formats).joined == len(names)
    written = files_in(tmp_path / "out")
    with Transcriber(level_engine()) as asr:
        transcripts = [asr.transcribe(talks / f"{name}.wav", **options) for name in names]
    assert sum(len(transcript.speakers) for transcript in transcripts) == 5
    rendered = [render(each, suffix) for each in transcripts for suffix in formats]
    assert sorted(written.values()) == sorted(rendered)


def test_join_writes_complete_recordings_and_names_the_missing(path: Path, tmp_path: Path) -> None:
    run_work(path)
    store = PlanFiles.at(str(path)).work
    results = {name: store.read(f"results/{name}") or b"" for name in store.names("results")}
    for name in list(results)[:2]:
        store.delete(f"results/{name}")
    report = join(path)
    assert (report.joined, report.missing_recordings, report.missing_spans) == (2, 2, 2)
    assert len(report.missing) == 2
    assert len(files_in(tmp_path / "out")) == 2
    for name, data in results.items():
        store.write(f"results/{name}", data)
    report = join(path)
    assert (report.joined, report.missing_recordings) == (4, 0)
    assert len(files_in(tmp_path / "out")) == 4


def test_a_further_join_reads_no_result_again(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_work(path)
    report = join(path)
    before = files_in(tmp_path / "out")
    read: list[str] = []
    original = Results.read

    def counted(self: Results, span: str) -> Any:
        read.append(span)
        return original(self, span)

    monkeypatch.setattr(Results, "read", counted)
    assert join(path) == report
    assert read == []
    assert files_in(tmp_path / "out") == before
    (tmp_path / "out/a.txt").unlink()
    assert join(path) == report
    assert len(read) == 1
    assert files_in(tmp_path / "out") == before
    join(path, formats=("srt",))
    assert len(read) == 5


def test_other_options_of_files_write_them_again(path: Path, tmp_path: Path) -> None:
    run_work(path)
    join(path, formats=("srt",))
    before = files_in(tmp_path / "out")
    join(path, formats=("srt",), file_options={"srt": SubtitleOptions(max_line_width=10)})
    assert files_in(tmp_path / "out") != before


def test_everything_may_be_in_a_store(talks: Path) -> None:
    bucket = f"memory:///{secrets.token_hex()}"
    system = fsspec.filesystem("memory")
    for file in talks.glob("*.wav"):
        system.pipe_file(f"{bucket}/talks/{file.name}", file.read_bytes())
    write_plan(f"{bucket}/a.plan", [f"{bucket}/talks"])
    run_work(f"{bucket}/a.plan")
    assert jobs.status(f"{bucket}/a.plan").transcribed == 2
    jobs.join(f"{bucket}/a.plan", f"{bucket}/out", formats=("txt",))
    assert system.cat_file(f"{bucket}/out/a.txt").startswith(b"Level ")
    assert json.loads(system.cat_file(f"{bucket}/a.plan.report.json"))["joined"] == 2


def test_status_counts_tasks_and_spans(path: Path) -> None:
    status = jobs.status(path)
    assert (status.recordings, status.unreadable, status.spans) == (5, 1, 4)
    assert (status.done, status.waiting, status.missing) == (0, status.tasks, 4)
    run_work(path)
    status = jobs.status(path)
    assert (status.done, status.waiting, status.missing) == (status.tasks, 0, 0)
    assert status.hours_done == status.hours


def test_a_plan_with_more_recordings_uses_the_results_of_the_old_one(
    path: Path, talks: Path
) -> None:
    run_work(path)
    write_noise(talks / "d.wav", 2.0)
    write_plan(path, [talks], 60.0)  # other tasks, too
    assert jobs.status(path).missing == 1
    engine = level_engine()
    with Transcriber(engine) as asr:
        assert jobs.work(path, asr=asr).transcribed == 1
    assert len(engine.calls) == 1


@pytest.mark.parametrize("formats", [(), ("doc",), "txt", ("txt", "rttm")])
def test_wrong_formats_are_refused(path: Path, formats: Any) -> None:
    with pytest.raises(OptionError, match="format"):
        join(path, formats=formats)


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"task_duration": 0}, "task_duration=0 is out of range"),
        ({"task_duration": "long"}, "task_duration must be a number"),
        ({"beam_sise": 5}, "beam_sise is not an option"),
        ({"batch_size": 5}, "batch_size has no effect on a plan"),
        ({"readers": 2}, "readers has no effect on a plan; give it to work"),
        ({"reader_processes": True}, "reader_processes has no effect on a plan; give it to work"),
        ({"device": "cpu"}, "device has no effect on a plan; give device to work"),
    ],
)
def test_wrong_arguments_of_plan_are_refused(
    talks: Path, tmp_path: Path, keywords: dict[str, Any], message: str
) -> None:
    with pytest.raises(OptionError, match=message):
        jobs.plan(talks, tmp_path / "x.plan", model="tiny.en", **keywords)
    assert not (tmp_path / "x.plan").exists()


def test_a_plan_needs_the_weights(talks: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelError):
        jobs.plan(talks, tmp_path / "x.plan", model=str(tmp_path / "talks"))


@pytest.mark.parametrize(
    ("times", "seconds"),
    [([], 0), ([(0, 2), (1, 3)], 3), ([(5, 6), (0, 1)], 2), ([(0, 10), (2, 3)], 10)],
)
def test_busy_seconds_count_no_second_twice(
    times: list[tuple[float, float]], seconds: float
) -> None:
    assert busy_seconds(times) == seconds
