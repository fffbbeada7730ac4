"""Checkpoints are read without PyTorch, and a hostile file runs nothing."""

import os
import pickle
import random
import zipfile
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from tests.unit.diarization.networks.checkpoints import (
    Arrays,
    dictionary,
    integer,
    name,
    save,
    tensor,
    text,
    write,
)
from whisperbatch.diarization.networks.torch_file import read_torch_file
from whisperbatch.errors import ModelError

ARRAYS: Arrays = {
    "a.weight": np.arange(6, dtype=np.float32).reshape(2, 3),
    "a.count": np.array(7, np.int64),
    "b": np.arange(4, dtype=np.float64),
    "half": np.ones(3, np.float16),
}
ONE = {"0": np.arange(6, dtype="<f4").tobytes()}


def entry(body: bytes) -> bytes:
    return dictionary({"x": body})


@pytest.mark.parametrize("lightning", [False, True])
def test_arrays_are_read(tmp_path: Path, lightning: bool) -> None:
    arrays = read_torch_file(save(tmp_path / "net.pt", ARRAYS, lightning=lightning))
    assert list(arrays) == list(ARRAYS)
    for label, array in arrays.items():
        assert array.dtype == ARRAYS[label].dtype
        np.testing.assert_array_equal(array, ARRAYS[label])
        assert not array.flags.writeable


def test_tensors_share_a_storage_and_may_be_transposed(tmp_path: Path) -> None:
    body = dictionary(
        {
            "tail": tensor("0", 6, offset=2, size=(2, 2), stride=(2, 1)),
            "turned": tensor("0", 6, size=(3, 2), stride=(1, 3)),
            "empty": tensor("0", 6, size=(0, 4), stride=(4, 1)),
        }
    )
    arrays = read_torch_file(write(tmp_path / "net.pt", body, ONE))
    assert arrays["tail"].tolist() == [[2, 3], [4, 5]]
    assert arrays["turned"].tolist() == [[0, 3], [1, 4], [2, 5]]
    assert arrays["empty"].shape == (0, 4)


def test_classes_of_pyannote_become_placeholders(tmp_path: Path) -> None:
    inert = name("pyannote.audio.core.task", "Specifications") + b")\x81" + b"}(" + text("a")
    inert += name("pyannote.audio.core.task", "Problem") + integer(1) + b"\x85R" + b"ub"
    version = name("torch.torch_version", "TorchVersion") + text("2.0.1") + b"\x85\x81"
    body = dictionary(
        {
            "state_dict": entry(tensor("0", 6, size=(6,), stride=(1,))),
            "specifications": inert,
            "version": version,
        }
    )
    assert list(read_torch_file(write(tmp_path / "net.bin", body, ONE))) == ["x"]


@pytest.mark.parametrize(
    "body",
    [
        name("os", "system") + text("echo bad > {path}") + b"\x85R",
        name("builtins", "eval") + text("open({path!r}, 'w')") + b"\x85R",
        name("torch", "load") + text("x") + b"\x85R",
        name("torch.storage", "_load_from_bytes") + text("x") + b"\x85R",
        name("numpy", "ndarray") + b"(" + integer(1 << 30) + b"\x85tR",
        name("torch", "FloatStorage") + b")R",  # it is no class here
        b"ios\nsystem\n(" + text("x") + b"o",  # other operations that call
        b"\x8c\x02os\x8c\x06system\x93" + text("x") + b"\x85R",
        b"\x8a\xff" + b"\x7f" * 255,
        b"]" + b"r\xff\xff\xff\x7f" + b"0",  # a memo of 16 GB
        b"X\xff\xff\xff\x7f",  # a text of 2 GB
        b"(" * 100_000 + b"t" * 100_000,
        b"]" + b"\x85" * 200_000,
        tensor("0", 6, size=(7,), stride=(1,)),
        tensor("0", 6, size=(2,), stride=(6,)),
        tensor("0", 6, size=(2,), stride=(1,), offset=5),
        tensor("0", 6, size=(2,), stride=(1,), offset=-1),
        tensor("0", 6, size=(-2,), stride=(1,)),
        tensor("0", 6, size=(2,), stride=(-1,), offset=3),
        tensor("0", 6, size=(2, 2), stride=(1,)),
        tensor("0", 6, size=(1,) * 40, stride=(1,) * 40),
        tensor("0", 7, size=(6,), stride=(1,)),  # the storage is shorter
        tensor("0", 5, size=(5,), stride=(1,)),  # the storage is longer
        tensor("0", -6, size=(6,), stride=(1,)),
        tensor("1", 6, size=(6,), stride=(1,)),  # there is no such storage
        tensor("../data.pkl", 6, size=(6,), stride=(1,)),
        tensor("0", 6, size=(6,), stride=(1,), storage="ComplexFloatStorage"),
        integer(3),
        text("x"),
        b"(" + text("storage") + integer(1) + b"tQ",
    ],
)
def test_a_hostile_pickle_is_refused(tmp_path: Path, body: bytes) -> None:
    made = tmp_path / "bad"
    body = body.replace(b"{path}", os.fsencode(made))
    path = write(tmp_path / "net.pt", entry(body), ONE)
    with pytest.raises(ModelError, match=r"net\.pt"):
        read_torch_file(path)
    assert not made.exists()


def test_attributes_that_a_pickle_sets_have_no_effect(tmp_path: Path) -> None:
    """BUILD sets attributes: of the dictionary only, as tensors have none."""
    body = entry(
        tensor("0", 6, size=(6,), stride=(1,)) + b"}(" + text("offset") + text("x") + b"ub"
    )
    with pytest.raises(ModelError):
        read_torch_file(write(tmp_path / "net.pt", body, ONE))


def test_files_of_other_kinds(tmp_path: Path) -> None:
    body = entry(tensor("0", 6, size=(6,), stride=(1,)))
    files = {
        "big-endian.pt": write(tmp_path / "big-endian.pt", body, ONE, byteorder=b"big"),
        "list.pt": write(tmp_path / "list.pt", b"]", ONE),
    }
    (tmp_path / "empty.pt").write_bytes(b"")
    (tmp_path / "legacy.pt").write_bytes(pickle.dumps({"a": 1}))
    with zipfile.ZipFile(tmp_path / "none.pt", "w") as archive:
        archive.writestr("readme", "x")
    with zipfile.ZipFile(tmp_path / "packed.pt", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", b"\x80\x02}." + bytes(1 << 20))
    for file in (*files, "empty.pt", "legacy.pt", "none.pt", "packed.pt", "missing.pt"):
        with pytest.raises(ModelError, match=file):
            read_torch_file(tmp_path / file)


def test_damage_never_raises_another_error(tmp_path: Path) -> None:
    path = save(tmp_path / "net.pt", ARRAYS)
    whole, chance = path.read_bytes(), random.Random(0)  # noqa: S311
    for number in range(400):
        damaged = bytearray(whole)
        for _ in range(chance.choice((1, 1, 8))):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        path.write_bytes(damaged[: chance.randrange(len(damaged))] if number % 4 == 0 else damaged)
        with suppress(ModelError):
            read_torch_file(path)
