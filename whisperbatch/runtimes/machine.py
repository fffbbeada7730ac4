"""The processors and the memory that this process may use. A container may have a part of both.

The limits of a container are those of its control group and of all groups above it:

    /proc/self/cgroup     0::/a/b                   version 2: one line
                          4:cpu,cpuacct:/a/b        version 1: one line for each set of controllers
    /sys/fs/cgroup/       a/b/cpu.max               version 2
    /sys/fs/cgroup/cpu/   a/b/cpu.cfs_quota_us      version 1

Inside a container, the path may be that of the host, which does not exist there. The folder of the
mount then contains the container's own limits.

`root` is the folder that contains `proc` and `sys`, in tests another than "/".
"""

import math
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

ROOT: Final = Path("/")


def available_cpus(root: Path = ROOT) -> int:
    """Return the number of threads that can compute at a time in this process, at least 1.

    The number is the smaller of the processors on which the process may run, and of the CPU quota,
    rounded up: with a quota of 1.5, one thread would leave a third of the quota unused.
    """
    cpus = processors()
    quota = cpu_quota(root)
    return cpus if quota is None else max(1, min(cpus, math.ceil(quota)))


def process_memory(root: Path = ROOT) -> int | None:
    """Return the memory that this process occupies, in bytes; None if the system does not say."""
    pages = _read(root / "proc/self/statm").split()
    return int(pages[1]) * os.sysconf("SC_PAGE_SIZE") if pages else None


def processors() -> int:
    """Return the number of processors on which this process may run, without its quota."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1  # macOS and Windows have no affinity


def cpu_quota(root: Path = ROOT) -> float | None:
    """Return the processor time per second that the control groups allow; None for no limit."""
    quotas: list[float] = []
    for folder in _groups(root, "cpu"):
        fields = _read(folder / "cpu.max").split()
        if not fields:
            fields = [_read(folder / f"cpu.cfs_{name}_us").strip() for name in ("quota", "period")]
        with suppress(ValueError, ZeroDivisionError):  # "max", or no such file
            quotas.append(int(fields[0]) / int(fields[1]))
    return min((quota for quota in quotas if quota > 0), default=None)  # -1 is no limit


def processor_features(root: Path = ROOT) -> frozenset[str]:
    """Return the features of the processor as Linux names them; empty if they are unknown."""
    for line in _read(root / "proc/cpuinfo").splitlines():
        name, _, features = line.partition(":")
        if name.strip() in {"flags", "Features"}:  # on x86, and on ARM
            return frozenset(features.split())
    return frozenset()


def has_avx2(root: Path = ROOT) -> bool:
    """Return whether the processor is known to have AVX2."""
    return "avx2" in processor_features(root)


def has_amx(root: Path = ROOT) -> bool:
    """Return whether the processor is known to multiply matrices of bytes (AMX)."""
    return "amx_int8" in processor_features(root)


def multiplies_bfloat16(root: Path = ROOT) -> bool:
    """Return whether the processor is known to multiply numbers in bfloat16: AMX or AVX-512."""
    return has_amx(root) or "avx512_bf16" in processor_features(root)


def sums_bytes_exactly(root: Path = ROOT) -> bool:
    """Return whether the processor is known to add products of bytes in 32 bits.

    Older processors add two of them in 16 bits, and clip the sum.
    """
    return not processor_features(root).isdisjoint({"avx512_vnni", "avx_vnni", "asimddp"})


def available_memory(root: Path = ROOT) -> int | None:
    """Return the bytes of memory that this process can still use; None if they are unknown.

    The limit of a container counts as a whole: the memory that the container uses includes the file
    cache, which the system can free.
    """
    amounts = [
        int(line.split()[1]) * 1024
        for line in _read(root / "proc/meminfo").splitlines()
        if line.startswith("MemAvailable:")
    ]
    for folder in _groups(root, "memory"):
        for name in ("memory.max", "memory.limit_in_bytes"):
            with suppress(ValueError):  # "max", or no such file
                amounts.append(int(_read(folder / name)))
    return min(amounts, default=None)


def _groups(root: Path, controller: str) -> Iterator[Path]:
    """Yield the folders of the control groups that limit this process, of both versions."""
    mount = root / "sys/fs/cgroup"
    for line in _read(root / "proc/self/cgroup").splitlines():
        controllers, separator, path = line.partition(":")[2].partition(":")
        if not separator:
            continue
        if not controllers:
            mounts = [mount, mount / "unified"]
        elif controller in controllers.split(","):
            mounts = [mount / controllers, mount / controller]
        else:
            continue
        parts = [part for part in path.split("/") if part not in ("", "..")]
        for base in mounts:
            for count in range(len(parts), -1, -1):
                yield base.joinpath(*parts[:count])


def _read(path: Path) -> str:
    """Return the content of a file; "" if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeError):
        return ""
