"""Checks of the machine: processor, CPU quota, the folders for caches, and NVIDIA's GPUs."""

import os
import platform
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from whisperbatch.dependencies import installed_version
from whisperbatch.doctor.findings import Finding
from whisperbatch.doctor.probes import Probe
from whisperbatch.runtimes.machine import available_cpus, cpu_quota, processor_features, processors

FOLDERS: Final = {
    "huggingface": ("the cache of downloaded models", "HF_HUB_CACHE", 1_000_000_000),
    "whisperbatch": ("the cache of whisperbatch", "WHISPERBATCH_CACHE", 300_000_000),
    "temporary": ("the folder for temporary files", "TMPDIR", 100_000_000),
}
"""Purpose, environment variable that chooses another folder, and the free bytes that are needed.
The weights of small take 490 MB in the Hugging Face cache. In whisperbatch's own cache, the weights
of base take 144 MB, and its graphs of OpenVINO 83 MB."""
MIN_DRIVER: Final = 525
"""The first driver for CUDA 12 on Linux, with which CTranslate2's package is built (NVIDIA, CUDA
Toolkit Release Notes, table "CUDA Toolkit and Minimum Required Driver Version")."""
PACKAGE_FOLDERS: Final = {
    "nvidia": "cudnn/lib",
    "torch": "lib",
    "ctranslate2": "../ctranslate2.libs",
}
"""Module -> folder of cuDNN, relative to the folder of the module."""
SYSTEM_FOLDERS: Final = (
    *("usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu", "usr/lib64"),
    *("usr/lib", "usr/local/lib", "usr/local/cuda/lib64"),
)


def check_machine(root: Path) -> Iterator[Finding]:
    """Check the processor and the CPU quota."""
    features, name = processor_features(root), platform.machine()
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
    quota, cpus, total = cpu_quota(root), available_cpus(root), processors()
    if quota is not None and quota < total:
        yield Finding(
            "warning",
            "machine",
            f"a CPU quota limits this process to {quota:g} of {total} processors; "
            f"whisperbatch therefore computes with {cpus} thread(s)",
            "raise the quota (docker run --cpus, resources.limits.cpu in Kubernetes)",
            measured={"cpu_quota": quota, "processors": total},
        )
    else:
        message = f"{cpus} processor(s), no CPU quota"
        yield Finding("ok", "machine", message, measured={"processors": cpus})


def check_storage(probe: Probe) -> Iterator[Finding]:
    """Check the rights and the free space of all folders that whisperbatch writes to.

    Missing rights or space are warnings: with its weights at hand, whisperbatch transcribes without
    writing. If the weights cannot be stored, the check of the weights reports a problem.
    """
    result = probe("find_folders")
    if result.failure:
        message = f"the caches are not found: {result.failure}"
        yield Finding("warning", "storage", message, result.fix)
    for kind, folder in result.values.items():
        yield check_folder(kind, Path(folder))
    try:
        temporary = Path(tempfile.gettempdir())
    except OSError as error:  # no folder is writable
        yield Finding(
            "warning",
            "storage",
            f"no folder for temporary files is writable ({error.strerror or error})",
            "free space on the disk, or set TMPDIR to a writable directory",
        )
    else:
        yield check_folder("temporary", temporary)


def check_folder(kind: str, folder: Path) -> Finding:
    """Check that files can be created in a folder, or in the parent that it will be created in."""
    purpose, variable, min_free = FOLDERS[kind]
    name, other = f"{purpose}, {folder},", f"set {variable} to a directory on another disk"
    parent = next(path for path in (folder, *folder.parents) if os.path.lexists(path))
    try:
        with tempfile.TemporaryFile(dir=parent) as file:
            file.write(bytes(1 << 16))
            file.flush()
            os.fsync(file.fileno())
        free = shutil.disk_usage(parent).free
    except OSError as error:
        message = f"{name} cannot be written ({error.strerror or error})"
        fix = f"make {parent} writable and free space on its disk, or {other}"
        return Finding("warning", "storage", message, fix)
    measured = {"free_bytes": float(free)}
    if free < min_free:
        message = f"{name} has only {free / 1e6:.0f} MB of free space"
        return Finding("warning", "storage", message, f"free space, or {other}", measured=measured)
    message = f"{name} is writable and has {free / 1e9:.1f} GB of free space"
    return Finding("ok", "storage", message, measured=measured)


def check_gpus(probe: Probe, device: str, gpus: int, root: Path) -> Iterator[Finding]:
    """Check that GPUs which are present can be used: driver and libraries.

    Args:
        probe: loads the libraries.
        device: "auto", "cpu" or "cuda", as the user asked for.
        gpus: number of CUDA devices that CTranslate2 finds.
        root: folder that contains `dev`, `proc` and `usr`.
    """
    if device == "cpu":
        return
    present = any(root.glob("dev/nvidia[0-9]*")) or any(root.glob("proc/driver/nvidia/gpus/*"))
    if not gpus and not present and device == "auto":
        yield Finding("ok", "gpu", "no NVIDIA GPU: the CPU is used")
        return
    yield _check_driver(gpus, present=present, root=root)
    yield from _check_libraries(probe)
    yield from check_cudnn(root)


def _check_driver(gpus: int, *, present: bool, root: Path) -> Finding:
    """Check that the driver is new enough, and visible to CTranslate2."""
    driver = _driver_version(root)
    if driver and driver < MIN_DRIVER:
        message = f"the NVIDIA driver {driver} is older than {MIN_DRIVER}, the first for CUDA 12"
        return Finding("problem", "gpu", message, "install a newer NVIDIA driver on the host")
    if gpus:
        message = f"CTranslate2 finds {gpus} GPU(s)"
        return Finding("ok", "gpu", message, measured={"gpus": gpus})
    if present:
        return Finding(
            "problem",
            "gpu",
            "an NVIDIA GPU is present, but CTranslate2 cannot use it",
            "check nvidia-smi; in a container, start it with the GPU and with NVIDIA's container "
            "toolkit (docker run --gpus all), and check CUDA_VISIBLE_DEVICES",
        )
    return Finding(
        "problem",
        "gpu",
        "no NVIDIA GPU is found",
        "install an NVIDIA driver; in a container, give access to the GPU (docker run --gpus "
        "all); or use --device cpu",
    )


def _driver_version(root: Path) -> int | None:
    """Return the first number of the driver's version; None if it is unknown."""
    try:
        text = (root / "proc/driver/nvidia/version").read_text(encoding="utf-8")
    except (OSError, UnicodeError):
        return None
    match = re.search(r"Kernel Module.*?\s(\d{3,})\.\d", text)
    return int(match[1]) if match else None


def _check_libraries(probe: Probe) -> Iterator[Finding]:
    """Check that the libraries load that CTranslate2 opens by name."""
    result = probe("load_cuda_libraries")
    if result.failure:
        message = f"NVIDIA's libraries cannot be loaded: {result.failure}"
        fix = "pip install --upgrade --force-reinstall nvidia-cublas-cu12 nvidia-cudnn-cu12"
        yield Finding("problem", "gpu", message, fix, result.details)
        return
    missing = result.values["missing"]
    for fix in dict.fromkeys(missing.values()):
        names = [name for name in missing if missing[name] == fix]
        verb = "is" if len(names) == 1 else "are"
        message = f"{', '.join(names)} {verb} not found, or cannot be loaded"
        yield Finding("problem", "gpu", message, fix)
    if not missing:
        yield Finding("ok", "gpu", "NVIDIA's libraries load")


def check_cudnn(root: Path) -> Iterator[Finding]:
    """Check that all copies of cuDNN 9 have the same version.

    cuDNN consists of several libraries, which open each other by name. If they come from different
    versions, cuDNN ends the process or returns wrong values.
    """
    copies = dict(_cudnn_copies(_library_folders(root)))
    if len(set(copies.values())) > 1:
        listed = ", ".join(f"{number} in {folder}" for folder, number in copies.items())
        message = f"several versions of cuDNN are installed: {listed}"
        fix = "keep one: remove the others from LD_LIBRARY_PATH, or uninstall them"
        yield Finding("warning", "gpu", message, fix)


def _library_folders(root: Path) -> Iterator[Path]:
    """Yield the folders in which the linker or whisperbatch finds cuDNN."""
    yield from map(Path, filter(None, os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep)))
    for module, subfolder in PACKAGE_FOLDERS.items():
        spec = find_spec(module)
        for location in (spec and spec.submodule_search_locations) or ():
            yield Path(location, subfolder)
    yield from (root / folder for folder in SYSTEM_FOLDERS)


def _cudnn_copies(folders: Iterable[Path]) -> Iterator[tuple[Path, str]]:
    """Yield each folder that contains cuDNN 9, with its version, if the version is known.

    The version is in the name of the file that libcudnn.so.9 is a link to. NVIDIA's pip package
    has no such file: its version is that of the package, of which file names have three numbers.
    """
    for folder in folders:
        names = sorted(path.resolve().name for path in folder.glob("libcudnn*.so.9*"))
        numbers = [match[1] for name in names if (match := re.search(r"\.so\.(9(\.\d+)+)", name))]
        if names and not numbers and folder.parts[-3:] == ("nvidia", "cudnn", "lib"):
            packages = map(installed_version, ("nvidia-cudnn-cu13", "nvidia-cudnn-cu12"))
            numbers = [".".join(number.split(".")[:3]) for number in packages if number]
        if numbers:
            yield folder.resolve(), numbers[0]
