from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from whisperbatch.models.architecture import RandomModel
from whisperbatch.models.config import IDENTIFYING, measured_kept_frames, weights_digest
from whisperbatch.models.model_bin import write_model_bin


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
