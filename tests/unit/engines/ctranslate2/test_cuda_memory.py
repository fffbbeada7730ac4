"""The memory and the state of a CUDA device, with a fake driver."""

import ctypes
from collections.abc import Callable
from typing import Any

import pytest

from whisperbatch.engines.ctranslate2.cuda import (
    DRIVER,
    device_fails,
    keep_memory,
    return_memory,
    total_memory,
)

HANDLE = 100  # of device 0; a handle is not the number of the device
MEMORY = (24 << 30, 80 << 30)


POOL = 200  # the default pool of device 0
CONTEXT = 300  # the primary context of device 0


class FakeDriver:
    """NVIDIA's driver with two devices; the function called `failing` returns `error`.

    Attributes:
        thresholds: release threshold of each pool that was changed.
        trimmed: pools that were trimmed, with the bytes that they may keep.
        retained: contexts that were retained and not released.
        current: contexts of the thread.
    """

    def __init__(self, failing: str = "", error: int = 999) -> None:
        self._failing, self._error = failing, error
        self._initialized = False
        self.thresholds: dict[int, int] = {}
        self.trimmed: list[tuple[int, int]] = []
        self.retained: list[int] = []
        self.current: list[int] = []

    def cuDeviceGetDefaultMemPool(self, pool: Any, device: Any) -> int:  # noqa: N802
        pool._obj.value = POOL + device.value - HANDLE
        return self._result("cuDeviceGetDefaultMemPool")

    def cuMemPoolSetAttribute(self, pool: Any, attribute: Any, value: Any) -> int:  # noqa: N802
        assert attribute.value == 4  # CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
        assert ctypes.sizeof(value._obj) == 8
        self.thresholds[pool.value] = value._obj.value
        return self._result("cuMemPoolSetAttribute")

    def cuMemPoolTrimTo(self, pool: Any, kept: Any) -> int:  # noqa: N802
        self.trimmed.append((pool.value, kept.value))
        return self._result("cuMemPoolTrimTo")

    def cuDevicePrimaryCtxRetain(self, context: Any, device: Any) -> int:  # noqa: N802
        if not (result := self._result("cuDevicePrimaryCtxRetain")):
            context._obj.value = CONTEXT + device.value - HANDLE
            self.retained.append(context._obj.value)
        return result

    def cuDevicePrimaryCtxRelease_v2(self, device: Any) -> int:  # noqa: N802
        self.retained.remove(CONTEXT + device.value - HANDLE)
        return 0

    def cuCtxPushCurrent_v2(self, context: Any) -> int:  # noqa: N802
        assert context.value in self.retained
        self.current.append(context.value)
        return 0

    def cuCtxPopCurrent_v2(self, context: Any) -> int:  # noqa: N802
        context._obj.value = self.current.pop()
        return 0

    def cuCtxSynchronize(self) -> int:  # noqa: N802
        assert self.current
        return self._result("cuCtxSynchronize")

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
        return self._error if name == self._failing else 0


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


def test_the_pool_of_the_device_keeps_freed_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = FakeDriver()
    use_driver(monkeypatch, driver)
    keep_memory(1)
    assert driver.thresholds == {POOL + 1: (1 << 64) - 1}
    assert driver.trimmed == []


def test_the_free_memory_of_the_pool_is_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = FakeDriver()
    use_driver(monkeypatch, driver)
    return_memory(1)
    assert driver.trimmed == [(POOL + 1, 0)]
    assert driver.thresholds == {}


@pytest.mark.parametrize("change", [keep_memory, return_memory])
@pytest.mark.parametrize(
    "driver",
    [
        OSError("libcuda.so.1: cannot open shared object file"),
        object(),  # a library without the functions
        FakeDriver("cuInit"),
        FakeDriver("cuDeviceGetDefaultMemPool"),
        FakeDriver("cuMemPoolSetAttribute"),
        FakeDriver("cuMemPoolTrimTo"),
    ],
    ids=["no driver", "no functions", "init", "pool", "attribute", "trim"],
)
def test_a_driver_without_pools_is_no_error(
    monkeypatch: pytest.MonkeyPatch, change: Callable[[int], None], driver: object
) -> None:
    use_driver(monkeypatch, driver)
    change(0)


@pytest.mark.parametrize(
    ("driver", "fails"),
    [
        (FakeDriver(), False),
        (FakeDriver("cuCtxSynchronize", 700), True),  # CUDA_ERROR_ILLEGAL_ADDRESS
        (FakeDriver("cuCtxSynchronize", 719), True),  # CUDA_ERROR_LAUNCH_FAILED
        (FakeDriver("cuDevicePrimaryCtxRetain", 214), True),  # CUDA_ERROR_ECC_UNCORRECTABLE
        (FakeDriver("cuInit", 100), True),  # CUDA_ERROR_NO_DEVICE: the device is lost
        (FakeDriver("cuDevicePrimaryCtxRetain", 2), False),  # CUDA_ERROR_OUT_OF_MEMORY
        (OSError("libcuda.so.1: cannot open shared object file"), False),
        (object(), False),
    ],
)
def test_a_device_fails_if_the_driver_returns_an_error(
    monkeypatch: pytest.MonkeyPatch, driver: object, *, fails: bool
) -> None:
    use_driver(monkeypatch, driver)
    assert device_fails(0) is fails
    if isinstance(driver, FakeDriver):
        assert driver.retained == driver.current == []
