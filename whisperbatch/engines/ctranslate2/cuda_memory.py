"""The total memory of a CUDA device, from NVIDIA's driver.

CTranslate2 does not report it. nvidia-smi numbers the devices differently: the driver, as
CTranslate2, counts only the devices of CUDA_VISIBLE_DEVICES. The functions are part of the CUDA
Driver API (cuda.h):

    CUresult cuInit(unsigned int flags)
    CUresult cuDeviceGet(CUdevice *device, int ordinal)        CUdevice is an int
    CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice dev)
"""

import ctypes
import sys
from typing import Final

DRIVER: Final = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
SUCCESS: Final = 0  # CUDA_SUCCESS


def total_memory(device_index: int) -> int | None:
    """Return the total memory of a CUDA device in bytes; None if it cannot be found out.

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
