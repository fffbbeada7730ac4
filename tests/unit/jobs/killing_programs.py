"""Programs that kill processes at random moments: how a test starts them, and their recordings."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.unit.fakes import noise
from tests.unit.media_files import encode

ROOT = Path(__file__).parents[3]


def counts_of(
    program: Path, rounds: int, folder: Path, timeout: float | None = None
) -> dict[str, Any]:
    """Run the rounds of a program, and return the counts that it prints."""
    process = subprocess.run(
        [sys.executable, str(program), "1", str(rounds), str(folder)],
        check=False,
        capture_output=True,
        text=True,
        timeout=timeout,
        # a process with the threads of OpenBLAS cannot fork safely
        env={**os.environ, "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"},
    )
    assert process.returncode == 0, process.stderr
    counts: dict[str, Any] = json.loads(process.stdout.splitlines()[-1])
    return counts


def write_talks(folder: Path, seconds: list[int]) -> Path:
    """Write recordings of these lengths, and return their folder."""
    talks = folder / "talks"
    talks.mkdir()
    for number, length in enumerate(seconds):
        data = encode([noise(length, seed=number)], "wav", "pcm_s16le", rate=16000)
        (talks / f"{number}.wav").write_bytes(data)
    return talks
