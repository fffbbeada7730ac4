"""Files that cannot be read, and files with wrong content."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from whisperbatch.errors import ModelError
from whisperbatch.models import files
from whisperbatch.models.files import one_line, open_regular, read_json, read_text


def error_message(path: Path, kind: type = dict) -> str:
    with pytest.raises(ModelError) as caught:
        read_json(path, kind)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert "\n" not in message
    return message


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", "is damaged (Expecting value"),
        (b'{"a": ', "is damaged"),
        (b"\xff\xfe{\x00}\x00", "is damaged (not UTF-8)"),
        (b"[" * 100_000, "is damaged (maximum recursion depth exceeded"),
        (b'{"a": NaN}', "is damaged (NaN is not JSON)"),
        (b'{"a": -Infinity}', "is damaged (-Infinity is not JSON)"),
        (b'{"a": ' + b"9" * 5000 + b"}", "is damaged (Exceeds the limit"),
        (b"[1]", "is damaged (not a JSON dict)"),
        (b"null", "is damaged (not a JSON dict)"),
    ],
)
def test_content_that_is_not_a_json_object(tmp_path: Path, data: bytes, expected: str) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(data)
    assert expected in error_message(path)


def test_a_byte_order_mark_is_allowed(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text('\ufeff{"a": 1}', encoding="utf-8")
    assert read_json(path, dict) == {"a": 1}


def test_a_missing_file_and_a_folder(tmp_path: Path) -> None:
    assert "is missing" in error_message(tmp_path / "config.json")
    assert "is not a regular file" in error_message(tmp_path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes")
def test_a_named_pipe_is_not_opened(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    os.mkfifo(path)
    assert "is not a regular file" in error_message(path)


def test_a_large_sparse_file_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.touch()
    os.truncate(path, 1 << 30)
    assert "has more than 64 MB" in error_message(path)


def test_no_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "config.json"
    path.write_text("{}")

    def refuse(*arguments: Any) -> Any:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    assert "cannot be read: Permission denied" in error_message(path)


def test_text_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "vocabulary.txt"
    path.write_text("ab\n")
    assert read_text(path) == "ab\n"
    with open_regular(path) as file:
        assert file.read() == b"ab\n"
    monkeypatch.setattr(files, "MAX_BYTES", 2)
    with pytest.raises(ModelError, match="has more than"):
        read_text(path)


def test_errors_of_libraries_become_one_short_line() -> None:
    error = RuntimeError("Exception from a.cpp:1:\n  Check failed:\nshapes " + "x" * 1000)
    assert one_line(error).startswith("Exception from a.cpp:1: Check failed: shapes xxx")
    assert len(one_line(error)) == files.MAX_REASON
    assert one_line(RuntimeError()) == "RuntimeError"
