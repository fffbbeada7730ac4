"""The trial of a CUDA device, with fake libraries and a fake CTranslate2."""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from whisperbatch.engines.ctranslate2 import cuda

CUBLAS_ERROR = "Library libcublas.so.12 is not found or cannot be loaded"


class Machine:
    """A machine with GPUs: its missing libraries, and the error of each device."""

    def __init__(self) -> None:
        self.missing: list[str] = []
        self.errors: dict[int, Exception] = {}
        self.calls: list[object] = []

    def preload(self) -> list[str]:
        self.calls.append("preload")
        return self.missing

    def encode(self, device: str, device_index: int) -> None:
        assert device == "cuda"
        self.calls.append(device_index)
        if error := self.errors.get(device_index):
            raise error


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    fake = Machine()
    monkeypatch.setattr(cuda, "_problems", {})
    monkeypatch.setattr(cuda, "preload_libraries", fake.preload)
    monkeypatch.setattr(cuda, "encode_silence", fake.encode)
    return fake


def test_the_tiny_model_encodes_on_a_cpu() -> None:
    output = np.asarray(cuda.encode_silence("cpu", 0))
    assert output.shape == (1, cuda.FRAMES // 2, cuda.PROBE.d_model)
    assert np.isfinite(output).all()
    assert output.std() > 0.5


def test_the_tiny_model_runs_on_the_given_device(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[tuple[str, int]] = []

    class FakeWhisper:
        def __init__(self, path: str, *, device: str, device_index: int, **settings: Any) -> None:
            loaded.append((device, device_index))

        def encode(self, features: object, *, to_cpu: bool) -> None:
            assert to_cpu

    monkeypatch.setattr("ctranslate2.models.Whisper", FakeWhisper)
    cuda.encode_silence("cuda", 3)
    assert loaded == [("cuda", 3)]


def test_a_device_that_works_is_tried_once(machine: Machine) -> None:
    assert cuda.cuda_problem(0) is None
    assert cuda.cuda_problem(0) is None
    assert machine.calls == ["preload", 0]  # the libraries before the first call on the GPU


def test_the_trial_runs_in_a_thread_that_ends(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first thread with CUDA has the default stream, with which all other streams wait."""
    threads: list[threading.Thread] = []

    def encode(device: str, device_index: int) -> None:
        threads.append(threading.current_thread())

    monkeypatch.setattr(cuda, "encode_silence", encode)
    assert cuda.cuda_problem(0) is None
    [thread] = threads
    assert thread is not threading.current_thread()
    assert not thread.is_alive()


def test_each_device_is_tried(machine: Machine) -> None:
    machine.errors[1] = RuntimeError("CUDA failed with error out of memory")
    assert cuda.cuda_problem(0) is None
    assert cuda.cuda_problem(1) == (
        "CUDA device 1 cannot be used: CUDA failed with error out of memory"
    )
    assert machine.calls == ["preload", 0, "preload", 1]


def test_missing_cublas_is_named_with_its_package(machine: Machine) -> None:
    machine.missing = ["libcublasLt.so.12", "libcublas.so.12"]
    machine.errors[0] = RuntimeError(CUBLAS_ERROR)
    expected = f"CUDA device 0 cannot be used: {CUBLAS_ERROR}; pip install nvidia-cublas-cu12"
    assert cuda.cuda_problem(0) == cuda.cuda_problem(0) == expected
    assert machine.calls == ["preload", 0]


def test_a_build_that_needs_no_cublas_12_works(machine: Machine) -> None:
    machine.missing = ["libcublasLt.so.12", "libcublas.so.12"]
    assert cuda.cuda_problem(0) is None


def test_missing_cudnn_is_reported_without_a_call_that_ends_the_process(machine: Machine) -> None:
    machine.missing = ["libcudnn_ops.so.9"]
    problem = cuda.cuda_problem(0)
    assert problem is not None
    assert "libcudnn_ops.so.9 is not found; pip install" in problem
    assert machine.calls == ["preload"]


def test_other_errors_are_passed_on_in_one_line(machine: Machine) -> None:
    machine.errors[0] = RuntimeError("CUDA failed:\n  driver version is insufficient\n")
    assert cuda.cuda_problem(0) == (
        "CUDA device 0 cannot be used: CUDA failed: driver version is insufficient"
    )
    machine.errors[1] = ValueError()
    assert cuda.cuda_problem(1) == "CUDA device 1 cannot be used: ValueError"


def test_threads_share_one_trial(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    trial = threading.Event()

    def slow_encode(device: str, device_index: int) -> None:
        trial.wait(0.2)
        machine.encode(device, device_index)

    monkeypatch.setattr(cuda, "encode_silence", slow_encode)
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(cuda.cuda_problem, [0] * 4)) == [None] * 4
    assert machine.calls == ["preload", 0]
