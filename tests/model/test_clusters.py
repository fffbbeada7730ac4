"""The recipes for clusters run on real weights and speech: each transcribes a shard of one plan."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import whisperbatch as wb
from benchmarks import recordings
from tests.unit.clusters.cluster_commands import NAMES, command_of, write_programs
from whisperbatch.writers import render


@pytest.mark.slow
def test_the_shards_of_three_clusters_are_the_plan(tmp_path: Path) -> None:
    talks = tmp_path / "talks"
    talks.mkdir()
    for number in range(6):
        recording = recordings.prompts("en", duration=8, seed=number)
        recordings.write(recording, talks / f"{number}.mp3")
    plan = tmp_path / "talks.plan"
    wb.jobs.plan(talks, plan, model="tiny.en", beam_size=1, task_duration=8)
    write_programs(tmp_path / "bin", f"{sys.executable} -m whisperbatch")
    for shard, cluster in enumerate(NAMES):
        command = command_of(cluster, str(plan), shard, len(NAMES))
        path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
        done = subprocess.run(
            command.arguments,
            env={**os.environ, **command.environment, "PATH": path},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert "2 transcribed" in done.stderr
    report = wb.jobs.join(plan, tmp_path / "texts")
    assert (report.joined, report.workers, report.failures) == (6, 3, {})
    with wb.load("tiny.en") as asr:
        for number in range(6):
            alone = asr.transcribe(talks / f"{number}.mp3", beam_size=1, word_timestamps=True)
            assert (tmp_path / f"texts/{number}.txt").read_text() == render(alone, "txt")
