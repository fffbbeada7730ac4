"""The example programs, run from the command line."""

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import recordings

ROOT = Path(__file__).parents[2]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "examples" / "demo.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)


@pytest.mark.slow
def test_demo_transcribes_nine_languages_and_scores_them() -> None:
    done = run()
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    segments = [line for line in lines if line.startswith("[")]
    assert len(segments) >= 27
    assert any("quick brown fox" in line.lower() for line in segments)
    scores = {line.split()[0]: line for line in lines if line.endswith("%")}
    assert set(scores) == {"en", "es", "fr", "hi", "it", "ja", "pl", "pt", "zh", "all"}


def test_demo_transcribes_a_file(tmp_path: Path) -> None:
    path = recordings.write(recordings.prompts("en", duration=20), tmp_path / "talk.mp3")
    done = run(str(path))
    assert done.returncode == 0, done.stderr
    assert all(line.startswith("[00:") for line in done.stdout.splitlines())
    assert done.stdout.count("\n") >= 3


@pytest.mark.parametrize("name", ["missing.mp3", pytest.param("empty.wav", marks=pytest.mark.slow)])
def test_demo_prints_an_error_in_one_line(name: str, tmp_path: Path) -> None:
    (tmp_path / "empty.wav").write_bytes(b"")
    done = run(str(tmp_path / name))
    assert done.returncode == 1
    notice, error = done.stderr.splitlines()
    assert notice.startswith("Loading the model ")
    assert error.startswith("demo: ")
    assert name in error
