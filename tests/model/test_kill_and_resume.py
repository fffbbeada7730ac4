"""Jobs that are killed at random moments and resumed."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import recordings

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def talks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """More recordings than are read at a time: some are finished before others begin."""
    directory = tmp_path_factory.mktemp("talks")
    for number, seconds in enumerate((8, 8, 35, 8, 8, 20)):
        recordings.write(
            recordings.prompts("en", duration=seconds, seed=number), directory / f"{number}.wav"
        )
    return directory


@pytest.mark.parametrize("kills", [5, 50])
def test_transcripts_are_the_same_as_without_kills(talks: Path, tmp_path: Path, kills: int) -> None:
    outputs = str(tmp_path / "outputs")
    arguments = ["transcribe", str(talks), "--model", "tiny.en", "--beam-size", "1", "--quiet"]
    arguments += ["--format", "srt,json", "--word-timestamps", "--output-dir", outputs]
    process = subprocess.run(
        [
            *(sys.executable, str(Path(__file__).with_name("kill_and_resume.py"))),
            *("1", str(kills), outputs),
            *arguments,
        ],
        check=False,
        capture_output=True,
        text=True,
    )
    assert process.returncode == 0, process.stderr
    counts = json.loads(process.stdout.splitlines()[-1])
    assert counts["outputs"] == 12
    assert counts["killed"] == kills
    assert counts["threads"] == 1  # a process with several threads cannot fork safely
    assert counts["with_journal"] > 0
    assert counts["with_some_outputs"] > 0
