"""A Ray cluster with real weights and speech: its text is that of `work`."""

from pathlib import Path
from typing import Any, Final

import pytest

import whisperbatch as wb
from benchmarks import recordings
from tests.unit.ray.running_cluster import running_cluster

pytestmark = pytest.mark.ray

OPTIONS: Final[dict[str, Any]] = {"model": "tiny.en", "beam_size": 1}


@pytest.fixture(scope="module")
def talks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six recordings, one of them of more than one section, and a file that is no recording."""
    folder = tmp_path_factory.mktemp("ray") / "talks"
    folder.mkdir()
    for number in range(6):
        recording = recordings.prompts("en", duration=700 if number == 5 else 8, seed=number)
        recordings.write(recording, folder / f"{number}.wav")
    (folder / "broken.mp3").write_bytes(b"no audio")
    return folder


def test_the_text_is_that_of_work(talks: Path, tmp_path: Path) -> None:
    for name in ("work", "ray"):
        wb.jobs.plan(talks, tmp_path / f"{name}.plan", task_duration=300, **OPTIONS)
    wb.jobs.work(tmp_path / "work.plan")
    wb.jobs.join(tmp_path / "work.plan", tmp_path / "work", formats=["json", "srt"])
    expected = {file.name: file.read_text() for file in (tmp_path / "work").glob("?.*")}
    assert len(expected) == 12

    whole = [{"uri": str(talks / name)} for name in ("0.wav", "1.wav", "broken.mp3")]
    with running_cluster(tmp_path) as cluster:
        rows = cluster.rows(tmp_path / "ray.plan", tmp_path / "rows.json", max_actors=2)
        dataset = cluster.write_dataset(tmp_path / "talks.jsonl", whole)
        single = cluster.rows(
            dataset, tmp_path / "single.json", max_actors=1, word_timestamps=True, **OPTIONS
        )
    wb.jobs.join(tmp_path / "ray.plan", tmp_path / "ray", formats=["json", "srt"])
    assert {file.name: file.read_text() for file in (tmp_path / "ray").glob("?.*")} == expected

    spans = {(Path(row["uri"]).name, row["start"]): row for row in rows}
    assert len(rows) == len(spans) == 5 + 3 + 1
    assert [name for (name, _), row in spans.items() if row["error"]] == ["broken.mp3"]
    assert len(single) == 3
    for row in single:
        name = Path(row["uri"]).name
        if name == "broken.mp3":
            assert row["error"].startswith("audio: ")
            continue
        assert row["segments"] == spans[name, 0.0]["segments"]
        assert row["segments"][0]["words"]
        assert row["language"] == "en"
