"""What the engine on PyTorch chooses for a GPU, without a GPU."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from whisperbatch.engines.loading import load_engine

pytestmark = pytest.mark.torch

GIB = 1 << 30


def test_the_batch_size_fits_the_memory_of_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch  # noqa: PLC0415 - not always installed

    memory = SimpleNamespace(total_memory=2 * GIB)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: memory)
    sizes = []
    for settings in ({}, {"draft_model": "tiny.en"}):
        engine: Any = load_engine(
            "tiny.en", engine="torch", device="cpu", compute_type="bfloat16", **settings
        )
        assert engine.default_batch_size(1) == 8
        monkeypatch.setattr(engine, "_device", torch.device("cuda:0"))
        sizes.append(engine.default_batch_size(1))
    assert sizes == [16, 8]  # (1.5 GiB - 73 MB) / 52 MB = 29; half of it with two models


def test_features_on_a_cpu_are_in_float32() -> None:
    engine: Any = load_engine("tiny.en", engine="torch", device="cpu", compute_type="bfloat16")
    assert engine.feature_type is np.float32
