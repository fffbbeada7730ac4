"""Jobs that are killed at random moments, and go on."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import recordings

KILLS = (15, pytest.param(50, marks=pytest.mark.slow))


@pytest.fixture(scope="module")
def talks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """More recordings than are read at a time, so that some are finished before others begin."""
    directory = tmp_path_factory.mktemp("talks")
    for number, seconds in enumerate((8, 8, 35, 8, 8, 20)):
        recordings.write(
            recordings.prompts("en", duration=seconds, seed=number), directory / f"{number}.wav"
        )
    return directory


@pytest.mark.parametrize("kills", KILLS)
def test_every_transcript_is_what_it_would_have_been(
    talks: Path, tmp_path: Path, kills: int
) -> None:
    outputs = str(tmp_path / "outputs")
    arguments = ["transcribe", str(talks), "--model", "tiny.en", "--beam-size", "1", "--quiet"]
    arguments += ["--format", "srt,json", "--word-timestamps", "--output-dir", outputs]
    told = subprocess.run(
        [
            *(sys.executable, str(Path(__file__).with_name("lives.py"))),
            *("1", str(kills), outputs),
            *arguments,
        ],
        check=False,
        capture_output=True,
        text=True,
    )
    assert told.returncode == 0, told.stderr
    found = json.loads(told.stdout.splitlines()[-1])
    assert found["outputs"] == 12
    assert found["killed"] == kills
    assert found["threads"] == 1  # or forking would not be safe
    assert found["begun"] > 0
    assert found["partly"] > 0
