"""Checks of NVIDIA's GPUs: driver and libraries."""

import os
import re
from collections.abc import Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from whisperbatch.doctor.findings import Finding
from whisperbatch.doctor.processes import run_probe

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


def check_cuda(device: str, gpus: int, *, root: Path, time_limit: float) -> Iterator[Finding]:
    """Check that GPUs which are present can be used.

    Args:
        device: "auto", "cpu" or "cuda", as the user asked for.
        gpus: number of CUDA devices that CTranslate2 finds.
        root: folder that contains `dev`, `proc` and `usr`.
        time_limit: seconds to load the libraries.
    """
    if device == "cpu":
        return
    present = any(root.glob("dev/nvidia[0-9]*")) or any(root.glob("proc/driver/nvidia/gpus/*"))
    if not gpus and not present and device == "auto":
        yield Finding("ok", "gpu", "no NVIDIA GPU: the CPU is used")
        return
    yield from _check_driver(gpus, present=present, root=root)
    yield from _check_libraries(time_limit)
    yield from check_cudnn(root)


def _check_driver(gpus: int, *, present: bool, root: Path) -> Iterator[Finding]:
    """Check that the driver is new enough, and visible to CTranslate2."""
    driver = _driver_version(root)
    if driver and driver < MIN_DRIVER:
        yield Finding(
            "problem",
            "gpu",
            f"the NVIDIA driver {driver} is older than {MIN_DRIVER}, the first for CUDA 12",
            "install a newer NVIDIA driver on the host",
        )
    elif gpus:
        yield Finding("ok", "gpu", f"CTranslate2 finds {gpus} GPU(s)", measured={"gpus": gpus})
    elif present:
        yield Finding(
            "problem",
            "gpu",
            "an NVIDIA GPU is present, but CTranslate2 cannot use it",
            "check nvidia-smi; in a container, start it with the GPU and with NVIDIA's container "
            "toolkit (docker run --gpus all), and check CUDA_VISIBLE_DEVICES",
        )
    else:
        yield Finding(
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


def _check_libraries(time_limit: float) -> Iterator[Finding]:
    """Check that the libraries load that CTranslate2 opens by name."""
    result = run_probe("load_cuda_libraries", time_limit=time_limit)
    if result.failure:
        yield Finding(
            "problem",
            "gpu",
            f"NVIDIA's libraries cannot be loaded: {result.failure}",
            "pip install --upgrade --force-reinstall nvidia-cublas-cu12 nvidia-cudnn-cu12",
            result.details,
        )
        return
    missing = result.values["missing"]
    for fix in dict.fromkeys(missing.values()):
        names = [name for name in missing if missing[name] == fix]
        verb = "is" if len(names) == 1 else "are"
        yield Finding(
            "problem", "gpu", f"{', '.join(names)} {verb} not found, or cannot be loaded", fix
        )
    if not missing:
        yield Finding("ok", "gpu", "NVIDIA's libraries load")


def check_cudnn(root: Path) -> Iterator[Finding]:
    """Check that all copies of cuDNN 9 have the same version.

    cuDNN consists of several libraries, which open each other by name. If they come from different
    versions, cuDNN ends the process or returns wrong values.

    Args:
        root: folder that contains `usr`.
    """
    copies = dict(_cudnn_copies(_library_folders(root)))
    if len(set(copies.values())) > 1:
        listed = ", ".join(f"{number} in {folder}" for folder, number in copies.items())
        yield Finding(
            "warning",
            "gpu",
            f"several versions of cuDNN are installed: {listed}",
            "keep one: remove the others from LD_LIBRARY_PATH, or uninstall them",
        )


def _library_folders(root: Path) -> Iterator[Path]:
    """Yield the folders in which the linker or whisperbatch finds cuDNN."""
    for folder in os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep):
        if folder:
            yield Path(folder)
    for module, subfolder in PACKAGE_FOLDERS.items():
        spec = find_spec(module)
        for location in (spec and spec.submodule_search_locations) or ():
            yield Path(location, subfolder)
    yield from (root / folder for folder in SYSTEM_FOLDERS)


def _cudnn_copies(folders: Iterator[Path]) -> Iterator[tuple[Path, str]]:
    """Yield each folder that contains cuDNN 9, with its version, if the version is known.

    The version is in the name of the file that libcudnn.so.9 is a link to. NVIDIA's pip package
    has no such file: its version is that of the package.
    """
    for folder in folders:
        names = sorted(path.resolve().name for path in folder.glob("libcudnn*.so.9*"))
        numbers = [match[1] for name in names if (match := re.search(r"\.so\.(9(\.\d+)+)", name))]
        if numbers:
            yield folder.resolve(), numbers[0]
        elif names and folder.parts[-3:] == ("nvidia", "cudnn", "lib"):
            for package in _cudnn_packages():
                yield folder.resolve(), package


def _cudnn_packages() -> Sequence[str]:
    """Return the version of NVIDIA's pip package of cuDNN, in three numbers as in file names."""
    versions: list[str] = []
    for name in ("nvidia-cudnn-cu12", "nvidia-cudnn-cu13"):
        try:
            versions.append(".".join(version(name).split(".")[:3]))
        except PackageNotFoundError:
            continue
    return versions
