"""Findings about the weights, and about the memory that they need."""

from pathlib import Path

import pytest

from tests.unit.test_machine import tree
from whisperbatch.doctor import weights
from whisperbatch.doctor.processes import ProbeResult


def test_weights_that_are_not_found_are_a_problem(tmp_path: Path) -> None:
    found, (only,) = weights.check_weights(str(tmp_path), root=tmp_path, time_limit=60)
    assert found is None
    assert only.level == "problem"
    assert only.message == f"{tmp_path / 'model.bin'}: is missing"
    assert only.fix == "give a directory of CTranslate2 weights"


@pytest.mark.parametrize(("kilobytes", "level"), [(1_000_000, "ok"), (400_000, "warning")])
def test_weights_need_memory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kilobytes: int, level: str
) -> None:
    values = {"model": "x", "directory": "/x", "bytes": 200_000_000, "ctranslate2": True}
    monkeypatch.setattr(weights, "run_probe", lambda *_, **__: ProbeResult(values))
    root = tree(tmp_path, {"proc/meminfo": f"MemAvailable: {kilobytes} kB\n"})
    found, (complete, memory) = weights.check_weights("x", root=root, time_limit=60)
    assert found == weights.Weights("x", "/x", ctranslate2=True)
    assert complete.level == "ok"
    assert (memory.subject, memory.level) == ("memory", level)
    assert "x needs about 0.5 GB" in memory.message
