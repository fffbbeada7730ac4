"""Whether CTranslate2 can use CUDA, found out once per process and device; memory of the devices.

CTranslate2 reports a GPU as soon as there is a driver. Without cuBLAS, loading a model still
succeeds, and the first call fails. So NVIDIA's libraries are loaded first, and a tiny model with
random weights encodes a moment of silence before a model is loaded.

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
import functools
import io
import json
import logging
import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import ctranslate2
import numpy as np

from whisperbatch.errors import OptionError
from whisperbatch.models.architecture import RandomModel
from whisperbatch.models.model_bin import write_model_bin
from whisperbatch.threads import Lock, in_new_thread

log = logging.getLogger(__name__)

FIRST_WITHOUT_CUDNN: Final = (4, 6, 3)  # version of CTranslate2
RECOMMENDED: Final = (4, 8, 1)
"""The version of CTranslate2 from which the encoder holds the attention scores once, not twice
(OpenNMT/CTranslate2#2066): 90 MB for each row of large-v3. Before 4.7.0, times of words were wrong
in bfloat16 (#1972). Before 4.6.3, a filter of the alignment ran on the CPU."""


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


def other_cublas(libraries: CudaLibraries = LIBRARIES) -> Path | None:
    """Return cuBLAS of another version of CUDA in an installed package; None if there is none.

    CTranslate2 opens cuBLAS of the version for which it was built, by name, and the linker compares
    this name with the file or the name in the library. So no other version can be loaded in its
    place, unless a link with the expected name lies in a folder of LD_LIBRARY_PATH.
    """
    pattern = re.sub(r"12", "*", libraries.cublas[-1])
    for folder in _library_folders(libraries):
        for path in sorted(folder.glob(pattern)):
            if path.name not in libraries.cublas:
                return path
    return None


def ctranslate2_version() -> tuple[int, ...]:
    """Return the version of CTranslate2, as numbers."""
    return tuple(map(int, re.findall(r"\d+", version("ctranslate2"))[:3]))


@functools.cache
def warn_of_old_version() -> None:
    """Log a warning, once per process, if CTranslate2 is older than `RECOMMENDED`."""
    if ctranslate2_version() < RECOMMENDED:
        recommended = ".".join(map(str, RECOMMENDED))
        log.warning(
            "CTranslate2 %s needs more memory on a GPU than version %s, and older versions are "
            'slower or give wrong times in bfloat16: pip install "ctranslate2>=%s"',
            *(version("ctranslate2"), recommended, recommended),
        )


def _needs_cudnn(libraries: CudaLibraries) -> bool:
    """Return whether CTranslate2 comes from a package that opens cuDNN by name.

    Builds without a copy of cuDNN either do without cuDNN or link to it. On Windows, later packages
    contain a copy, too, but never call it.
    """
    return ctranslate2_version() < FIRST_WITHOUT_CUDNN and any(
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

    The symbols of cuBLAS stay local: CTranslate2 asks the library for each of them (dlsym), and
    PyTorch may load cuBLAS 13 into the same process. Those of cuDNN are global, so that its parts
    find each other.
    """
    mode = ctypes.RTLD_GLOBAL if "cudnn" in name else ctypes.RTLD_LOCAL
    with suppress(OSError):
        # 0 is the search of LoadLibraryA, which includes PATH; Linux ignores the argument
        ctypes.CDLL(name, mode=mode, winmode=0)
        return True
    for path in (folder / name for folder in folders):
        if not path.is_file():
            continue
        if add_dll_directory := getattr(os, "add_dll_directory", None):  # on Windows
            add_dll_directory(str(path.parent))
        try:
            ctypes.CDLL(str(path), mode=mode)
        except OSError as error:
            log.info("%s does not load: %s", path, error)
        else:
            log.debug("loaded %s", path)
            return True
    return False


FRAMES: Final = 16  # feature frames of the silence; the encoder makes one position of two frames
VOCABULARY: Final = ("<|endoftext|>", "<|startoftranscript|>", "<|nospeech|>", "<|notimestamps|>")
PROBE: Final = RandomModel(
    d_model=64,
    heads=1,
    layers=1,
    vocabulary_size=len(VOCABULARY),
    encoder_positions=FRAMES // 2,
    decoder_positions=1,
    dtype=np.float32,  # every GPU computes in float32
)
"""A model of 370 KB."""

DRIVER: Final = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
NO_MEMORY: Final = 2  # CUDA_ERROR_OUT_OF_MEMORY

_problems: dict[int, str | None] = {}  # by device number
_lock = Lock()


def usable_device(device: str, indexes: tuple[int, ...]) -> str:
    """Return `device`, or "cpu" if it is "auto" and CTranslate2 cannot use the GPU.

    The fallback logs a warning, once per process. Devices that do not exist are not tried here:
    `engines.devices.choose_device` reports them.

    Args:
        device: the option's value.
        indexes: numbers of the CUDA devices.

    Raises:
        OptionError: the options ask for a CUDA device that cannot be used; the message names a
            missing library and the command that installs it.
    """
    device_count = ctranslate2.get_cuda_device_count() if device in ("auto", "cuda") else 0
    if not all(0 <= index < device_count for index in indexes):
        return device
    problem = next(filter(None, map(cuda_problem, indexes)), None)
    if problem is None:
        return device
    if device == "cuda":
        raise OptionError(f"`device='cuda'`: {problem}; or use `device='cpu'`")
    if indexes != (0,):
        raise OptionError(f"`device_index={', '.join(map(str, indexes))}`: {problem}")
    _warn_once(problem)
    return "cpu"


@functools.cache
def _warn_once(problem: str) -> None:
    log.warning("device='auto' uses the CPU: %s", problem)


def cuda_problem(device_index: int) -> str | None:
    """Return why CTranslate2 cannot use a CUDA device, in one line; None if it can.

    The first call for a device loads NVIDIA's libraries and encodes with `PROBE`. Further calls
    return the same result. Thread-safe.

    Args:
        device_index: number of the device, which must exist.
    """
    with _lock:
        if device_index not in _problems:
            _problems[device_index] = _find_problem(device_index)
        return _problems[device_index]


def encode_silence(device: str, device_index: int) -> Any:  # noqa: ANN401 - untyped
    """Encode a moment of silence with the tiny model.

    Args:
        device: "cpu" or "cuda".
        device_index: number of the device.

    Returns:
        Encoder output of shape (1, FRAMES / 2, d_model) on the CPU.

    Raises:
        RuntimeError: from CTranslate2: the device does not work.
    """
    weights = io.BytesIO()
    write_model_bin(weights, PROBE.arrays())
    files = {
        "model.bin": weights.getvalue(),
        "config.json": b"{}",
        "vocabulary.json": json.dumps(VOCABULARY).encode(),
    }
    model = ctranslate2.models.Whisper(
        "probe",
        device=device,
        device_index=device_index,
        compute_type="float32",
        intra_threads=1,
        files=files,
    )
    silence = np.zeros((1, PROBE.n_mels, FRAMES), np.float32)
    # on a GPU the call returns before the result is there, unless it is copied to the CPU
    return model.encode(ctranslate2.StorageView.from_array(silence), to_cpu=True)


def _find_problem(device_index: int) -> str | None:
    missing = preload_libraries()
    for library in missing:
        if "cudnn" in library:  # CTranslate2 would end the process
            return _problem(device_index, f"{library} is not found", library)
    try:
        in_new_thread(functools.partial(encode_silence, "cuda", device_index))
    except Exception as error:  # noqa: BLE001 - RuntimeError, and the errors of the bindings
        text = " ".join(str(error).split()) or type(error).__name__
        # a build of CTranslate2 may do without cuBLAS 12, so only its own error counts
        return _problem(device_index, text, next((name for name in missing if name in text), None))
    return None


def _problem(device_index: int, text: str, missing_library: str | None) -> str:
    remedy = f"; {install_hint(missing_library)}" if missing_library else ""
    if missing_library in LIBRARIES.cublas and (other := other_cublas()):
        remedy += f" ({other.name} of another CUDA version does not serve)"
    return f"CUDA device {device_index} cannot be used: {text}{remedy}"


class Driver:
    """Functions of NVIDIA's driver for one device (CUDA Driver API, cuda.h).

        CUresult cuInit(unsigned int flags)
        CUresult cuDeviceGet(CUdevice *device, int ordinal)        CUdevice is an int

    CTranslate2 reports nothing about the memory. nvidia-smi numbers the devices differently: the
    driver, as CTranslate2, counts only the devices of CUDA_VISIBLE_DEVICES.

    Args:
        device_index: number of the device, as CTranslate2 counts.

    Attributes:
        device: the driver's handle of the device.

    Raises:
        OSError: there is no driver, or a function failed.
        AttributeError: the driver lacks a function.
    """

    def __init__(self, device_index: int) -> None:
        self._library = ctypes.CDLL(DRIVER)
        self.device = ctypes.c_int()
        self.call("cuInit", ctypes.c_uint(0))
        self.call("cuDeviceGet", ctypes.byref(self.device), ctypes.c_int(device_index))

    def call(self, function: str, *arguments: object) -> None:
        """Call a function.

        Raises:
            OSError: the function failed; `errno` is its result.
            AttributeError: the driver lacks the function.
        """
        if result := getattr(self._library, function)(*arguments):
            raise OSError(result, f"{function} failed")


def total_memory(device_index: int) -> int | None:
    """Return the total memory of a CUDA device in bytes; None if it cannot be found out.

        CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice dev)

    Args:
        device_index: number of the device, as CTranslate2 counts.
    """
    size = ctypes.c_size_t()
    try:
        driver = Driver(device_index)
        driver.call("cuDeviceTotalMem_v2", ctypes.byref(size), driver.device)
    except (OSError, AttributeError):
        return None
    return size.value


RELEASE_THRESHOLD: Final = 4  # CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
WITHOUT_LIMIT: Final = (1 << 64) - 1


def keep_memory(device_index: int) -> None:
    """Let a device's memory pool keep the memory that CTranslate2 frees, for its next call.

    CTranslate2 takes its arrays from the default pool (cudaMallocAsync, src/cuda/allocator.cc). By
    default, the pool gives free memory back whenever the process waits for the device, several
    times in each call, and takes it again: gigabytes for a full batch.

    Args:
        device_index: number of the device, as CTranslate2 counts.
    """
    with suppress(OSError, AttributeError):
        set_release_threshold(device_index, WITHOUT_LIMIT)


def set_release_threshold(device_index: int, size: int) -> None:
    """Set the free memory that a device's memory pool keeps, in bytes. CUDA's default is 0.

        CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice dev)
        CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void *value)

    Args:
        device_index: number of the device, as CTranslate2 counts.
        size: at most `WITHOUT_LIMIT`.

    Raises:
        OSError: there is no driver, or a function failed.
        AttributeError: the driver has no memory pools.
    """
    driver, threshold = Driver(device_index), ctypes.c_uint64(size)
    pool = _default_pool(driver)
    attribute = ctypes.c_int(RELEASE_THRESHOLD)
    driver.call("cuMemPoolSetAttribute", pool, attribute, ctypes.byref(threshold))


def return_memory(device_index: int) -> None:
    """Give the free memory of a device's memory pool back, for other programs.

        CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t minBytesToKeep)

    Args:
        device_index: number of the device, as CTranslate2 counts.
    """
    with suppress(OSError, AttributeError):
        driver = Driver(device_index)
        driver.call("cuMemPoolTrimTo", _default_pool(driver), ctypes.c_size_t(0))


def _default_pool(driver: Driver) -> ctypes.c_void_p:
    pool = ctypes.c_void_p()
    driver.call("cuDeviceGetDefaultMemPool", ctypes.byref(pool), driver.device)
    return pool


def device_fails(device_index: int) -> bool:
    """Return whether a device fails because of an earlier error, until the process ends.

    CUDA returns some errors again in every later call. Waits for the work of the device. The
    context is that of CTranslate2, which uses the primary context.

        CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice dev)
        CUresult cuCtxPushCurrent_v2(CUcontext context)
        CUresult cuCtxSynchronize(void)
        CUresult cuCtxPopCurrent_v2(CUcontext *context)
        CUresult cuDevicePrimaryCtxRelease_v2(CUdevice dev)

    Args:
        device_index: number of the device, as CTranslate2 counts.
    """
    try:
        driver = Driver(device_index)
        with _primary_context(driver):
            driver.call("cuCtxSynchronize")
    except AttributeError:
        return False
    except OSError as error:
        return error.errno not in (None, NO_MEMORY)  # None: there is no driver
    return False


@contextmanager
def _primary_context(driver: Driver) -> Iterator[None]:
    context = ctypes.c_void_p()
    driver.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), driver.device)
    try:
        driver.call("cuCtxPushCurrent_v2", context)
        try:
            yield
        finally:
            driver.call("cuCtxPopCurrent_v2", ctypes.byref(context))
    finally:
        driver.call("cuDevicePrimaryCtxRelease_v2", driver.device)
