"""A disk that fails in the middle of a job: the job reports it, and the next run completes it."""

import resource
import subprocess
from functools import partial
from pathlib import Path

import pytest

from benchmarks import recordings
from tests.model.command_line import FAST, command

DURATIONS = (5, 60, 5)  # seconds of the recordings


@pytest.fixture(scope="module")
def talks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("disk") / "talks"
    directory.mkdir()
    for number, seconds in enumerate(DURATIONS):
        recording = recordings.prompts("en", duration=seconds, seed=number)
        recordings.write(recording, directory / f"{number}.wav")
    return directory


def run_job(talks: Path, file_size: int = -1) -> tuple[int, list[str]]:
    """Run a job while no file can grow beyond a size; writing then fails with EFBIG.

    Returns the status and the lines of standard error.
    """
    limit = partial(resource.setrlimit, resource.RLIMIT_FSIZE, (file_size, file_size))
    result = subprocess.run(
        command(
            *("transcribe", str(talks), "-o", "texts", "-f", "txt,json", "--word-timestamps"),
            *("--engine", "ctranslate2"),  # compiles nothing that it would write to a cache
            *(*FAST, "--quiet"),
        ),
        cwd=talks.parent,
        capture_output=True,
        check=False,
        text=True,
        preexec_fn=limit,
    )
    return result.returncode, result.stderr.splitlines()


def outputs(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.glob("[!.]*")}


@pytest.mark.slow
def test_a_job_on_a_failing_disk_is_completed_by_the_next_run(talks: Path) -> None:
    texts = talks.parent / "texts"
    status, lines = run_job(talks, 12_000)
    assert status == 5  # not even the ledger can be created
    [line] = lines
    assert ".whisperbatch.db: the ledger of the job cannot be used: " in line
    assert not outputs(texts)
    for file_size in (36_000, 60_000):
        status, lines = run_job(talks, file_size)
        failed = [line for line in lines if line.startswith("failed: ")]
        assert status == 1 or (status, lines) == (0, [])
        assert len(failed) <= len(DURATIONS)
        assert not [line for line in lines if "Traceback" in line or "exists already" in line]
    assert run_job(talks) == (0, [])
    assert len(outputs(texts)) == 2 * len(DURATIONS)
    interrupted = outputs(texts)
    for path in texts.iterdir():
        path.unlink()
    assert run_job(talks) == (0, [])
    assert outputs(texts) == interrupted
