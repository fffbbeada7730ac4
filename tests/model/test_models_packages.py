"""The weights that the extra `models` installs."""

import hashlib
import json
import time
from pathlib import Path

import ctranslate2
import pytest

from whisperbatch.models.model_bin import variables
from whisperbatch.models.packages import PACKAGES
from whisperbatch.models.registry import find_model


def assert_pinned(directory: Path, name: str) -> None:
    for file, digest in PACKAGES[name].digests.items():
        with (directory / file).open("rb") as opened:
            assert hashlib.file_digest(opened, "sha256").hexdigest() == digest, file


@pytest.mark.parametrize(("name", "multilingual"), [("tiny.en", False), ("base", True)])
def test_packaged_weights_load(tmp_path: Path, name: str, multilingual: bool) -> None:
    directory = find_model(name, cache_dir=tmp_path)
    assert_pinned(directory, name)
    model = ctranslate2.models.Whisper(str(directory), device="cpu", compute_type="int8")
    assert model.is_multilingual == multilingual
    model.unload_model()


def test_tiny_is_used_where_it_is_installed(tmp_path: Path) -> None:
    assert tmp_path not in find_model("tiny.en", cache_dir=tmp_path).parents
    assert list(tmp_path.iterdir()) == []


def test_a_second_start_is_quick(tmp_path: Path) -> None:
    find_model("base", cache_dir=tmp_path)
    taken = []
    for _ in range(3):
        start = time.perf_counter()
        find_model("base", cache_dir=tmp_path)
        taken.append(time.perf_counter() - start)
    assert min(taken) < 1  # 0.05 s as measured


def test_every_variable_of_base_is_found(tmp_path: Path) -> None:
    directory = find_model("base", cache_dir=tmp_path)
    path = directory / "model.bin"
    with path.open("rb") as file:
        found = {one.name: one for one in variables(file, path)}
    words = json.loads((directory / "vocabulary.json").read_bytes())
    assert found["decoder/embeddings/weight"].shape == (len(words), 512)
    assert found["encoder/conv1/weight"].shape == (512, 80, 3)


def test_damaged_copy_is_noticed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    directory = find_model("base", cache_dir=tmp_path)
    with (directory / "model.bin").open("r+b") as file:
        file.seek(100_000_000)
        file.write(b"one wrong weight")
    assert find_model("base", cache_dir=tmp_path) == directory
    assert f"{directory / 'model.bin'}: is damaged" in caplog.text
    assert_pinned(directory, "base")
