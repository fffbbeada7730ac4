"""The temporary directory for models whose config.json lacks settings."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from whisperbatch.engines.ctranslate2.weights import with_settings
from whisperbatch.errors import ModelError

HEADS = {"alignment_heads": [[1, 0], [1, 1]]}


def write_directory(target: Path, config: Any) -> Path:
    """Write the files that are linked."""
    target.mkdir()
    (target / "model.bin").write_bytes(b"weights")
    (target / "config.json").write_text(json.dumps(config))
    (target / "vocabulary.txt").write_text("a\nb\n")
    (target / "tokenizer.json").write_text("{}")
    return target


def test_a_complete_directory_is_used_in_place(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "whisperbatch")
    directory = write_directory(tmp_path / "model", {"alignment_heads": [[4, 0]]})
    with with_settings(directory, {}) as complete:
        assert complete == directory
    assert directory.is_dir()
    assert caplog.messages == []


@pytest.mark.parametrize("config", [{}, {"alignment_heads": None}, {"alignment_heads": []}])
def test_settings_are_replaced_in_a_temporary_directory(
    tmp_path: Path, config: dict[str, Any]
) -> None:
    config["suppress_ids"] = [1, 2]
    directory = write_directory(tmp_path / "model", config)
    before = {path.name: path.read_bytes() for path in directory.iterdir()}
    with with_settings(directory, HEADS) as complete:
        assert complete != directory
        assert sorted(path.name for path in complete.iterdir()) == [
            *("config.json", "model.bin", "vocabulary.txt")
        ]
        assert (complete / "model.bin").samefile(directory / "model.bin")
        settings = json.loads((complete / "config.json").read_text())
    assert settings == {"suppress_ids": [1, 2], **HEADS}
    assert not complete.exists()
    assert {path.name: path.read_bytes() for path in directory.iterdir()} == before


def test_the_temporary_directory_is_deleted_after_an_error(tmp_path: Path) -> None:
    directory = write_directory(tmp_path / "model", {})
    with pytest.raises(RuntimeError), with_settings(directory, HEADS) as complete:
        raise RuntimeError
    assert not complete.exists()
    assert (directory / "model.bin").exists()


def test_a_replaced_setting_is_logged_once_for_each_model(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "whisperbatch")
    directories = [write_directory(tmp_path / name, {}) for name in ("one", "two")]
    for directory in directories * 3:
        with with_settings(directory, HEADS):
            pass
    assert [message.partition(": ")[0] for message in caplog.messages] == [
        str(directory / "config.json") for directory in directories
    ]


@pytest.mark.parametrize("refused", [(), ("symlink",), ("symlink", "link")])
def test_files_are_linked_or_else_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: tuple[str, ...]
) -> None:
    def refuse(source: Path, target: Path) -> None:
        raise OSError(f"no links from {source} to {target}")

    for name in refused:
        monkeypatch.setattr(os, name, refuse)
    directory = write_directory(tmp_path / "model", {})
    with with_settings(directory, HEADS) as complete:
        path = complete / "model.bin"
        assert path.is_symlink() == (not refused)
        assert path.samefile(directory / "model.bin") == (len(refused) < 2)
        assert path.read_bytes() == (directory / "model.bin").read_bytes()


def test_a_relative_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_directory(tmp_path / "model", {})
    monkeypatch.chdir(tmp_path)
    with with_settings(Path("model"), HEADS) as complete:
        assert (complete / "model.bin").read_bytes()


@pytest.mark.parametrize("data", [None, b"", b"[]", b"\xff\xfe"])
def test_a_damaged_config_is_named(tmp_path: Path, data: bytes | None) -> None:
    path = write_directory(tmp_path / "model", {}) / "config.json"
    path.unlink()
    if data is not None:
        path.write_bytes(data)
    with (
        pytest.raises(ModelError, match=r"config\.json: ") as caught,
        with_settings(path.parent, HEADS),
    ):
        pass
    assert "\n" not in str(caught.value)
