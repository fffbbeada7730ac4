"""The memory of a CUDA device, with a fake driver."""

import ctypes
from typing import Any

import pytest

from whisperbatch.engines.ctranslate2.cuda import DRIVER, total_memory

HANDLE = 100  # of device 0; a handle is not the number of the device
MEMORY = (24 << 30, 80 << 30)


class FakeDriver:
    """NVIDIA's driver with two devices; the functions called `failing` return an error."""

    def __init__(self, failing: str = "") -> None:
        self._failing = failing
        self._initialized = False

    def cuInit(self, flags: Any) -> int:  # noqa: N802 - NVIDIA's name
        assert flags.value == 0
        self._initialized = True
        return self._result("cuInit")

    def cuDeviceGet(self, device: Any, ordinal: Any) -> int:  # noqa: N802 - NVIDIA's name
        assert self._initialized
        if ordinal.value >= len(MEMORY):
            return 101  # CUDA_ERROR_INVALID_DEVICE
        device._obj.value = HANDLE + ordinal.value
        return self._result("cuDeviceGet")

    def cuDeviceTotalMem_v2(self, size: Any, device: Any) -> int:  # noqa: N802 - NVIDIA's name
        assert ctypes.sizeof(size._obj) == ctypes.sizeof(ctypes.c_void_p)
        size._obj.value = MEMORY[device.value - HANDLE]
        return self._result("cuDeviceTotalMem_v2")

    def _result(self, name: str) -> int:
        return 999 if name == self._failing else 0


def use_driver(monkeypatch: pytest.MonkeyPatch, driver: object) -> None:
    def load(name: str) -> object:
        assert name == DRIVER
        if isinstance(driver, OSError):
            raise driver
        return driver

    monkeypatch.setattr(ctypes, "CDLL", load)


def test_the_memory_of_each_device(monkeypatch: pytest.MonkeyPatch) -> None:
    use_driver(monkeypatch, FakeDriver())
    assert [total_memory(index) for index in (0, 1, 2)] == [*MEMORY, None]


@pytest.mark.parametrize("function", ["cuInit", "cuDeviceGet", "cuDeviceTotalMem_v2"])
def test_an_error_of_the_driver_leaves_the_memory_unknown(
    monkeypatch: pytest.MonkeyPatch, function: str
) -> None:
    use_driver(monkeypatch, FakeDriver(function))
    assert total_memory(0) is None


def test_without_a_driver_the_memory_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    use_driver(monkeypatch, OSError("libcuda.so.1: cannot open shared object file"))
    assert total_memory(0) is None
    use_driver(monkeypatch, object())  # a library without the functions
    assert total_memory(0) is None
