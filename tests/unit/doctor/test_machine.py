"""Findings about the machine, its folders and its GPUs, from files as the system shows them."""

import errno
import os
import shutil
import subprocess
import tempfile
from collections import namedtuple
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.test_machine import tree
from whisperbatch.doctor import machine
from whisperbatch.doctor.findings import Finding
from whisperbatch.doctor.machine import check_folder, check_machine, check_storage
from whisperbatch.doctor.probes import ProbeResult


@pytest.fixture(autouse=True)
def _eight_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(8)), raising=False)
    monkeypatch.setattr("platform.machine", lambda: "x86_64")


def messages(root: Path) -> dict[str, str]:
    return {finding.message: finding.level for finding in check_machine(root)}


def test_a_processor_without_avx2_is_slow(tmp_path: Path) -> None:
    root = tree(tmp_path, {"proc/cpuinfo": "model name: X\nflags\t\t: fpu sse4_2 avx\n"})
    finding, _ = check_machine(root)
    assert finding.level == "warning"
    assert "no AVX2" in finding.message
    assert "-cpu host" in finding.fix


@pytest.mark.parametrize(
    ("flags", "expected"),
    [("avx avx2", "AVX2"), ("avx2 avx512f", "AVX512F"), ("avx2 avx512f amx_tile", "AMX")],
)
def test_the_best_instructions_are_named(tmp_path: Path, flags: str, expected: str) -> None:
    root = tree(tmp_path, {"proc/cpuinfo": f"flags\t\t: fpu {flags}\n"})
    assert messages(root)[f"processor: x86_64 with {expected}"] == "ok"


def test_other_processors_have_no_avx2_to_miss(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    root = tree(tmp_path, {"proc/cpuinfo": "Features\t: fp asimd\n"})
    assert set(messages(root).values()) == {"ok"}


def test_a_cpu_quota_is_a_warning(tmp_path: Path) -> None:
    files = {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "150000 100000\n"}
    _, finding = check_machine(tree(tmp_path, files))
    assert finding.level == "warning"
    assert "1.5 of 8 processors" in finding.message
    assert "2 thread(s)" in finding.message
    assert "--cpus" in finding.fix


def test_a_quota_above_the_processors_is_no_finding(tmp_path: Path) -> None:
    files = {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "900000 100000\n"}
    assert messages(tree(tmp_path, files))["8 processor(s), no CPU quota"] == "ok"


Usage = namedtuple("Usage", "total used free")  # noqa: PYI024 - as shutil's


def test_a_folder_with_space_is_fine(tmp_path: Path) -> None:
    finding = check_folder("temporary", tmp_path)
    assert finding.level == "ok"
    assert finding.measured["free_bytes"] > 0
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_does_not_exist_is_not_created(tmp_path: Path) -> None:
    assert check_folder("whisperbatch", tmp_path / "a" / "b").level == "ok"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("kind", "variable"),
    [
        ("huggingface", "HF_HUB_CACHE"),
        ("whisperbatch", "WHISPERBATCH_CACHE"),
        ("temporary", "TMPDIR"),
    ],
)
def test_little_space_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, variable: str
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(10**9, 10**9 - 10**7, 10**7))
    finding = check_folder(kind, tmp_path)
    assert finding.level == "warning"
    assert "only 10 MB of free space" in finding.message
    assert variable in finding.fix


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EDQUOT, errno.EIO])
def test_a_folder_that_cannot_be_written_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def fail(_: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", fail)
    finding = check_folder("whisperbatch", tmp_path)
    assert finding.level == "warning"
    assert f"cannot be written ({os.strerror(number)})" in finding.message
    assert "WHISPERBATCH_CACHE" in finding.fix


@pytest.fixture
def read_only_folder() -> Iterator[Path]:
    """A folder without the right to write; root has every right, so another user looks at it."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o555)
        is_root = hasattr(os, "geteuid") and os.geteuid() == 0
        if is_root:
            os.seteuid(65534)
        yield Path(folder)
        if is_root:
            os.seteuid(0)


@pytest.mark.parametrize("below", [".", "not/created/yet"])
def test_a_folder_without_the_right_to_write_is_a_warning(
    read_only_folder: Path, below: str
) -> None:
    finding = check_folder("huggingface", read_only_folder / below)
    assert finding.level == "warning"
    assert "cannot be written (Permission denied)" in finding.message
    assert f"make {read_only_folder} writable" in finding.fix


def test_a_file_in_place_of_a_folder_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("")
    assert check_folder("huggingface", tmp_path / "cache" / "hub").level == "warning"


def test_a_full_file_system_is_a_warning(tmp_path: Path) -> None:
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(tmp_path)]
    if not shutil.which("mount") or subprocess.run(mount, capture_output=True).returncode:  # noqa: PLW1510
        pytest.skip("file systems cannot be mounted here")
    try:
        (tmp_path / "full").write_bytes(bytes(48 << 10))
        finding = check_folder("temporary", tmp_path)
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)  # noqa: S607
    assert finding.level == "warning"
    assert "No space left on device" in finding.message


def test_all_folders_are_checked(tmp_path: Path) -> None:
    folders = {"huggingface": str(tmp_path), "whisperbatch": str(tmp_path)}
    found = check_storage(lambda _: ProbeResult(folders))
    assert [finding.level for finding in found] == ["ok", "ok", "ok"]


def test_no_folder_for_temporary_files_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> str:
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found")

    monkeypatch.setattr("tempfile.gettempdir", fail)
    (finding,) = check_storage(lambda _: ProbeResult({}))
    assert finding.level == "warning"
    assert "TMPDIR" in finding.fix


CUBLAS = {"libcublasLt.so.12": "pip install A", "libcublas.so.12": "pip install A"}
OPEN_MODULE = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {0}  Release Build"
CLOSED_MODULE = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  {0}  Thu Feb  1 01:02:03 UTC 2024"


@pytest.fixture(autouse=True)
def _no_cudnn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    monkeypatch.setattr(machine, "PACKAGE_FOLDERS", {})


def findings(
    root: Path, *, device: str = "auto", gpus: int = 0, libraries: ProbeResult | None = None
) -> list[Finding]:
    result = libraries or ProbeResult({"missing": {}})
    return list(machine.check_gpus(lambda _: result, device, gpus, root))


def test_without_a_gpu_nothing_is_missing(tmp_path: Path) -> None:
    (finding,) = findings(tmp_path)
    assert finding.level == "ok"
    assert findings(tmp_path, device="cpu", gpus=1) == []


def test_a_gpu_with_its_libraries_is_fine(tmp_path: Path) -> None:
    root = tree(tmp_path, {"proc/driver/nvidia/version": OPEN_MODULE.format("560.35.03")})
    assert {finding.level for finding in findings(root, gpus=2)} == {"ok"}


def test_a_gpu_that_was_asked_for_and_is_missing_is_a_problem(tmp_path: Path) -> None:
    finding = findings(tmp_path, device="cuda")[0]
    assert (finding.level, finding.message) == ("problem", "no NVIDIA GPU is found")


@pytest.mark.parametrize("file", ["dev/nvidia0", "proc/driver/nvidia/gpus/0000:01:00.0"])
def test_a_gpu_that_ctranslate2_does_not_find_is_a_problem(tmp_path: Path, file: str) -> None:
    finding = findings(tree(tmp_path, {file: ""}))[0]
    assert finding.level == "problem"
    assert "--gpus all" in finding.fix


@pytest.mark.parametrize("text", [OPEN_MODULE, CLOSED_MODULE])
def test_an_old_driver_is_a_problem(tmp_path: Path, text: str) -> None:
    root = tree(tmp_path, {"proc/driver/nvidia/version": text.format("470.82.01")})
    finding = findings(root, gpus=1)[0]
    assert finding.level == "problem"
    assert "driver 470 is older than 525" in finding.message
    newer = tree(tmp_path, {"proc/driver/nvidia/version": text.format("525.60.13")})
    assert findings(newer, gpus=1)[0].level == "ok"


def test_missing_libraries_are_one_problem_for_each_fix(tmp_path: Path) -> None:
    missing = {**CUBLAS, "libcudnn.so.9": "pip install B"}
    _, cublas, cudnn = findings(tmp_path, gpus=1, libraries=ProbeResult({"missing": missing}))
    assert cublas.level == cudnn.level == "problem"
    assert "libcublasLt.so.12, libcublas.so.12 are not found" in cublas.message
    assert cublas.fix == "pip install A"
    assert "libcudnn.so.9 is not found" in cudnn.message


def test_libraries_that_crash_are_a_problem(tmp_path: Path) -> None:
    crash = ProbeResult({}, "its process was ended by SIGSEGV")
    finding = findings(tmp_path, gpus=1, libraries=crash)[1]
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
    assert list(machine.check_cudnn(tmp_path)) == []
    monkeypatch.setenv("LD_LIBRARY_PATH", f"{own}:")
    (finding,) = machine.check_cudnn(tmp_path)
    assert finding.level == "warning"
    assert f"9.5.1 in {own}" in finding.message
    assert "9.1.0 in" in finding.message
    assert "LD_LIBRARY_PATH" in finding.fix


def test_two_copies_of_the_same_cudnn_are_no_finding(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cudnn_at(tmp_path / "usr/lib64", "9.1.0")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(cudnn_at(tmp_path / "own", "9.1.0")))
    assert list(machine.check_cudnn(tmp_path)) == []


def test_the_version_of_the_pip_package_is_compared(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    library = tree(tmp_path, {"nvidia/cudnn/lib/libcudnn.so.9": "", "nvidia/__init__.py": ""})
    (library / "nvidia_cudnn_cu12-9.10.2.21.dist-info").mkdir()
    metadata = "Metadata-Version: 2.1\nName: nvidia-cudnn-cu12\nVersion: 9.10.2.21\n"
    (library / "nvidia_cudnn_cu12-9.10.2.21.dist-info/METADATA").write_text(metadata)
    monkeypatch.syspath_prepend(library)
    monkeypatch.setattr(machine, "PACKAGE_FOLDERS", {"nvidia": "cudnn/lib"})
    cudnn_at(tmp_path / "usr/lib64", "9.1.0")
    (finding,) = machine.check_cudnn(tmp_path)
    assert "9.10.2 in" in finding.message
