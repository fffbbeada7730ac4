"""Findings about folders: rights and free space."""

import errno
import os
import shutil
import subprocess
import tempfile
from collections import namedtuple
from collections.abc import Iterator
from pathlib import Path

import pytest

from whisperbatch.doctor.processes import ProbeResult
from whisperbatch.doctor.storage import check_folder, check_storage

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


def test_all_folders_are_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folders = {"huggingface": str(tmp_path), "whisperbatch": str(tmp_path)}
    monkeypatch.setattr(
        "whisperbatch.doctor.storage.run_probe", lambda *_, **__: ProbeResult(folders)
    )
    assert [finding.level for finding in check_storage(60)] == ["ok", "ok", "ok"]


def test_no_folder_for_temporary_files_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> str:
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found")

    monkeypatch.setattr("tempfile.gettempdir", fail)
    monkeypatch.setattr("whisperbatch.doctor.storage.run_probe", lambda *_, **__: ProbeResult({}))
    (finding,) = check_storage(60)
    assert finding.level == "warning"
    assert "TMPDIR" in finding.fix
