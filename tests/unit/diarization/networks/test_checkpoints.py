"""Checkpoints are read without PyTorch, and a hostile pickle runs nothing."""

import os
import pickle
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
from whisperbatch.diarization.networks.weights import read_checkpoint

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
