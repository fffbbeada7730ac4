"""Jobs on one directory that are killed at random moments."""

from pathlib import Path

import pytest

from tests.unit.jobs.killing_programs import counts_of

PROGRAM = Path(__file__).with_name("killed_jobs.py")


@pytest.mark.slow
def test_the_outputs_are_those_of_one_process(tmp_path: Path) -> None:
    rounds = 30
    # a round that waited for the end of a lease would take two minutes
    counts = counts_of(PROGRAM, rounds, tmp_path, timeout=60.0 * rounds)
    assert counts["killed"] >= rounds / 2
    assert counts["sharing"] == rounds
    # a killed process loses the rows that the engine decodes at this moment, and no others
    assert counts["rows"] <= rounds * counts["rows_of_one"] + 8 * counts["killed"]
