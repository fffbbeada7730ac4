"""The machine: versions, processors, GPU, weights and missing parts; links to cuBLAS.

CTranslate2 opens `libcublas.so.12`. It also works with cuBLAS 13 (docs/how-to/gpu.md), which opens
under this name if a link with the name lies in LD_LIBRARY_PATH.
"""

import json
import os
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from statistics import mean
from typing import Any, Final

from benchmarks.versions import about
from whisperbatch.runtimes.machine import available_cpus

NVIDIA_SMI: Final = "nvidia-smi"
LINKS: Final = ("libcublasLt.so", "libcublas.so")
MODEL: Final = "base"
MANY_CORES: Final = (8, 16)
INSPECTION: Final = 60.0  # seconds
SAMPLE_INTERVAL: Final = 100  # milliseconds between two samples of the GPU


def package_folders() -> list[Path]:
    """Return the folders of installed packages that may contain cuBLAS."""
    specs = map(find_spec, ("nvidia", "torch"))
    return [
        Path(place) for spec in specs if spec for place in spec.submodule_search_locations or ()
    ]


def cublas_13() -> list[Path]:
    """Return cuBLAS 13's libraries; empty if they are missing, or cuBLAS 12 is installed."""
    folders = package_folders()
    if any(True for folder in folders for _ in folder.rglob(f"{LINKS[0]}.12")):
        return []
    found = []
    for name in LINKS:
        files = [path for folder in folders for path in sorted(folder.rglob(f"{name}.13"))]
        found += files[:1]
    return found if len(found) == len(LINKS) else []


def link_cublas(folder: Path) -> None:
    """Link cuBLAS 13 under the names of cuBLAS 12, if it is there, for the processes that follow.

    Args:
        folder: for the links.
    """
    libraries = cublas_13()
    if not libraries:
        return
    folder.mkdir(parents=True, exist_ok=True)
    for library in libraries:
        link = folder / f"{library.name.removesuffix('.13')}.12"
        link.unlink(missing_ok=True)
        link.symlink_to(library.resolve())
    own = dict.fromkeys(str(library.parent) for library in libraries)  # they open each other
    paths = [str(folder), *own, *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
    os.environ["LD_LIBRARY_PATH"] = os.pathsep.join(paths)


def missing() -> dict[str, str]:
    """Return the parts that a stage may need and this machine lacks, each with the reason."""
    absent: dict[str, str] = {}
    if problem := gpu_problem():
        absent["gpu"] = problem
    if find_spec("faster_whisper") is None:
        absent["faster-whisper"] = "the package faster-whisper is not installed"
    if not has_weights(MODEL):
        absent[MODEL] = f"the weights of {MODEL} are not installed"
    if not has_weights("tiny.en"):
        absent["tiny.en"] = "the weights of tiny.en are not installed"
    for count in MANY_CORES:
        if available_cpus() < count:
            absent[f"{count} cores"] = f"the machine has {available_cpus()} cores"
    return absent


def gpu_problem() -> str | None:
    """Return why CTranslate2 cannot use a GPU; None if it can."""
    if find_spec("ctranslate2") is None:
        return "the package ctranslate2 is not installed"
    import ctranslate2  # noqa: PLC0415 - it is installed

    from whisperbatch.engines.ctranslate2.cuda import cuda_problem  # noqa: PLC0415 - as above

    return cuda_problem(0) if ctranslate2.get_cuda_device_count() else "CTranslate2 finds no GPU"


def has_weights(model: str) -> bool:
    """Return whether a model is installed or cached, so that no network is needed."""
    from whisperbatch.errors import ModelError  # noqa: PLC0415 - as below
    from whisperbatch.models.registry import find_model  # noqa: PLC0415 - after the links

    os.environ["HF_HUB_OFFLINE"] = "1"
    try:
        find_model(model)
    except (ModelError, OSError):
        return False
    return True


def inspect(command: Sequence[str]) -> tuple[dict[str, str], dict[str, Any]]:
    """Return the missing parts and the machine, as a process finds them, which may crash.

    The process also sees the links of `link_cublas`, which the linker reads at its start.

    Args:
        command: prints both as a list of JSON, in its last line.
    """
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=INSPECTION
        )
        absent, machine = json.loads(done.stdout.splitlines()[-1])
    except (subprocess.TimeoutExpired, IndexError, ValueError):
        return {"gpu": "looking for the GPU ended the process"}, {**about(), "gpu": ""}
    return absent, machine


def describe() -> dict[str, Any]:
    """Return the machine, the versions of its packages, and its GPU if nvidia-smi names one."""
    command = [NVIDIA_SMI, "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"]
    try:
        gpu = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        gpu = ""
    return {**about(), "gpu": gpu}


@dataclass(slots=True)
class GpuUse:
    """Samples of the GPU.

    Attributes:
        busy: percent of the time in which a kernel ran, by sample.
        memory: MB in use, by sample.
    """

    busy: list[float] = field(default_factory=list)
    memory: list[float] = field(default_factory=list)

    def add(self, line: str) -> None:
        """Add a line of nvidia-smi: two numbers with a comma. Other lines count nothing."""
        try:
            busy, memory = map(float, line.split(","))
        except ValueError:
            return
        self.busy.append(busy)
        self.memory.append(memory)

    def figures(self) -> dict[str, Any]:
        """Return the mean use and the peak memory; empty without samples."""
        if not self.busy:
            return {}
        return {"GPU %": mean(self.busy), "GPU MB": max(self.memory)}


@contextmanager
def gpu_use() -> Iterator[GpuUse]:
    """Sample the first GPU until the end of a `with` block. Without nvidia-smi, no samples."""
    use = GpuUse()
    command = [NVIDIA_SMI, "--id=0", "--query-gpu=utilization.gpu,memory.used"]
    command += ["--format=csv,noheader,nounits", f"--loop-ms={SAMPLE_INTERVAL}"]
    try:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    except OSError:
        yield use
        return
    with process:
        read = threading.Thread(target=lambda: list(map(use.add, process.stdout or ())))
        read.start()
        try:
            yield use
        finally:
            process.terminate()
            read.join()
