"""Plans that several processes share, with real weights and speech."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import whisperbatch as wb
from benchmarks import recordings
from tests.model.command_line import command, run, run_here
from whisperbatch.jobs import PlanStatus

ROOT = Path(__file__).parents[2]
TUTORIAL = ROOT / "docs/tutorial/share-the-work.md"
OPTIONS = ("--model", "tiny.en", "--beam-size", "1", "--task-duration", "16")


@pytest.fixture(scope="module")
def talks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten recordings."""
    folder = tmp_path_factory.mktemp("shared") / "talks"
    folder.mkdir()
    for number in range(10):
        recording = recordings.prompts("en", duration=8, seed=number)
        recordings.write(recording, folder / f"{number}.mp3")
    return folder


@pytest.fixture
def processes() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Started by the test, and killed after it."""
    started: list[subprocess.Popen[bytes]] = []
    yield started
    for process in started:
        process.kill()
        process.wait()


def start_work(folder: Path, *arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command("work", "talks.plan", *arguments), cwd=folder, stderr=subprocess.DEVNULL
    )


def wait_until_one_is_done(folder: Path) -> PlanStatus:
    """Return the status when a worker has finished a span and works on another."""
    for _ in range(2000):
        status = wb.jobs.status(folder / "talks.plan")
        if status.transcribed and status.running:
            return status
        time.sleep(0.05)
    pytest.fail("no span was transcribed")


def transcripts(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in (folder / "out").glob("[0-9]*")}


@pytest.fixture(scope="module")
def expected(talks: Path) -> dict[str, str]:
    """The files that `transcribe` writes."""
    folder = talks.parent / "single"
    folder.mkdir()
    arguments = ("-f", "txt,srt,json", "-o", str(folder / "out"))
    run("transcribe", str(talks), *arguments, *OPTIONS[:-2], cwd=folder)
    return transcripts(folder)


@pytest.mark.slow
@pytest.mark.parametrize("kill", [signal.SIGKILL, signal.SIGTERM])
def test_two_processes_share_a_plan_and_one_dies(
    talks: Path,
    expected: dict[str, str],
    tmp_path: Path,
    kill: signal.Signals,
    processes: list[subprocess.Popen[bytes]],
) -> None:
    run("plan", str(talks), "-o", "talks.plan", *OPTIONS, cwd=tmp_path)
    lease = "3" if kill == signal.SIGKILL else "600"
    arguments = ("--lease-duration", lease, "--batch-size", "1")
    processes += [start_work(tmp_path, *arguments) for _ in range(2)]
    status = wait_until_one_is_done(tmp_path)
    worker = status.running[0].worker
    victim = next(process for process in processes if f"-{process.pid}-" in worker)
    victim.send_signal(kill)
    assert victim.wait() == (-kill if kill == signal.SIGKILL else 128 + kill)
    if kill == signal.SIGTERM:  # its leases of ten minutes do not hold the others up
        assert not any(
            f"-{victim.pid}-" in task.worker
            for task in wb.jobs.status(tmp_path / "talks.plan").running
        )
    [other] = [process for process in processes if process is not victim]
    assert other.wait(timeout=300) == 0
    assert len(list((tmp_path / "talks.plan.work/results").rglob("*.json"))) == 10
    assert list((tmp_path / "talks.plan.work").glob("leases/*")) == []
    run("join", "talks.plan", "-o", "out", "-f", "txt,srt,json", cwd=tmp_path)
    assert transcripts(tmp_path) == expected
    status_line = run("status", "talks.plan", "--json-lines", cwd=tmp_path).stdout
    assert json.loads(status_line)["transcribed"] == 10


def test_shards_and_failures_have_statuses(talks: Path, tmp_path: Path) -> None:
    (tmp_path / "broken.mp3").write_bytes(b"no media")
    sources = (str(talks), "broken.mp3", "nowhere.mp3")
    made = run_here("plan", *sources, "-o", "talks.plan", *OPTIONS, cwd=tmp_path, status=1)
    assert made.stderr.count("failed: ") == 2
    assert "10 recordings, 1.3 minutes, in 5 tasks; 2 recordings failed" in made.stderr
    run_here("work", "talks.plan", "--shard", "2/2", cwd=tmp_path, status=2)
    run("work", "talks.plan", "--shard", "1/2", cwd=tmp_path)
    joined = run_here("join", "talks.plan", "-o", "out", cwd=tmp_path, status=1)
    assert joined.stderr.count("missing: ") == 6
    assert "4 of 12 recordings joined" in joined.stderr
    assert "2 failed (2 audio), 6 missing" in joined.stderr
    status = run_here("status", "talks.plan", cwd=tmp_path).stdout
    assert "tasks       5: 2 done, 0 running, 0 interrupted, 3 waiting" in status
    assert "parts       10: 4 transcribed, 0 failed, 6 missing" in status
    run_here("work", "nowhere.plan", cwd=tmp_path, status=2)


@pytest.mark.slow
def test_a_long_recording_in_spans_has_the_transcript_of_a_single_run(tmp_path: Path) -> None:
    speech = recordings.prompts("fr", duration=900)
    recordings.write(speech, tmp_path / "long.flac")
    with wb.load("base") as asr:
        options = wb.Options(beam_size=1, word_timestamps=True)
        plan = wb.jobs.plan(
            tmp_path / "long.flac", tmp_path / "a.plan", options=options, task_duration=300
        )
        assert len(plan.tasks) == 3
        wb.jobs.work(tmp_path / "a.plan", asr=asr)
        wb.jobs.join(tmp_path / "a.plan", tmp_path / "out", formats=("json",))
        expected = asr.transcribe(tmp_path / "long.flac", options=options)
    wb.write(expected, tmp_path / "expected.json")
    assert (tmp_path / "out/long.json").read_text() == (tmp_path / "expected.json").read_text()
    assert expected.language == "fr"


@pytest.mark.slow
def test_the_commands_of_the_tutorial_run(talks: Path, tmp_path: Path) -> None:
    (tmp_path / "talks").symlink_to(talks)
    program = tmp_path / "bin/whisperbatch"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m whisperbatch "$@"\n')
    program.chmod(0o755)
    blocks = re.findall(r"```sh\n(.*?)```", TUTORIAL.read_text(), re.DOTALL)
    script = "\n".join(block for block in blocks if "whisperbatch " in block)
    assert all(f"whisperbatch {name}" in script for name in ("plan", "work", "status", "join"))
    result = subprocess.run(
        ["/bin/sh", "-e", "-c", script],
        cwd=tmp_path,
        env={**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert "10 transcribed, 0 failed, 0 missing" in result.stdout
    assert len(list((tmp_path / "texts").glob("*.srt"))) == 10
