"""The fallback to the CPU on machines with GPUs, of which some do not work."""

import pytest

from whisperbatch import OptionError
from whisperbatch.engines.ctranslate2 import cuda
from whisperbatch.engines.ctranslate2.cuda import usable_device

PROBLEM = "CUDA device {}: libcublas.so.12 is not found; pip install nvidia-cublas-cu12"


class Machine:
    """GPUs that do not work, by number, and the trials."""

    def __init__(self) -> None:
        self.count = 4
        self.broken: set[int] = set()
        self.trials: list[int] = []

    def problem(self, index: int) -> str | None:
        self.trials.append(index)
        return PROBLEM.format(index) if index in self.broken else None


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    fake = Machine()
    monkeypatch.setattr("ctranslate2.get_cuda_device_count", lambda: fake.count)
    monkeypatch.setattr(cuda, "cuda_problem", fake.problem)
    cuda._warn_once.cache_clear()
    return fake


@pytest.mark.parametrize("device", ["auto", "cuda"])
@pytest.mark.parametrize("indexes", [(0,), (1, 3)])
def test_devices_that_work_are_used(
    machine: Machine, device: str, indexes: tuple[int, ...], caplog: pytest.LogCaptureFixture
) -> None:
    assert usable_device(device, indexes) == device
    assert machine.trials == [*indexes]
    assert caplog.messages == []


def test_auto_falls_back_to_the_cpu_with_one_warning(
    machine: Machine, caplog: pytest.LogCaptureFixture
) -> None:
    machine.broken = {0}
    assert [usable_device("auto", (0,)) for _ in range(3)] == ["cpu"] * 3
    [record] = caplog.records
    assert record.levelname == "WARNING"
    assert record.getMessage() == f"device='auto' uses the CPU: {PROBLEM.format(0)}"


def test_cuda_raises_the_problem(machine: Machine, caplog: pytest.LogCaptureFixture) -> None:
    machine.broken = {1}
    with pytest.raises(OptionError) as caught:
        usable_device("cuda", (0, 1))
    assert str(caught.value) == f"device='cuda': {PROBLEM.format(1)}; or use device='cpu'"
    assert caplog.messages == []


def test_a_device_number_is_not_ignored_on_the_cpu(machine: Machine) -> None:
    machine.broken = {2}
    with pytest.raises(OptionError, match="device_index=0, 2: CUDA device 2: libcublas"):
        usable_device("auto", (0, 2))


@pytest.mark.parametrize(
    ("device", "indexes", "count"),
    [
        ("cpu", (0,), 4),
        ("tpu", (0,), 4),
        ("auto", (0,), 0),
        ("cuda", (0,), 0),
        ("cuda", (0, 4), 4),
        ("auto", (-1,), 4),
    ],
)
def test_devices_that_do_not_exist_are_not_tried(
    machine: Machine,
    caplog: pytest.LogCaptureFixture,
    device: str,
    indexes: tuple[int, ...],
    count: int,
) -> None:
    machine.broken, machine.count = {0}, count
    assert usable_device(device, indexes) == device
    assert machine.trials == []
    assert caplog.messages == []
