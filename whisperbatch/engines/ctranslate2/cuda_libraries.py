"""NVIDIA's libraries: found in installed packages, and loaded before CTranslate2 needs them.

CTranslate2 opens cuBLAS at the first matrix product on a GPU, by its name (src/cuda/cublas_stub.cc:
dlopen("libcublas.so.12")). The system's linker does not search the folders of Python packages:

    site-packages/nvidia/cublas/lib/libcublas.so.12     nvidia-cublas-cu12, and PyTorch for CUDA 12
    site-packages/nvidia/cudnn/lib/libcudnn_ops.so.9    nvidia-cudnn-cu12
    site-packages/torch/lib/                            PyTorch from download.pytorch.org

The linker does find a library that the process has already loaded, so it suffices to load the files
by their paths. faster-whisper asks its users to set LD_LIBRARY_PATH before Python starts
(SYSTRAN/faster-whisper#153). On Windows, CTranslate2 calls LoadLibraryA("cublas64_12.dll"), which
ignores os.add_dll_directory, but finds a loaded library, too.

CTranslate2's packages from 4.6.3 on need cuBLAS only (OpenNMT/CTranslate2#1949). Earlier packages
contain a copy of cuDNN's dispatch library, which opens cuDNN's other libraries by name. If they are
missing, cuDNN ends the process: "Unable to load any of {libcudnn_ops.so.9.1.0, ...} Invalid handle.
Cannot load symbol cudnnCreateTensorDescriptor", then SIGABRT (OpenNMT/CTranslate2#1826). So cuDNN's
libraries must be checked before the first call on a GPU.
"""

import ctypes
import logging
import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Final

log = logging.getLogger(__name__)

FIRST_WITHOUT_CUDNN: Final = (4, 6, 3)  # version of CTranslate2


@dataclass(frozen=True, slots=True)
class CudaLibraries:
    """Names of libraries on one operating system.

    Attributes:
        cublas: cuBLAS; a library comes after the libraries that it needs.
        cudnn: parts of cuDNN that a convolution needs, in the same order.
        folder: folder of the libraries in NVIDIA's packages.
        bundled_cudnn: pattern of CTranslate2's own copy of cuDNN, relative to site-packages.
    """

    cublas: tuple[str, ...]
    cudnn: tuple[str, ...]
    folder: str
    bundled_cudnn: str


LINUX: Final = CudaLibraries(
    cublas=("libcublasLt.so.12", "libcublas.so.12"),
    cudnn=("libcudnn.so.9", "libcudnn_graph.so.9", "libcudnn_ops.so.9", "libcudnn_cnn.so.9"),
    folder="lib",
    bundled_cudnn="ctranslate2.libs/libcudnn*",
)
WINDOWS: Final = CudaLibraries(
    cublas=("cublasLt64_12.dll", "cublas64_12.dll"),
    cudnn=("cudnn64_9.dll", "cudnn_graph64_9.dll", "cudnn_ops64_9.dll", "cudnn_cnn64_9.dll"),
    folder="bin",
    bundled_cudnn="ctranslate2/cudnn64_*.dll",
)
LIBRARIES: Final = WINDOWS if sys.platform == "win32" else LINUX


def preload_libraries(libraries: CudaLibraries = LIBRARIES) -> list[str]:
    """Load the libraries that CTranslate2 opens by name on a GPU.

    A library that the system's linker finds is used as it is; otherwise it is searched in the
    installed packages.

    Args:
        libraries: the names of this operating system.

    Returns:
        Names of the libraries that were not found or could not be loaded.
    """
    names = (*libraries.cublas, *(libraries.cudnn if _needs_cudnn(libraries) else ()))
    folders = list(_library_folders(libraries))
    return [name for name in names if not _load(name, folders)]


def install_hint(library: str) -> str:
    """Return how to install a library that is missing.

    Args:
        library: file name, out of `CudaLibraries`.
    """
    if "cudnn" in library:
        needless = ".".join(map(str, FIRST_WITHOUT_CUDNN))
        return (
            f'pip install "ctranslate2>={needless}", which needs no cuDNN, '
            "or pip install nvidia-cublas-cu12 nvidia-cudnn-cu12"
        )
    return "pip install nvidia-cublas-cu12"


def _needs_cudnn(libraries: CudaLibraries) -> bool:
    """Return whether CTranslate2 comes from a package that opens cuDNN by name.

    Builds without a copy of cuDNN either do without cuDNN or link to it. On Windows, later packages
    contain a copy, too, but never call it.
    """
    numbers = tuple(map(int, re.findall(r"\d+", version("ctranslate2"))[:3]))
    return numbers < FIRST_WITHOUT_CUDNN and any(
        any(folder.parent.glob(libraries.bundled_cudnn)) for folder in _package("ctranslate2")
    )


def _library_folders(libraries: CudaLibraries) -> Iterator[Path]:
    """Yield the folders of installed packages that may contain the libraries."""
    for folder in _package("nvidia"):
        yield from sorted(folder.glob(f"*/{libraries.folder}"))
    for folder in _package("torch"):
        yield folder / "lib"


def _package(name: str) -> list[Path]:
    """Return the folders of an installed package without importing it."""
    with suppress(ValueError):  # a module in sys.modules without a specification
        if (spec := find_spec(name)) is not None:
            return [Path(folder) for folder in spec.submodule_search_locations or ()]
    return []


def _load(name: str, folders: Sequence[Path]) -> bool:
    """Load a library, and return whether it is loaded.

    The symbols are global (RTLD_GLOBAL), so that libraries of the same set find each other.
    """
    with suppress(OSError):
        # 0 is the search of LoadLibraryA, which includes PATH; Linux ignores the argument
        ctypes.CDLL(name, mode=ctypes.RTLD_GLOBAL, winmode=0)
        return True
    for path in (folder / name for folder in folders):
        if not path.is_file():
            continue
        if add_dll_directory := getattr(os, "add_dll_directory", None):  # on Windows
            add_dll_directory(str(path.parent))
        try:
            ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
        except OSError as error:
            log.info("%s does not load: %s", path, error)
        else:
            log.debug("loaded %s", path)
            return True
    return False
