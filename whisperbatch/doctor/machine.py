"""Checks of the processor and of the CPU quota."""

import platform
from collections.abc import Iterator
from pathlib import Path

from whisperbatch.doctor.findings import Finding
from whisperbatch.machine import available_cpus, cpu_quota, processor_features, processors


def check_machine(root: Path) -> Iterator[Finding]:
    """Check the processor and the CPU quota.

    Args:
        root: folder that contains `proc` and `sys`.
    """
    yield from _check_processor(root)
    yield from _check_quota(root)


def _check_processor(root: Path) -> Iterator[Finding]:
    features = processor_features(root)
    name = platform.machine()
    if name.lower() not in ("x86_64", "amd64") or not features:
        yield Finding("ok", "machine", f"processor: {name}")
    elif "avx2" in features:
        best = next(flag for flag in ("amx_tile", "avx512f", "avx2") if flag in features)
        yield Finding("ok", "machine", f"processor: {name} with {best.partition('_')[0].upper()}")
    else:
        yield Finding(
            "warning",
            "machine",
            "the processor has no AVX2, so all engines are slow on the CPU",
            "use a newer processor; in a virtual machine, pass on the features of the host's "
            "processor (QEMU: -cpu host)",
        )


def _check_quota(root: Path) -> Iterator[Finding]:
    quota, cpus = cpu_quota(root), available_cpus(root)
    if quota is not None and quota < processors():
        yield Finding(
            "warning",
            "machine",
            f"a CPU quota limits this process to {quota:g} of {processors()} processors; "
            f"whisperbatch therefore computes with {cpus} thread(s)",
            "raise the quota (docker run --cpus, resources.limits.cpu in Kubernetes)",
            measured={"cpu_quota": quota, "processors": processors()},
        )
    else:
        yield Finding(
            "ok", "machine", f"{cpus} processor(s), no CPU quota", measured={"processors": cpus}
        )
