"""What errors of inference libraries mean. Their kinds differ in their text only."""

import re
from typing import Final

OUT_OF_MEMORY: Final = (
    "outofmemory",  # CUDA_ERROR_OUT_OF_MEMORY; "CUDA failed with error out of memory"; PyTorch
    "memoryallocation",  # cudaErrorMemoryAllocation
    "memoryobjectallocation",  # OpenVINO: "Exceeded max size of memory object allocation"
    "allocfailed",  # CUBLAS_STATUS_ALLOC_FAILED, CUDNN_STATUS_ALLOC_FAILED
    "allocationfailed",  # CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED
    "badalloc",  # std::bad_alloc; "bad allocation" of Windows
    "failedtoallocate",  # ONNX Runtime, OpenVINO, CTranslate2 on a CPU
    "couldnotallocate",  # oneDNN
    "cannotallocate",  # the operating system
    "cantallocate",  # PyTorch on a CPU
    "unabletoallocate",  # NumPy
    "notenoughmemory",  # PyTorch and the operating system, on Windows
)
"""Texts of errors, in small letters, without spaces and punctuation."""

BROKEN_DEVICE: Final = (
    "an illegal memory access was encountered",
    "an illegal instruction was encountered",
    "unspecified launch failure",
    "device-side assert triggered",
    "misaligned address",
    "invalid program counter",
    "hardware stack error",
    "operation not supported on global/shared address space",
    "the launch timed out and was terminated",
    "uncorrectable ecc error",
    "uncorrectable nvlink error",
    "gpu is lost",
)
"""Texts of CUDA errors after which, by CUDA's documentation, each further call fails until the
process ends; and those of broken hardware. In the kernel's log, they are Xid messages."""

CUDA_ERRORS: Final = ("cuda failed", "cuda error", "cublas", "cudnn", "curand")


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error of an engine says that memory ran out."""
    cause: BaseException | None = error
    while cause is not None:
        letters = re.sub("[^a-z]", "", str(cause).lower())
        if isinstance(cause, MemoryError) or any(words in letters for words in OUT_OF_MEMORY):
            return True
        cause = cause.__cause__
    return False


def breaks_device(error: BaseException) -> bool:
    """Return whether a GPU cannot be used any more in this process after an error."""
    text = str(error).lower()
    return any(words in text for words in BROKEN_DEVICE) and not is_out_of_memory(error)


def comes_from_cuda(error: BaseException) -> bool:
    """Return whether a library of CUDA has failed, for another reason than too little memory."""
    text = str(error).lower()
    return any(words in text for words in CUDA_ERRORS) and not is_out_of_memory(error)
