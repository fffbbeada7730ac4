"""After any failure the old file is unchanged, and no temporary file remains."""

import errno
import os
import stat
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from typing_extensions import Self

from whisperbatch.errors import WriteError
from whisperbatch.files import ABANDONED_AFTER, write_atomically


@pytest.fixture
def old(tmp_path: Path) -> Path:
    path = tmp_path / "a.srt"
    path.write_bytes(b"old")
    return path


@pytest.fixture
def umask() -> Iterator[Callable[[int], int]]:
    before = os.umask(0)
    os.umask(before)
    yield os.umask
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def raise_disk_full(*_: Any) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_text_is_written_unchanged_in_utf8(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    assert write_atomically(path, "ä\nb\r\n".encode()) == path
    assert path.read_bytes() == "ä\nb\r\n".encode()
    assert names(tmp_path) == ["a.txt"]


def test_a_path_may_be_a_string(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert write_atomically("a.bin", b"\0") == Path("a.bin")
    assert (tmp_path / "a.bin").read_bytes() == b"\0"


@pytest.mark.parametrize(("mask", "expected"), [(0o022, 0o644), (0o077, 0o600), (0, 0o666)])
def test_a_new_file_has_the_permissions_that_the_umask_allows(
    tmp_path: Path, umask: Callable[[int], int], mask: int, expected: int
) -> None:
    umask(mask)
    assert mode(write_atomically(tmp_path / "a", b"")) == expected


def test_a_new_file_has_the_permissions_of_the_old_file(old: Path) -> None:
    old.chmod(0o640)
    write_atomically(old, b"new")
    assert (old.read_bytes(), mode(old)) == (b"new", 0o640)


def test_a_symbolic_link_stays_and_its_target_is_replaced(old: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    link = tmp_path / "elsewhere" / "link.srt"
    link.symlink_to(old)
    write_atomically(link, b"new")
    assert link.is_symlink()
    assert old.read_bytes() == b"new"
    assert names(link.parent) == ["link.srt"]


def test_a_file_name_may_have_the_maximum_length(tmp_path: Path) -> None:
    path = tmp_path / ("n" * 251 + ".srt")
    write_atomically(path, b"new")
    assert path.read_bytes() == b"new"


def test_the_temporary_file_is_hidden_and_in_the_same_directory(
    old: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary_names: list[str] = []
    monkeypatch.setattr(Path, "replace", lambda self, target: temporary_names.append(self.name))
    write_atomically(old, b"new")
    assert len(temporary_names) == 1
    assert temporary_names[0].startswith(".whisperbatch-")
    assert f"-{os.getpid()}-" in temporary_names[0]
    assert temporary_names[0].endswith(".tmp")


class HalfWritten:
    """A file on a disk that is full after half of the data."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def write(self, data: bytes) -> None:
        self._file.write(data[: len(data) // 2])
        raise_disk_full()


def fail_writing(monkeypatch: pytest.MonkeyPatch) -> None:
    path_open = Path.open
    monkeypatch.setattr(Path, "open", lambda self, mode: HalfWritten(path_open(self, mode)))


def fail_syncing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", raise_disk_full)


def fail_changing_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "chmod", raise_disk_full)


def fail_replacing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "replace", raise_disk_full)


@pytest.mark.parametrize("fail", [fail_writing, fail_syncing, fail_changing_mode, fail_replacing])
def test_after_any_failure_the_old_file_is_unchanged(
    old: Path, monkeypatch: pytest.MonkeyPatch, fail: Callable[[pytest.MonkeyPatch], None]
) -> None:
    fail(monkeypatch)
    with pytest.raises(WriteError) as caught:
        write_atomically(old, b"new")
    monkeypatch.undo()
    assert str(caught.value) == f"{old}: cannot be written: No space left on device"
    assert isinstance(caught.value.__cause__, OSError)
    assert old.read_bytes() == b"old"
    assert names(old.parent) == ["a.srt"]


def test_an_interruption_leaves_no_temporary_file_and_is_raised(
    old: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_atomically(old, b"new")
    assert old.read_bytes() == b"old"
    assert names(old.parent) == ["a.srt"]


def test_the_new_file_is_on_the_disk_before_it_replaces_the_old_file(
    old: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    sync, replace = os.fsync, Path.replace

    def syncing(descriptor: int) -> None:
        order.append("directory" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
        sync(descriptor)

    def replacing(self: Path, target: Path) -> Path:
        order.append("replace")
        return replace(self, target)

    monkeypatch.setattr(os, "fsync", syncing)
    monkeypatch.setattr(Path, "replace", replacing)
    write_atomically(old, b"new")
    assert order == ["file", "replace", "directory"]


def test_a_directory_that_cannot_be_synced_is_ignored(
    old: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os_open = os.open

    def opening(path: Any, flags: int, *args: Any, **kwargs: Any) -> int:
        if Path(path).is_dir():
            raise PermissionError(errno.EACCES, "Permission denied")
        return os_open(path, flags, *args, **kwargs)

    monkeypatch.setattr(os, "open", opening)
    write_atomically(old, b"new")
    assert old.read_bytes() == b"new"


def test_directories_and_pipes_are_not_replaced(tmp_path: Path) -> None:
    directory, pipe = tmp_path / "directory.srt", tmp_path / "pipe.srt"
    directory.mkdir()
    os.mkfifo(pipe)
    for path, reason in ((directory, "Is a directory"), (pipe, "Is not a file")):
        with pytest.raises(WriteError, match=f"{path}: cannot be written: {reason}"):
            write_atomically(path, b"new")
    assert names(tmp_path) == ["directory.srt", "pipe.srt"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_read_only_file_is_not_replaced(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old.chmod(0o444)
    monkeypatch.setattr(
        os, "access", lambda path, kind: kind != os.W_OK
    )  # root may write every file
    with pytest.raises(WriteError, match="Permission denied"):
        write_atomically(old, b"new")
    assert old.read_bytes() == b"old"


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("missing/a.srt", "No such file or directory"),
        ("a.srt/b.srt", "Not a directory"),
        ("n" * 256, "File name too long"),
        ("a\0b.srt", ".*embedded null"),
    ],
)
def test_the_message_states_the_reason(old: Path, name: str, reason: str) -> None:
    with pytest.raises(WriteError, match=f"cannot be written: {reason}"):
        write_atomically(old.parent / name, b"new")
    assert names(old.parent) == ["a.srt"]


def test_the_message_has_one_line(tmp_path: Path) -> None:
    with pytest.raises(WriteError) as caught:
        write_atomically(tmp_path / "two\nlines" / "a.srt", b"new")
    assert "\n" not in str(caught.value)


def test_concurrent_writes_leave_one_complete_file(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    versions = [letter * 100_000 for letter in "abcdefgh"]
    with ThreadPoolExecutor(8) as pool:
        paths = list(pool.map(lambda text: write_atomically(path, text.encode()), versions))
    assert paths == [path] * 8
    assert path.read_text() in versions
    assert names(tmp_path) == ["a.txt"]


def test_the_temporary_file_of_a_killed_process_is_deleted_by_a_later_write(
    old: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def kill(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", kill)
        patched.setattr(Path, "unlink", lambda *_, **__: None)  # a killed process deletes nothing
        with pytest.raises(KeyboardInterrupt):
            write_atomically(old, b"new")
    [temporary] = [name for name in names(old.parent) if name != "a.srt"]
    write_atomically(old.with_name("b.srt"), b"")
    write_atomically(old, b"new")
    assert temporary in names(old.parent)  # another process may still write to this file
    before = time.time() - ABANDONED_AFTER - 1
    os.utime(old.with_name(temporary), (before, before))
    write_atomically(old.with_name("b.srt"), b"")
    assert temporary in names(old.parent)
    write_atomically(old, b"newer")
    assert names(old.parent) == ["a.srt", "b.srt"]
