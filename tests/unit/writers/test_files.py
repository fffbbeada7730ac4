"""Files are whole or as they were, whatever fails, and nothing is left beside them."""

import errno
import os
import stat
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

import pytest

from whisperbatch.errors import WriteError
from whisperbatch.writers.files import LEFT, write_atomically, write_text_atomically


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


def no_room(*_: Any) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_text_is_written_in_utf8_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    assert write_text_atomically(path, "ä\nb\r\n") == path
    assert path.read_bytes() == "ä\nb\r\n".encode()
    assert names(tmp_path) == ["a.txt"]


def test_a_path_may_be_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert write_atomically("a.bin", b"\0") == Path("a.bin")
    assert (tmp_path / "a.bin").read_bytes() == b"\0"


@pytest.mark.parametrize(("mask", "expected"), [(0o022, 0o644), (0o077, 0o600), (0, 0o666)])
def test_a_new_file_has_the_mode_that_the_umask_leaves(
    tmp_path: Path, umask: Callable[[int], int], mask: int, expected: int
) -> None:
    umask(mask)
    assert mode(write_atomically(tmp_path / "a", b"")) == expected


def test_the_mode_of_the_old_file_is_kept(old: Path) -> None:
    old.chmod(0o640)
    write_atomically(old, b"new")
    assert (old.read_bytes(), mode(old)) == (b"new", 0o640)


def test_a_link_stays_and_leads_to_the_new_file(old: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    link = tmp_path / "elsewhere" / "link.srt"
    link.symlink_to(old)
    write_atomically(link, b"new")
    assert link.is_symlink()
    assert old.read_bytes() == b"new"
    assert names(link.parent) == ["link.srt"]


def test_a_name_may_be_as_long_as_the_system_has_it(tmp_path: Path) -> None:
    path = tmp_path / ("n" * 251 + ".srt")
    write_atomically(path, b"new")
    assert path.read_bytes() == b"new"


def test_the_file_being_written_is_hidden_and_beside_its_place(
    old: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    monkeypatch.setattr(Path, "replace", lambda self, target: seen.append(self.name))
    write_atomically(old, b"new")
    assert len(seen) == 1
    assert seen[0].startswith(".whisperbatch-")
    assert f"-{os.getpid()}-" in seen[0]
    assert seen[0].endswith(".tmp")


class Full:
    """A file on a disk that is full after half of what is written."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def write(self, data: bytes) -> None:
        self._file.write(data[: len(data) // 2])
        no_room()


def fail_writing(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = Path.open
    monkeypatch.setattr(Path, "open", lambda self, mode: Full(usual(self, mode)))


def fail_syncing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", no_room)


def fail_changing_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "chmod", no_room)


def fail_replacing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "replace", no_room)


@pytest.mark.parametrize("fail", [fail_writing, fail_syncing, fail_changing_mode, fail_replacing])
def test_whatever_fails_the_old_file_is_whole(
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


def test_an_interruption_leaves_nothing_and_goes_on(
    old: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_atomically(old, b"new")
    assert old.read_bytes() == b"old"
    assert names(old.parent) == ["a.srt"]


def test_the_file_is_on_the_disk_before_it_is_in_its_place(
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


def test_a_directory_that_cannot_be_synced_is_no_failure(
    old: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = os.open

    def opening(path: Any, flags: int, *rest: Any, **more: Any) -> int:
        if Path(path).is_dir():
            raise PermissionError(errno.EACCES, "Permission denied")
        return usual(path, flags, *rest, **more)

    monkeypatch.setattr(os, "open", opening)
    write_atomically(old, b"new")
    assert old.read_bytes() == b"new"


def test_what_is_no_file_is_left_alone(tmp_path: Path) -> None:
    directory, pipe = tmp_path / "directory.srt", tmp_path / "pipe.srt"
    directory.mkdir()
    os.mkfifo(pipe)
    for path, reason in ((directory, "Is a directory"), (pipe, "Is not a file")):
        with pytest.raises(WriteError, match=f"{path}: cannot be written: {reason}"):
            write_atomically(path, b"new")
    assert names(tmp_path) == ["directory.srt", "pipe.srt"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_file_that_may_not_be_written_is_not_replaced(
    old: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old.chmod(0o444)
    monkeypatch.setattr(os, "access", lambda path, kind: kind != os.W_OK)  # root may all
    with pytest.raises(WriteError, match="Permission denied"):
        write_atomically(old, b"new")
    assert old.read_bytes() == b"old"


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("missing/a.srt", "No such file or directory"),
        ("a.srt/b.srt", "Not a directory"),
        ("n" * 256, "File name too long"),
        ("a\0b.srt", "embedded null byte"),
    ],
)
def test_the_reason_is_said(old: Path, name: str, reason: str) -> None:
    with pytest.raises(WriteError, match=f"cannot be written: {reason}"):
        write_atomically(old.parent / name, b"new")
    assert names(old.parent) == ["a.srt"]


def test_the_message_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(WriteError) as caught:
        write_atomically(tmp_path / "two\nlines" / "a.srt", b"new")
    assert "\n" not in str(caught.value)


def test_of_several_at_once_one_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    versions = [letter * 100_000 for letter in "abcdefgh"]
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda text: write_text_atomically(path, text), versions))
    assert made == [path] * 8
    assert path.read_text() in versions
    assert names(tmp_path) == ["a.txt"]


def test_what_a_killed_process_has_left_goes_with_the_next_file_of_that_name(
    old: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", killed)
        patched.setattr(Path, "unlink", lambda *_, **__: None)  # dead processes delete nothing
        with pytest.raises(KeyboardInterrupt):
            write_atomically(old, b"new")
    [left] = [name for name in names(old.parent) if name != "a.srt"]
    write_atomically(old.with_name("b.srt"), b"")
    write_atomically(old, b"new")
    assert left in names(old.parent)  # it may be being written
    before = time.time() - LEFT - 1
    os.utime(old.with_name(left), (before, before))
    write_atomically(old.with_name("b.srt"), b"")
    assert left in names(old.parent)
    write_atomically(old, b"newer")
    assert names(old.parent) == ["a.srt", "b.srt"]
