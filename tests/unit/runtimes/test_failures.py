"""What errors of inference libraries mean."""

import pytest

from whisperbatch.errors import EngineError
from whisperbatch.runtimes.failures import breaks_device, comes_from_cuda, is_out_of_memory

OUT_OF_MEMORY = [
    "CUDA failed with error out of memory",
    "cuBLAS failed with status CUBLAS_STATUS_ALLOC_FAILED",
    "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
    "cudaErrorMemoryAllocation",
    "CUDA_ERROR_OUT_OF_MEMORY: out of memory",
    "CUDA_ERROR_OUT_OF_MEMORY",
    "CUDA out of memory. Tried to allocate 2.00 GiB.",
    "cuDNN error: CUDNN_STATUS_ALLOC_FAILED",
    "cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED",
    "HIP out of memory",
    "hipErrorOutOfMemory",
    "std::bad_alloc",
    "bad allocation",
    "DefaultCPUAllocator: can't allocate memory: you tried to allocate 40 bytes. Error code 12",
    "DefaultCPUAllocator: not enough memory: you tried to allocate 40 bytes.",
    "[ONNXRuntimeError] : 6 : Failed to allocate memory for requested buffer of size 4096",
    "Check 'ptr' failed at cpu_memory.cpp:257: Failed to allocate 7 bytes of memory",
    "[GPU] Exceeded max size of memory object allocation: requested 48 bytes",
    "Could not allocate memory",
    "[Errno 12] Cannot allocate memory",
    "Unable to allocate 1.2 GiB for an array",
]
BROKEN = [
    "CUDA failed with error an illegal memory access was encountered",
    "CUDA failed with error uncorrectable ECC error encountered",
    "CUDA failed with error device-side assert triggered",
    "CUDA failed with error unspecified launch failure",
    "CUDA error: misaligned address",
]
FROM_CUDA = [
    "CUDA failed with error unknown error",
    "CUDA failed with error invalid argument",
    "cuBLAS failed with status CUBLAS_STATUS_EXECUTION_FAILED",
]
OTHER = ["The input is wrong", "memory format is not supported", "weights were not allocated"]


@pytest.mark.parametrize("text", OUT_OF_MEMORY)
def test_every_spelling_of_too_little_memory(text: str) -> None:
    assert is_out_of_memory(RuntimeError(text))
    assert is_out_of_memory(EngineError(f"model base: {text}"))
    assert not breaks_device(RuntimeError(text))
    assert not comes_from_cuda(RuntimeError(text))


def test_an_error_of_the_interpreter_or_behind_another() -> None:
    assert is_out_of_memory(MemoryError())
    behind = EngineError("model base: failed")
    behind.__cause__ = MemoryError()
    assert is_out_of_memory(behind)


@pytest.mark.parametrize("text", [*BROKEN, *FROM_CUDA, *OTHER])
def test_other_errors_are_not_for_too_little_memory(text: str) -> None:
    assert not is_out_of_memory(RuntimeError(text))
    assert breaks_device(RuntimeError(text)) is (text in BROKEN)
    assert comes_from_cuda(RuntimeError(text)) is (text in [*BROKEN, *FROM_CUDA])
