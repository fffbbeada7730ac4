"""Workers that are killed at random moments."""

from pathlib import Path

import pytest

from tests.unit.jobs.killing_programs import counts_of

PROGRAM = Path(__file__).with_name("killed_workers.py")


@pytest.mark.parametrize("rounds", [3, pytest.param(50, marks=pytest.mark.slow)])
def test_every_span_has_one_result(rounds: int, tmp_path: Path) -> None:
    counts = counts_of(PROGRAM, rounds, tmp_path)
    assert counts["killed"] >= rounds / 2
    # tasks are repeated after a death, and if a worker gets no CPU for longer than its lease
    assert rounds * 24 <= counts["decoded"] < 2 * rounds * 24
