"""The weights that the extra `models` installs: integrity, loading and time to find them."""

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
    for name_of_file, digest in PACKAGES[name].digests.items():
        content = (directory / name_of_file).read_bytes()
        assert hashlib.sha256(content).hexdigest() == digest, name_of_file


@pytest.mark.parametrize(("name", "multilingual"), [("tiny.en", False), ("base", True)])
def test_packaged_weights_load(tmp_path: Path, name: str, multilingual: bool) -> None:
    directory = find_model(name, cache_dir=tmp_path)
    assert_pinned(directory, name)
    model = ctranslate2.models.Whisper(str(directory), device="cpu", compute_type="int8")
    assert model.is_multilingual == multilingual
    model.unload_model()


def test_tiny_is_used_in_place(tmp_path: Path) -> None:
    assert tmp_path not in find_model("tiny.en", cache_dir=tmp_path).parents
    assert list(tmp_path.iterdir()) == []


def test_second_call_is_fast(tmp_path: Path) -> None:
    find_model("base", cache_dir=tmp_path)
    durations = []
    for _ in range(3):
        start = time.perf_counter()
        find_model("base", cache_dir=tmp_path)
        durations.append(time.perf_counter() - start)
    assert min(durations) < 1  # s; 0.05 s were measured


def test_variables_of_base(tmp_path: Path) -> None:
    directory = find_model("base", cache_dir=tmp_path)
    path = directory / "model.bin"
    with path.open("rb") as file:
        headers = {array.name: array for array in variables(file, path)}
    vocabulary = json.loads((directory / "vocabulary.json").read_bytes())
    assert headers["decoder/embeddings/weight"].shape == (len(vocabulary), 512)
    assert headers["encoder/conv1/weight"].shape == (512, 80, 3)


def test_damaged_copy_is_repaired(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    directory = find_model("base", cache_dir=tmp_path)
    with (directory / "model.bin").open("r+b") as file:
        file.seek(100_000_000)
        file.write(b"one wrong weight")
    assert find_model("base", cache_dir=tmp_path) == directory
    assert f"{directory / 'model.bin'}: is damaged" in caplog.text
    assert_pinned(directory, "base")
