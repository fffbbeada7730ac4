"""The C library's allocator, which keeps freed memory for later use."""

import ctypes
import sys
from typing import Any


def glibc() -> Any:  # noqa: ANN401 - a library of ctypes
    """Return the C library; None unless it is glibc."""
    if sys.platform != "linux":
        return None
    library = ctypes.CDLL(None)
    return library if hasattr(library, "malloc_trim") else None


def return_free_memory() -> None:
    """Return the memory that is free now to the system. Settings of malloc do not change.

    glibc has a pool of memory for each of several threads. Audio that one thread allocates and
    another frees stays in the pool.
    """
    if library := glibc():
        library.malloc_trim(0)
