"""Freed memory goes back to the operating system (Linux with glibc), and that of mapped files.

return_freed_memory            after loading, after a batch and after closing, in every process
return_large_arrays_at_once    in processes of whisperbatch only: it changes settings of malloc
"""

import ctypes
import sys
from typing import Any, Final

from whisperbatch.runtimes.openvino_package import return_mapped_memory

M_MMAP_THRESHOLD: Final = -3  # parameter of mallopt, from malloc.h
MMAP_THRESHOLD: Final = 512 << 10  # bytes; the features of a row take 960 KB


def return_freed_memory() -> None:
    """Return the memory that is free now, and that of OpenVINO's mapped files.

    Settings of malloc do not change. With the model base in int8, glibc otherwise keeps 190 MB of
    freed memory.
    """
    return_mapped_memory()
    if library := _glibc():
        library.malloc_trim(0)


def return_large_arrays_at_once() -> None:
    """From now on, return arrays of 512 KB and more as soon as they are freed, in this process.

    Without this call, glibc raises this size while a program runs, and keeps freed arrays: the peak
    memory is 5 % higher. The setting concerns all code of the process. A library must not change
    settings of the process. So only the program `whisperbatch transcribe` calls this function.
    Other programs can set the variable `MALLOC_MMAP_THRESHOLD_=524288` before they start.
    """
    if library := _glibc():
        library.mallopt(M_MMAP_THRESHOLD, MMAP_THRESHOLD)


def _glibc() -> Any:  # noqa: ANN401 - a library of ctypes
    """Return the C library; None unless it is glibc."""
    if sys.platform != "linux":
        return None
    library = ctypes.CDLL(None)
    return library if hasattr(library, "malloc_trim") else None
