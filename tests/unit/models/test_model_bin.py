"""model.bin: its headers, damaged files; what the writer writes, the reader reads."""

import io
import struct
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tests.unit.models.model_files import (
    encode_model_bin,
    encode_variable,
    error_message,
    write_model,
)
from whisperbatch.errors import ModelError
from whisperbatch.models.architecture import RandomModel
from whisperbatch.models.config import IDENTIFYING, measured_kept_frames, weights_digest
from whisperbatch.models.model_bin import (
    read_arrays,
    read_headers,
    release_pages,
    variables,
    write_model_bin,
)


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


ARRAYS: dict[str, npt.NDArray[Any]] = {
    "encoder/weight": np.arange(6, dtype=np.float32).reshape(2, 3),
    "decoder/embeddings/weight": np.arange(8, dtype=np.float16).reshape(4, 2),
    "decoder/num_heads": np.array(6, np.int16),
    "decoder/pre_norm": np.array(1, np.int8),
    "decoder/scale": np.array([-1, 70_000], np.int32),
    "decoder/transposed": np.arange(6, dtype=np.float32).reshape(2, 3).T,
}


def test_arrays_are_read_as_they_were_written(tmp_path: Path) -> None:
    path = tmp_path / "model.bin"
    with path.open("wb") as file:
        write_model_bin(file, ARRAYS)
    arrays = read_arrays(path, "")
    assert list(arrays) == [*ARRAYS, "decoder/projection/weight"]
    assert np.array_equal(
        arrays.pop("decoder/projection/weight"), ARRAYS["decoder/embeddings/weight"]
    )
    for name, array in arrays.items():
        assert np.array_equal(array, ARRAYS[name])
        assert array.dtype == ARRAYS[name].dtype


def test_aliases_are_part_of_the_file() -> None:
    def written(aliases: dict[str, str]) -> bytes:
        file = io.BytesIO()
        write_model_bin(file, {"decoder/scale": ARRAYS["decoder/scale"]}, aliases)
        return file.getvalue()

    alias = written({"other": "decoder/scale"})
    assert written({}).endswith(bytes(4))
    assert alias.endswith(b"\1\0\0\0\6\0other\0\x0e\0decoder/scale\0")


def test_a_type_that_the_format_lacks_is_refused() -> None:
    with pytest.raises(KeyError, match="float64"):
        write_model_bin(io.BytesIO(), {"a": np.zeros(2)})


def test_equal_seeds_and_sizes_give_equal_weights() -> None:
    first, again, other = (
        RandomModel(
            d_model=8, layers=1, vocabulary_size=50, encoder_positions=9, seed=seed
        ).arrays()
        for seed in (0, 0, 1)
    )
    assert all(np.array_equal(first[name], again[name]) for name in first)
    assert not np.array_equal(first["encoder/conv1/weight"], other["encoder/conv1/weight"])


def test_a_random_model_has_the_given_sizes(tmp_path: Path) -> None:
    sizes = RandomModel(
        d_model=12,
        heads=3,
        layers=2,
        vocabulary_size=50,
        text_tokens=40,
        n_mels=128,
        encoder_positions=9,
        decoder_positions=7,
    )
    path = tmp_path / "model.bin"
    with path.open("wb") as file:
        write_model_bin(file, sizes.arrays())
    shapes = {name: header.shape for name, header in read_headers(path).items()}
    assert shapes["encoder/conv1/weight"] == (12, 128, 3)
    assert shapes["encoder/position_encodings/encodings"] == (9, 12)
    assert shapes["decoder/position_encodings/encodings"] == (7, 12)
    assert shapes["decoder/layer_1/self_attention/linear_0/weight"] == (36, 12)
    assert shapes["decoder/layer_1/attention/linear_1/weight"] == (24, 12)
    assert "decoder/layer_2/ffn/linear_0/weight" not in shapes
    arrays = read_arrays(path, "decoder/")
    assert arrays["decoder/num_heads"] == 3
    embeddings = np.abs(arrays["decoder/embeddings/weight"])
    assert embeddings[40:].max() < embeddings[:40].max() / 2


def write(
    folder: Path, dtype: Any = np.float16, seed: int = 0, changed: Mapping[str, Any] | None = None
) -> Path:
    folder.mkdir()
    arrays = RandomModel(d_model=64, layers=1, vocabulary_size=100, text_tokens=90, seed=seed)
    with (folder / "model.bin").open("wb") as file:
        stored = {name: np.float16(array) for name, array in arrays.arrays().items()}
        write_model_bin(
            file,
            {name: array.astype(dtype) for name, array in stored.items()} | dict(changed or {}),
        )
    return folder


def test_all_conversions_of_a_model_have_one_digest(tmp_path: Path) -> None:
    digest = weights_digest(write(tmp_path / "float16"))
    assert weights_digest(write(tmp_path / "float32", np.float32)) == digest
    assert weights_digest(write(tmp_path / "other", seed=1)) != digest


@pytest.mark.parametrize("name", IDENTIFYING)
def test_a_model_that_was_trained_further_has_another_digest(tmp_path: Path, name: str) -> None:
    arrays = RandomModel(d_model=64, layers=1, vocabulary_size=100, text_tokens=90).arrays()
    trained = write(tmp_path / "trained", changed={name: arrays[name] + np.float16(0.01)})
    assert weights_digest(trained) != weights_digest(write(tmp_path / "model"))


def test_a_model_without_measurement_keeps_all_frames(tmp_path: Path) -> None:
    assert measured_kept_frames(write(tmp_path / "random")) == 1
    assert measured_kept_frames(tmp_path) == 1  # no model.bin: weights of transformers
