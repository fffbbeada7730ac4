"""Jobs on one directory that are killed at random moments."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("rounds", [2, pytest.param(30, marks=pytest.mark.slow)])
def test_the_outputs_are_those_of_one_process(rounds: int, tmp_path: Path) -> None:
    process = subprocess.run(
        [
            *(sys.executable, str(Path(__file__).with_name("killed_jobs.py"))),
            *("1", str(rounds), str(tmp_path)),
        ],
        check=False,
        capture_output=True,
        text=True,
        timeout=60 * rounds,  # a lease lasts for ten minutes
        # a process with the threads of OpenBLAS cannot fork safely
        env={**os.environ, "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"},
    )
    assert process.returncode == 0, process.stderr
    counts = json.loads(process.stdout.splitlines()[-1])
    assert counts["killed"] >= rounds / 2
    assert counts["sharing"] == rounds
    # a killed process loses the rows that the engine decodes at this moment, and no others
    assert counts["rows"] <= rounds * counts["rows_of_one"] + 8 * counts["killed"]
