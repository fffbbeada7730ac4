"""Findings about GPUs, from files as NVIDIA's driver and packages install them."""

from pathlib import Path

import pytest

from tests.unit.test_machine import tree
from whisperbatch.doctor import cuda
from whisperbatch.doctor.findings import Finding
from whisperbatch.doctor.processes import ProbeResult

CUBLAS = {"libcublasLt.so.12": "pip install A", "libcublas.so.12": "pip install A"}
OPEN_MODULE = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {0}  Release Build"
CLOSED_MODULE = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  {0}  Thu Feb  1 01:02:03 UTC 2024"


@pytest.fixture(autouse=True)
def _no_cudnn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    monkeypatch.setattr(cuda, "PACKAGE_FOLDERS", {})


def findings(
    monkeypatch: pytest.MonkeyPatch,
    root: Path,
    *,
    device: str = "auto",
    gpus: int = 0,
    libraries: ProbeResult | None = None,
) -> list[Finding]:
    result = libraries or ProbeResult({"missing": {}})
    monkeypatch.setattr(cuda, "run_probe", lambda *_, **__: result)
    return list(cuda.check_cuda(device, gpus, root=root, time_limit=60))


def test_without_a_gpu_nothing_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (finding,) = findings(monkeypatch, tmp_path)
    assert finding.level == "ok"
    assert findings(monkeypatch, tmp_path, device="cpu", gpus=1) == []


def test_a_gpu_with_its_libraries_is_fine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    root = tree(tmp_path, {"proc/driver/nvidia/version": OPEN_MODULE.format("560.35.03")})
    assert {finding.level for finding in findings(monkeypatch, root, gpus=2)} == {"ok"}


def test_a_gpu_that_was_asked_for_and_is_missing_is_a_problem(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    finding = findings(monkeypatch, tmp_path, device="cuda")[0]
    assert (finding.level, finding.message) == ("problem", "no NVIDIA GPU is found")


@pytest.mark.parametrize("file", ["dev/nvidia0", "proc/driver/nvidia/gpus/0000:01:00.0"])
def test_a_gpu_that_ctranslate2_does_not_find_is_a_problem(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, file: str
) -> None:
    finding = findings(monkeypatch, tree(tmp_path, {file: ""}))[0]
    assert finding.level == "problem"
    assert "--gpus all" in finding.fix


@pytest.mark.parametrize("text", [OPEN_MODULE, CLOSED_MODULE])
def test_an_old_driver_is_a_problem(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str
) -> None:
    root = tree(tmp_path, {"proc/driver/nvidia/version": text.format("470.82.01")})
    finding = findings(monkeypatch, root, gpus=1)[0]
    assert finding.level == "problem"
    assert "driver 470 is older than 525" in finding.message
    newer = tree(tmp_path, {"proc/driver/nvidia/version": text.format("525.60.13")})
    assert findings(monkeypatch, newer, gpus=1)[0].level == "ok"


def test_missing_libraries_are_one_problem_for_each_fix(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    missing = {**CUBLAS, "libcudnn.so.9": "pip install B"}
    _, cublas, cudnn = findings(
        monkeypatch, tmp_path, gpus=1, libraries=ProbeResult({"missing": missing})
    )
    assert cublas.level == cudnn.level == "problem"
    assert "libcublasLt.so.12, libcublas.so.12 are not found" in cublas.message
    assert cublas.fix == "pip install A"
    assert "libcudnn.so.9 is not found" in cudnn.message


def test_libraries_that_crash_are_a_problem(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    crash = ProbeResult({}, "its process was ended by SIGSEGV")
    finding = findings(monkeypatch, tmp_path, gpus=1, libraries=crash)[1]
    assert finding.level == "problem"
    assert "SIGSEGV" in finding.message


def cudnn_at(folder: Path, version: str) -> Path:
    """The files of the Debian package of cuDNN."""
    folder.mkdir(parents=True)
    (folder / f"libcudnn.so.{version}").write_text("")
    (folder / "libcudnn.so.9").symlink_to(f"libcudnn.so.{version}")
    return folder


def test_two_versions_of_cudnn_are_a_warning(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cudnn_at(tmp_path / "usr/lib/x86_64-linux-gnu", "9.1.0")
    own = cudnn_at(tmp_path / "own", "9.5.1")
    assert list(cuda.check_cudnn(tmp_path)) == []
    monkeypatch.setenv("LD_LIBRARY_PATH", f"{own}:")
    (finding,) = cuda.check_cudnn(tmp_path)
    assert finding.level == "warning"
    assert f"9.5.1 in {own}" in finding.message
    assert "9.1.0 in" in finding.message
    assert "LD_LIBRARY_PATH" in finding.fix


def test_two_copies_of_the_same_cudnn_are_no_finding(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cudnn_at(tmp_path / "usr/lib64", "9.1.0")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(cudnn_at(tmp_path / "own", "9.1.0")))
    assert list(cuda.check_cudnn(tmp_path)) == []


def test_the_version_of_the_pip_package_is_compared(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    library = tree(tmp_path, {"nvidia/cudnn/lib/libcudnn.so.9": "", "nvidia/__init__.py": ""})
    (library / "nvidia_cudnn_cu12-9.10.2.21.dist-info").mkdir()
    metadata = "Metadata-Version: 2.1\nName: nvidia-cudnn-cu12\nVersion: 9.10.2.21\n"
    (library / "nvidia_cudnn_cu12-9.10.2.21.dist-info/METADATA").write_text(metadata)
    monkeypatch.syspath_prepend(library)
    monkeypatch.setattr(cuda, "PACKAGE_FOLDERS", {"nvidia": "cudnn/lib"})
    cudnn_at(tmp_path / "usr/lib64", "9.1.0")
    (finding,) = cuda.check_cudnn(tmp_path)
    assert "9.10.2 in" in finding.message
