"""Plans and objects of their folders with wrong values: clear errors, or as if they were absent."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest

from tests.unit.fakes import FakeEngine, write_noise
from tests.unit.jobs.planned_jobs import write_plan
from whisperbatch import jobs
from whisperbatch.errors import OptionError, WhisperBatchError
from whisperbatch.jobs.plans.format import PlanFiles
from whisperbatch.transcriber import Transcriber

WRONG: Final[list[Any]] = [
    *(None, True, -1, 0, 1.5, 10**20, 1e308, float("nan"), "x", "../x", "\ud800", "a" * 300),
    *([], [None], ["x"], {}, {"x": 1}),
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A plan of three recordings, one of which cannot be read; its work is done."""
    (tmp_path / "talks").mkdir()
    for number in range(2):
        write_noise(tmp_path / f"talks/{number}.wav", 2.0 + number)
    (tmp_path / "talks/bad.mp3").write_bytes(b"no media")
    write_plan(tmp_path / "a.plan", [tmp_path / "talks"])
    with Transcriber(FakeEngine()) as asr:
        jobs.work(tmp_path / "a.plan", asr=asr)
    return tmp_path / "a.plan"


def mutations(value: Any) -> Iterator[Any]:
    """Yield copies of a JSON value in which one value is wrong or missing."""
    if isinstance(value, dict):
        for key, inner in value.items():
            for wrong in (*WRONG, *mutations(inner)):
                yield {**value, key: wrong}
            yield {name: item for name, item in value.items() if name != key}
    if isinstance(value, list):
        for number, inner in enumerate(value):
            for wrong in mutations(inner):
                yield [*value[:number], wrong, *value[number + 1 :]]


def test_a_plan_with_a_wrong_value_is_refused_or_read(path: Path, tmp_path: Path) -> None:
    lines = path.read_text().splitlines()
    before = set(tmp_path.rglob("*"))
    refused = 0
    with Transcriber(FakeEngine()) as asr:
        for number in (0, 1, 3, 4):
            for mutation in mutations(json.loads(lines[number])):
                changed = [*lines[:number], json.dumps(mutation), *lines[number + 1 :]]
                path.write_text("\n".join(changed))
                calls: list[Callable[[], object]] = [
                    lambda: jobs.status(path),
                    lambda: jobs.join(path, tmp_path / "out", formats=("txt",)),
                ]
                if number == 0:
                    calls.append(lambda: jobs.WorkerJob.open(path).load())
                for call in calls:
                    try:
                        call()
                    except WhisperBatchError:
                        refused += 1
    assert refused > 500
    with suppress(WhisperBatchError):
        jobs.work(path, asr=asr)
    new = set(tmp_path.rglob("*")) - before
    assert {p.relative_to(tmp_path).parts[0] for p in new} == {"out", "a.plan.report.json"}


@pytest.mark.parametrize("output", ["../a", "/a", "a/../../b", "", "a//b"])
def test_transcripts_stay_in_the_output_folder(path: Path, tmp_path: Path, output: str) -> None:
    path.write_text(path.read_text().replace('"output": "0"', f'"output": "{output}"'))
    with pytest.raises(OptionError, match=r"a\.plan: line 2: output .* in the output folder"):
        jobs.join(path, tmp_path / "out")


@pytest.mark.parametrize("key", ["id", "language_task"])
def test_results_stay_in_the_folder_of_the_plan(path: Path, key: str) -> None:
    *lines, last = path.read_text().splitlines()
    task = json.loads(last)
    task["spans"][0][key] = "../../a"
    path.write_text("\n".join([*lines, json.dumps(task)]))
    with pytest.raises(OptionError, match=rf"a\.plan: line 5: {key} must be letters"):
        jobs.WorkerJob.open(path)


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"null", b"[]", b"{}", b'{"work": 3, "engines": null}', b"\xff", b"[" * 10**5],
)
def test_a_damaged_marker_lets_join_write_again(path: Path, tmp_path: Path, data: bytes) -> None:
    report = jobs.join(path, tmp_path / "out")
    text = (tmp_path / "out/0.txt").read_text()
    for marker in (tmp_path / "out/.joined").iterdir():
        marker.write_bytes(data)
    (tmp_path / "out/0.txt").write_text("half")
    assert jobs.join(path, tmp_path / "out") == report
    assert (tmp_path / "out/0.txt").read_text() == text
    assert jobs.join(path, tmp_path / "out") == report
    assert all(json.loads(m.read_bytes()) for m in (tmp_path / "out/.joined").iterdir())


def test_a_marker_of_an_earlier_version_counts(path: Path, tmp_path: Path) -> None:
    jobs.join(path, tmp_path / "out")
    for marker in (tmp_path / "out/.joined").iterdir():
        value = json.loads(marker.read_bytes())
        del value["missing_duration"]
        marker.write_text(json.dumps({**value, "of a later version": 1}))
    (tmp_path / "out/0.txt").write_text("edited")
    jobs.join(path, tmp_path / "out")
    assert (tmp_path / "out/0.txt").read_text() == "edited"


LEASES: Final = [
    *(b"", b"{", b"null", b"[]", b"{}", b"\xff", b'{"task": 1}'),
    b'{"task": "x", "generation": 0, "worker": 7, "group": "", "expires": "soon"}',
    b'{"task": "x", "generation": 0, "worker": "w", "group": "", "expires": 1e12}',
]


@pytest.mark.parametrize("data", LEASES)
@pytest.mark.parametrize("generation", [0, 3_000_000])
def test_a_damaged_lease_holds_nothing(path: Path, data: bytes, generation: int) -> None:
    files = PlanFiles.at(str(path))
    [task] = files.read().tasks
    for span in task.spans[1:]:
        files.work.delete(f"results/{span.id[:2]}/{span.id}.json")
    files.work.write(f"leases/{task.id}.{generation}.json", data)
    files.work.write("leases/what.ever", b"")
    files.work.write("leases/x.\u00b2.json", b"")
    assert jobs.status(path).interrupted == 1
    with Transcriber(FakeEngine()) as asr:
        assert jobs.work(path, asr=asr).transcribed == 1
    assert jobs.status(path).missing == 0
    assert not [name for name in files.work.names("leases") if task.id in name]


def test_a_lease_of_a_later_version_holds_its_task(path: Path) -> None:
    files = PlanFiles.at(str(path))
    [task] = files.read().tasks
    files.work.delete(f"results/{task.spans[0].id[:2]}/{task.spans[0].id}.json")
    end = time.time() + 600
    lease = {"task": task.id, "generation": 0, "worker": "w", "group": "", "expires": end}
    files.work.write(f"leases/{task.id}.0.json", json.dumps({**lease, "new": [1]}).encode())
    [running] = jobs.status(path).running
    assert running.worker == "w"
