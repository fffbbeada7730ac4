"""Finds out, once per process and device, whether CTranslate2 can use CUDA; its memory.

CTranslate2 reports a GPU as soon as there is a driver. Without cuBLAS, loading a model still
succeeds, and the first call fails. So a tiny model with random weights encodes a moment of silence
before a model is loaded.
"""

import ctypes
import functools
import io
import json
import logging
import sys
from typing import Any, Final

import ctranslate2
import numpy as np

from whisperbatch.engines.ctranslate2.cuda_libraries import install_hint, preload_libraries
from whisperbatch.errors import OptionError
from whisperbatch.models.architecture import RandomModel
from whisperbatch.models.model_bin import write_model_bin
from whisperbatch.threads import Lock

log = logging.getLogger(__name__)

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
SUCCESS: Final = 0  # CUDA_SUCCESS

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
        raise OptionError(f"device='cuda': {problem}; or use device='cpu'")
    if indexes != (0,):
        raise OptionError(f"device_index={', '.join(map(str, indexes))}: {problem}")
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
        encode_silence("cuda", device_index)
    except Exception as error:  # noqa: BLE001 - RuntimeError, and the errors of the bindings
        text = " ".join(str(error).split()) or type(error).__name__
        # a build of CTranslate2 may do without cuBLAS 12, so only its own error counts
        return _problem(device_index, text, next((name for name in missing if name in text), None))
    return None


def _problem(device_index: int, text: str, missing_library: str | None) -> str:
    remedy = f"; {install_hint(missing_library)}" if missing_library else ""
    return f"CUDA device {device_index} cannot be used: {text}{remedy}"


def total_memory(device_index: int) -> int | None:
    """Return the total memory of a CUDA device in bytes; None if it cannot be found out.

    CTranslate2 does not report it. nvidia-smi numbers the devices differently: the driver, as
    CTranslate2, counts only the devices of CUDA_VISIBLE_DEVICES. The functions are part of the CUDA
    Driver API (cuda.h):

        CUresult cuInit(unsigned int flags)
        CUresult cuDeviceGet(CUdevice *device, int ordinal)        CUdevice is an int
        CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice dev)

    Args:
        device_index: number of the device, as CTranslate2 counts.
    """
    device, size = ctypes.c_int(), ctypes.c_size_t()
    try:
        driver = ctypes.CDLL(DRIVER)
        found = (
            driver.cuInit(ctypes.c_uint(0)) == SUCCESS
            and driver.cuDeviceGet(ctypes.byref(device), ctypes.c_int(device_index)) == SUCCESS
            and driver.cuDeviceTotalMem_v2(ctypes.byref(size), device) == SUCCESS
        )
    except (OSError, AttributeError):  # no driver, or a driver without a function
        return None
    return size.value if found else None
