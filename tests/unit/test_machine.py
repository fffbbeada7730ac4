"""Processors and memory of containers, from trees of files as the kernel shows them."""

from pathlib import Path

import pytest

from whisperbatch.engines.devices import share_cores
from whisperbatch.runtimes.machine import (
    available_cpus,
    available_memory,
    cpu_quota,
    has_amx,
    has_avx2,
    multiplies_bfloat16,
    processor_features,
    sums_bytes_exactly,
)

V1 = "3:cpuset:/\n4:cpu,cpuacct:{0}\n5:memory:{0}\n0::/\n"


def tree(root: Path, files: dict[str, str]) -> Path:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return root


@pytest.fixture(autouse=True)
def _eight_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(8)), raising=False)


def test_without_control_groups_there_is_no_quota(tmp_path: Path) -> None:
    assert cpu_quota(tmp_path) is None
    assert available_memory(tmp_path) is None
    assert available_cpus(tmp_path) == 8


@pytest.mark.parametrize(
    ("files", "quota", "cpus"),
    [
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "max 100000\n"}, None, 8),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "150000 100000\n"}, 1.5, 2),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "10000 100000\n"}, 0.1, 1),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "1600000 100000\n"}, 16, 8),
        # the smallest limit of all groups counts
        (
            {
                "proc/self/cgroup": "0::/a/b\n",
                "sys/fs/cgroup/a/b/cpu.max": "max 100000\n",
                "sys/fs/cgroup/a/cpu.max": "300000 100000\n",
                "sys/fs/cgroup/cpu.max": "400000 100000\n",
            },
            3,
            3,
        ),
        # the path of the host, which does not exist in the container
        ({"proc/self/cgroup": "0::/kube/pod\n", "sys/fs/cgroup/cpu.max": "200000 100000\n"}, 2, 2),
        ({"proc/self/cgroup": "0::/../x\n", "sys/fs/cgroup/x/cpu.max": "200000 100000\n"}, 2, 2),
        # version 1
        (
            {
                "proc/self/cgroup": V1.format("/docker/1"),
                "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "50000\n",
                "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
            },
            0.5,
            1,
        ),
        (
            {
                "proc/self/cgroup": V1.format("/a"),
                "sys/fs/cgroup/cpu/a/cpu.cfs_quota_us": "-1\n",
                "sys/fs/cgroup/cpu/a/cpu.cfs_period_us": "100000\n",
            },
            None,
            8,
        ),
        # damaged files
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "100000 0\n"}, None, 8),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "many\n"}, None, 8),
        ({"proc/self/cgroup": "nonsense\n"}, None, 8),
    ],
)
def test_the_quota_limits_the_number_of_threads(
    tmp_path: Path, files: dict[str, str], quota: float | None, cpus: int
) -> None:
    root = tree(tmp_path, files)
    assert cpu_quota(root) == quota
    assert available_cpus(root) == cpus


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, 4096 * 1024),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "max\n"}, 4096 * 1024),
        ({"proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/memory.max": "1000\n"}, 1000),
        (
            {
                "proc/self/cgroup": V1.format("/a"),
                "sys/fs/cgroup/memory/a/memory.limit_in_bytes": "2000\n",
                "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
            },
            2000,
        ),
    ],
)
def test_the_smallest_limit_of_memory_counts(
    tmp_path: Path, files: dict[str, str], expected: int
) -> None:
    meminfo = "MemTotal: 9999 kB\nMemAvailable:    4096 kB\n"
    assert available_memory(tree(tmp_path, {"proc/meminfo": meminfo, **files})) == expected


def test_engines_share_the_available_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("whisperbatch.engines.devices.available_cpus", lambda: 3)
    assert share_cores(0, 0) == share_cores(1, 0) == (1, 3)
    assert share_cores(2, 0) == (2, 1)
    assert share_cores(4, 0) == (4, 1)
    assert share_cores(1, 7) == (1, 7)
    assert share_cores(0, 0, most=2) == (2, 1)
    assert share_cores(0, 0, most=5) == (3, 1)
    assert share_cores(0, 3, most=2) == (1, 3)
    assert share_cores(4, 0, most=2) == (4, 1)


@pytest.mark.parametrize(
    ("line", "exact"),
    [
        ("flags\t\t: fpu avx2 avx512f avx512_vnni", True),
        ("flags\t\t: fpu avx2 avx_vnni", True),
        ("Features\t: fp asimd asimddp", True),
        ("flags\t\t: fpu avx2 avx512f", False),
        ("Features\t: fp asimd", False),
        ("model name\t: avx512_vnni", False),
    ],
)
def test_processors_that_sum_bytes_exactly(tmp_path: Path, line: str, exact: bool) -> None:
    root = tree(tmp_path, {"proc/cpuinfo": f"processor\t: 0\n{line}\n\nprocessor\t: 1\n{line}\n"})
    assert sums_bytes_exactly(root) == exact


@pytest.mark.parametrize(
    ("features", "avx2", "amx", "bfloat16"),
    [
        ("fma avx2", True, False, False),
        ("avx2 avx512f avx512_vnni", True, False, False),
        ("avx2 avx512f avx512_bf16", True, False, True),
        ("avx2 avx512f amx_tile amx_int8", True, True, True),
        ("sse4_2", False, False, False),
    ],
)
def test_instruction_sets(
    tmp_path: Path, features: str, avx2: bool, amx: bool, bfloat16: bool
) -> None:
    root = tree(tmp_path, {"proc/cpuinfo": f"processor\t: 0\nflags\t: {features}\n"})
    assert has_avx2(root) == avx2
    assert has_amx(root) == amx
    assert multiplies_bfloat16(root) == bfloat16


def test_unknown_features_of_a_processor(tmp_path: Path) -> None:
    assert processor_features(tmp_path) == set()
    assert not has_avx2(tmp_path)
    assert not multiplies_bfloat16(tmp_path)
    assert not sums_bytes_exactly(tmp_path)
