"""Workers that are killed at random moments."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]


@pytest.mark.parametrize("rounds", [3, pytest.param(50, marks=pytest.mark.slow)])
def test_every_span_has_one_result(rounds: int, tmp_path: Path) -> None:
    process = subprocess.run(
        [
            *(sys.executable, str(Path(__file__).with_name("killed_workers.py"))),
            *("1", str(rounds), str(tmp_path)),
        ],
        check=False,
        capture_output=True,
        text=True,
        # a process with the threads of OpenBLAS cannot fork safely
        env={**os.environ, "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"},
    )
    assert process.returncode == 0, process.stderr
    counts = json.loads(process.stdout.splitlines()[-1])
    assert counts["killed"] >= rounds / 2
    # tasks are repeated after a death, and if a worker gets no CPU for longer than its lease
    assert rounds * 24 <= counts["decoded"] < 2 * rounds * 24
