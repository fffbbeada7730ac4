"""Findings about the machine, from files as the kernel shows them."""

from pathlib import Path

import pytest

from tests.unit.test_machine import tree
from whisperbatch.doctor.machine import check_machine


@pytest.fixture(autouse=True)
def _eight_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(8)), raising=False)
    monkeypatch.setattr("platform.machine", lambda: "x86_64")


def messages(root: Path) -> dict[str, str]:
    return {finding.message: finding.level for finding in check_machine(root)}


def test_a_processor_without_avx2_is_slow(tmp_path: Path) -> None:
    root = tree(tmp_path, {"proc/cpuinfo": "model name: X\nflags\t\t: fpu sse4_2 avx\n"})
    finding, _ = check_machine(root)
    assert finding.level == "warning"
    assert "no AVX2" in finding.message
    assert "-cpu host" in finding.fix


@pytest.mark.parametrize(
    ("flags", "expected"),
    [("avx avx2", "AVX2"), ("avx2 avx512f", "AVX512F"), ("avx2 avx512f amx_tile", "AMX")],
)
def test_the_best_instructions_are_named(tmp_path: Path, flags: str, expected: str) -> None:
    root = tree(tmp_path, {"proc/cpuinfo": f"flags\t\t: fpu {flags}\n"})
    assert messages(root)[f"processor: x86_64 with {expected}"] == "ok"


def test_other_processors_have_no_avx2_to_miss(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    root = tree(tmp_path, {"proc/cpuinfo": "Features\t: fp asimd\n"})
    assert set(messages(root).values()) == {"ok"}


def test_a_cpu_quota_is_a_warning(tmp_path: Path) -> None:
    files = {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "150000 100000\n"}
    _, finding = check_machine(tree(tmp_path, files))
    assert finding.level == "warning"
    assert "1.5 of 8 processors" in finding.message
    assert "2 thread(s)" in finding.message
    assert "--cpus" in finding.fix


def test_a_quota_above_the_processors_is_no_finding(tmp_path: Path) -> None:
    files = {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "900000 100000\n"}
    assert messages(tree(tmp_path, files))["8 processor(s), no CPU quota"] == "ok"
