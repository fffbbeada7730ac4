"""A plan on a cluster of two nodes: actors, nodes and the driver die; every span appears once."""

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.unit.jobs.planned_jobs import write_plan
from tests.unit.ray.running_cluster import RayCluster, finished
from whisperbatch import jobs
from whisperbatch.jobs import Plan

pytestmark = pytest.mark.ray

HOUR = 3600.0


def plan_of(folder: Path, recordings: Sequence[tuple[str, float]], **options: Any) -> Plan:
    """Write a plan of recordings without audio, whose durations are stated."""
    rows = []
    for name, duration in recordings:
        (folder / name).write_bytes(b"no audio")
        rows.append({"uri": name, "duration": duration})
    manifest = folder / "talks.jsonl"
    manifest.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return write_plan(folder / "talks.plan", [manifest], 1800.0, language=None, **options)


def check_spans(plan: Plan, rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Check that every span has one row; return the rows by file name, of whole recordings."""
    spans = [span.id for task in plan.tasks for span in task.spans]
    failed = [recording.id for recording in plan.failures]
    assert Counter(row["id"] for row in rows) == Counter(spans + failed)
    return {Path(row["uri"]).name: row for row in rows}


@pytest.fixture(autouse=True)
def clear_notes(cluster: RayCluster) -> None:
    cluster.clear()


def test_one_long_recording_among_many_short_ones_and_a_broken_one(
    cluster: RayCluster, tmp_path: Path
) -> None:
    names = [(f"{number}.mp3", 10.0 + number % 50) for number in range(500)]
    plan = plan_of(tmp_path, [*names, ("long.mp3", 10 * HOUR), ("broken.mp3", 60.0)])
    spans = sum(len(task.spans) for task in plan.tasks)
    assert spans == 500 + 20 + 1
    output = tmp_path / "rows.json"
    rows = cluster.rows(tmp_path / "talks.plan", output, cheap=True, max_actors=2)
    found = check_spans(plan, rows)
    assert sum(cluster.noted("transcribed").values()) == spans - 1
    # the language of the long recording, which 20 tasks need, is detected once
    assert cluster.noted("detected") == {"long.mp3": 1}
    parts = sorted((r for r in rows if r["uri"].endswith("long.mp3")), key=lambda r: r["start"])
    assert [(part["start"], part["end"]) for part in parts] == [
        (1800.0 * number, 1800.0 * (number + 1)) for number in range(20)
    ]
    assert {part["language"] for part in parts} == {"fr"}
    broken = found["broken.mp3"]
    assert broken["error"] == f"audio: {broken['uri']}: cannot be decoded"
    assert (broken["text"], broken["segments"]) == (None, None)
    assert found["7.mp3"]["segments"][0]["text"] == found["7.mp3"]["text"] == "7.mp3 0"
    assert found["7.mp3"]["error"] is None
    # a model is loaded once for each actor
    assert max(cluster.noted("models").values()) == 1
    assert sum(cluster.noted("models").values()) <= 2
    check_join(tmp_path, joined=501, failures={"audio": 1})

    # the results are complete: another run reads them, without a model
    cluster.clear()
    again = cluster.rows(tmp_path / "talks.plan", output, cheap=True)
    assert sorted(again, key=lambda row: row["id"]) == sorted(rows, key=lambda row: row["id"])
    assert not cluster.noted("models")


def check_join(folder: Path, joined: int, failures: dict[str, int]) -> None:
    """Check that `join` finds all results, and that no lease is left."""
    status = jobs.status(folder / "talks.plan")
    assert (status.missing, status.running, status.interrupted) == (0, (), 0)
    report = jobs.join(folder / "talks.plan", folder / "texts")
    assert (report.joined, report.failures) == (joined, failures)


def test_a_recording_that_kills_its_actor(cluster: RayCluster, tmp_path: Path) -> None:
    names = [(f"{number}.mp3", 60.0) for number in range(300)]
    # of different tasks
    plan = plan_of(tmp_path, [*names, ("deadly.mp3", 60.0), ("fatal.mp3", 1700.0)])
    rows = cluster.rows(
        tmp_path / "talks.plan", tmp_path / "rows.json", cheap=True, max_actors=2, rows_per_call=2
    )
    found = check_spans(plan, rows)
    assert cluster.noted("deaths")["deadly.mp3"] == 4  # once beside others, and three times alone
    assert found["deadly.mp3"]["error"].startswith("crash: ")
    errors = [row["uri"] for row in rows if row["error"]]
    assert errors == [found["deadly.mp3"]["uri"]]
    check_join(tmp_path, joined=301, failures={"crash": 1})


def test_a_node_dies(cluster: RayCluster, tmp_path: Path) -> None:
    plan = plan_of(tmp_path, [(f"{number}.mp3", 60.0) for number in range(900)])
    output = tmp_path / "rows.json"
    process = cluster.start(
        tmp_path / "talks.plan", output, cheap=True, min_actors=2, max_actors=2, rows_per_call=2
    )
    cluster.wait_for_notes("transcribed", 100)
    cluster.replace_a_node()
    rows = finished(process, output)
    check_spans(plan, rows)
    assert not [row for row in rows if row["error"]]
    assert len(cluster.noted("models")) >= 3  # one has died
    assert sum(cluster.noted("transcribed").values()) < 900 + 4 * 60
    check_join(tmp_path, joined=900, failures={})


def test_the_driver_dies_and_the_run_starts_again(cluster: RayCluster, tmp_path: Path) -> None:
    plan = plan_of(tmp_path, [(f"{number}.mp3", 60.0) for number in range(900)])
    (tmp_path / "missing.mp3").unlink(missing_ok=True)
    output = tmp_path / "rows.json"
    keywords: dict[str, Any] = {"cheap": True, "min_actors": 2, "max_actors": 2}
    process = cluster.start(tmp_path / "talks.plan", output, **keywords)
    cluster.wait_for_notes("transcribed", 150)
    process.kill()
    process.communicate()
    before = jobs.status(tmp_path / "talks.plan").transcribed
    assert 0 < before < 900
    rows = cluster.rows(tmp_path / "talks.plan", output, **keywords)
    check_spans(plan, rows)
    assert not [row for row in rows if row["error"]]
    # tasks that ran when the driver died may have run twice: at most two tasks for each actor
    assert sum(cluster.noted("transcribed").values()) < 900 + 4 * 60
    check_join(tmp_path, joined=900, failures={})


def test_a_dataset_of_recordings(cluster: RayCluster, tmp_path: Path) -> None:
    recordings = [{"uri": str(tmp_path / f"{n}.mp3"), "id": f"no. {n}"} for n in range(99)]
    recordings += [{"uri": str(tmp_path / name), "id": name} for name in ("broken", "missing")]
    for row in recordings[:-1]:
        Path(row["uri"]).write_bytes(b"no audio")
    languages = {"no. 5": "it"}
    source = cluster.write_dataset(
        tmp_path / "talks.jsonl",
        [{**row, "language": languages.get(row["id"])} for row in recordings],
    )
    rows = cluster.rows(source, tmp_path / "rows.json", cheap=True, max_actors=2)
    assert Counter(row["id"] for row in rows) == Counter(row["id"] for row in recordings)
    found = {row["id"]: row for row in rows}
    assert {row["id"] for row in rows if row["error"]} == {"broken", "missing"}
    assert found["missing"]["error"].endswith("there is no such file; check the path")
    assert found["no. 5"]["language"] == "it"
    assert (found["no. 5"]["start"], found["no. 5"]["end"]) == (0.0, 1.0)
    assert found["broken"]["end"] is None
