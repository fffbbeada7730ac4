"""Fixes for error messages of libraries. The first pattern that a message contains counts."""

import re
from typing import Final

REMEDIES: Final = (
    (
        r"CUBLAS_STATUS_NOT_SUPPORTED",
        "the GPU or this version of cuBLAS lacks the compute type: give another compute_type",
    ),
    (
        r"cudnn",
        (
            "install one cuDNN 9 with pip install --upgrade nvidia-cudnn-cu12, and remove other "
            "copies from LD_LIBRARY_PATH"
        ),
    ),
    (
        r"cublas",
        "pip install --upgrade nvidia-cublas-cu12, and remove other copies from LD_LIBRARY_PATH",
    ),
    (
        r"no kernel image|not compiled for|unsupported gpu architecture",
        (
            "this build does not support the GPU: pip install --upgrade ctranslate2, or for "
            "PyTorch install a build for a newer CUDA"
        ),
    ),
    (
        r"driver version is insufficient|cuda driver",
        "install a newer NVIDIA driver",
    ),
    (
        r"out of memory|bad_alloc|cannot allocate|SIGKILL|MemoryError",
        "free memory, use a smaller model, or on a GPU a smaller compute_type such as int8",
    ),
    (
        r"cannot enable executable stack",
        "pip install --upgrade ctranslate2: new kernels refuse the libraries of old versions",
    ),
    (
        r"NumPy 1\.x|_ARRAY_API|numpy\.core\.multiarray|dtype size changed|binary incompat",
        "the package was built for another NumPy: pip install --upgrade --force-reinstall it",
    ),
    (
        r"GLIBC(XX)?_[\d.]+",
        (
            "the package was built for a newer Linux: install an older version of the package, or "
            "use a newer Linux"
        ),
    ),
    (
        r"DLL load failed",
        "install the Microsoft Visual C++ Redistributable, then reinstall the package",
    ),
    (
        r"SIGILL",
        "the processor lacks an instruction that the library uses: install an older version",
    ),
    (
        r"No space left|disk quota exceeded",
        "free space on the disk",
    ),
)
"""Pattern of a message (letter case is ignored), and the fix."""


def remedy_for(message: str) -> str | None:
    """Return the fix for a message of a library; None if the message is unknown."""
    for pattern, fix in REMEDIES:
        if re.search(pattern, message, re.IGNORECASE):
            return fix
    return None
