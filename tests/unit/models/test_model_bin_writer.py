"""What the writer of model.bin writes, the reader reads."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from whisperbatch.models.architecture import RandomModel
from whisperbatch.models.model_bin import read_arrays, read_headers, write_model_bin

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
