"""The headers of model.bin, and damaged files."""

import struct
from contextlib import suppress
from pathlib import Path

import pytest

from tests.unit.models.model_files import (
    encode_model_bin,
    encode_variable,
    error_message,
    write_model,
)
from whisperbatch.errors import ModelError
from whisperbatch.models.model_bin import read_arrays, read_headers, release_pages, variables


def test_headers_of_variables(tmp_path: Path) -> None:
    path = write_model(tmp_path) / "model.bin"
    with path.open("rb") as file:
        headers = list(variables(file, path))
    assert [(array.name, array.shape, array.dtype, array.size) for array in headers] == [
        ("decoder/scale", (), 0, 4),
        ("decoder/weight", (3, 5), 4, 30),
        ("encoder/weight", (2, 3), 1, 6),
        ("encoder/same", (2, 3), 1, 6),  # an alias
    ]
    assert headers[3].offset == headers[2].offset
    assert struct.pack("<f", headers[0].value or 0) == b"abcd"
    assert headers[1].value is None
    data = path.read_bytes()
    assert data[headers[1].offset :][: headers[1].size] == bytes(range(30))


def test_what_was_release_pages_is_hash_again(tmp_path: Path) -> None:
    array = read_arrays(write_model(tmp_path) / "model.bin", "decoder/weight")["decoder/weight"]
    before = array.copy()
    release_pages(array)
    assert array.tobytes() == before.tobytes() == bytes(range(30))
    release_pages(before)  # an array without a file: no effect


def test_every_truncation_is_detected(tmp_path: Path) -> None:
    path = tmp_path / "model.bin"
    data = encode_model_bin()
    for length in range(len(data)):
        path.write_bytes(data[:length])
        with pytest.raises(ModelError, match=r"model\.bin: is (cut short|not a CTranslate2)"):
            read_headers(path)
        with path.open("rb") as file, suppress(ModelError):
            for array in variables(file, path):
                assert array.offset + array.size <= length  # its data are in the file
    path.write_bytes(data)
    read_headers(path)


@pytest.mark.parametrize("version", [4, 5, 6])
def test_supported_binary_versions(tmp_path: Path, version: int) -> None:
    read_headers(write_model(tmp_path, model_bin=encode_model_bin(version=version)) / "model.bin")


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (encode_model_bin() + b"\0", "is damaged (1 bytes after the end)"),
        (encode_model_bin(version=3), "is not a CTranslate2 model"),
        (encode_model_bin(version=7), "is not a CTranslate2 model"),
        (b"PK\x03\x04" + bytes(100), "is not a CTranslate2 model"),
        (encode_model_bin(spec="TransformerSpec"), "contains a 'TransformerSpec' model"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 9\n", "git lfs pull"),
        (b"", "is cut short at 0 bytes"),
        (
            encode_model_bin(arrays=[encode_variable("w", (3,), 0, bytes(4))]),
            "variable 'w' is damaged",
        ),
        (
            encode_model_bin(arrays=[encode_variable("w", (4,), 9, bytes(4))]),
            "variable 'w' is damaged",
        ),
        (encode_model_bin(arrays=[encode_variable("w", (9,), 1, b"", size=9)]), "variables)"),
        (encode_model_bin(arrays=[b"\xff" * 100]), "is cut short"),
    ],
)
def test_damaged_or_foreign_files_are_refused(tmp_path: Path, data: bytes, expected: str) -> None:
    directory = write_model(tmp_path / "mine", model_bin=data)
    message = error_message(str(directory))
    assert expected in message
    assert str(directory / "model.bin") in message
