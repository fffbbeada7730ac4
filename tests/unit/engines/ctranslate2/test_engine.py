from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.contract.tiny_model import tiny_model
from tests.unit.engines.architectures import MODELS
from whisperbatch import OptionError
from whisperbatch.engines.calls import check_encoded
from whisperbatch.engines.ctranslate2.engine import (
    CTranslate2Engine,
    EncodedView,
    memory_use,
    to_array,
)
from whisperbatch.engines.memory import MemoryUse
from whisperbatch.engines.model_info import ModelInfo
from whisperbatch.engines.settings import CTranslate2Settings
from whisperbatch.models import find_model


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The arguments with which CTranslate2 loads models, on a machine with two CUDA devices."""
    calls: list[dict[str, Any]] = []

    def load(directory: str, **arguments: Any) -> SimpleNamespace:
        calls.append({"directory": directory, **arguments})
        return SimpleNamespace(unload_model=lambda: None, generate=lambda *_, **__: [])

    monkeypatch.setattr("ctranslate2.models.Whisper", load)
    monkeypatch.setattr(
        "ctranslate2.get_supported_compute_types", lambda *_: {"float16", "float32", "int8"}
    )
    return calls


def cuda_engine(**settings: Any) -> CTranslate2Engine:
    model = ModelInfo.read(find_model("tiny.en"), "tiny.en")
    return CTranslate2Engine(model, device="cuda", settings=CTranslate2Settings(**settings))


@pytest.mark.parametrize("flash_attention", [False, True])
def test_flash_attention_is_passed_to_ctranslate2(
    loaded: list[dict[str, Any]], flash_attention: bool
) -> None:
    engine = cuda_engine(flash_attention=flash_attention)
    assert loaded[0]["flash_attention"] is flash_attention
    assert ("flash attention" in engine.fingerprint) is flash_attention
    engine.close()


@pytest.mark.usefixtures("loaded")
def test_flash_attention_that_a_build_lacks_is_refused_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The builds of the package index load with the option; CUDA then fails in `generate`."""
    freed = []

    def generate(*_: Any, **__: Any) -> None:
        raise RuntimeError("Flash attention 2 is not supported")

    def load(*_: Any, **__: Any) -> SimpleNamespace:
        return SimpleNamespace(unload_model=lambda: freed.append(True), generate=generate)

    monkeypatch.setattr("ctranslate2.models.Whisper", load)
    with pytest.raises(OptionError, match="flash_attention=True: Flash attention 2"):
        cuda_engine(flash_attention=True)
    assert freed
    cuda_engine().close()  # without the option, nothing is tried


def test_a_moment_of_silence_is_decoded() -> None:
    """The trial of Flash Attention is a call that works with all builds and devices."""
    model = ModelInfo.read(find_model("tiny.en"), "tiny.en")
    engine = CTranslate2Engine(model, device="cpu")
    engine._try_flash_attention()
    engine.close()


def test_a_batch_on_cuda_has_one_thread_of_the_cpu(
    loaded: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("whisperbatch.engines.devices.available_cpus", lambda: 16)
    cuda_engine().close()
    assert loaded[0]["intra_threads"] == 1


@pytest.mark.usefixtures("loaded")
def test_threads_of_the_cpu_are_refused_on_cuda() -> None:
    with pytest.raises(OptionError, match="intra_threads=4 has no effect on CUDA"):
        cuda_engine(intra_threads=4)


@pytest.mark.usefixtures("loaded")
def test_the_batch_size_on_cuda_fits_the_smallest_device(monkeypatch: pytest.MonkeyPatch) -> None:
    memory: dict[int, int | None] = {0: 24 << 30, 1: 1 << 30, 2: None}
    monkeypatch.setattr("whisperbatch.engines.ctranslate2.engine.total_memory", memory.get)
    sizes = {
        devices: cuda_engine(device_index=devices).default_batch_size(hypotheses=5)
        for devices in ((0,), (1,), (0, 1), (0, 2))
    }
    assert sizes == {(0,): 64, (1,): 8, (0, 1): 8, (0, 2): 8}
    assert cuda_engine(device_index=1, inter_threads=4).default_batch_size(hypotheses=5) == 2
    assert cuda_engine(device_index=1, compute_type="float32").default_batch_size(5) == 4


@pytest.mark.usefixtures("loaded")
def test_a_gpu_with_little_memory_computes_one_batch_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two batches of tiny.en with fewer than 8 rows would read the weights more often."""
    memory: dict[int, int | None] = {0: 24 << 30, 1: 1 << 30, 2: 2 << 30, 3: None}
    monkeypatch.setattr("whisperbatch.engines.ctranslate2.engine.total_memory", memory.get)
    workers = {index: cuda_engine(device_index=index).workers for index in memory}
    assert workers == {0: 2, 1: 1, 2: 2, 3: 2}
    assert cuda_engine(device_index=(0, 1)).workers == 2  # the smallest decides for both
    assert cuda_engine(device_index=1, inter_threads=2).workers == 2


def test_the_batch_size_on_a_cpu_does_not_depend_on_the_search() -> None:
    model = ModelInfo.read(find_model("tiny.en"), "tiny.en")
    engine = CTranslate2Engine(model, device="cpu", load_weights=False)
    assert [engine.default_batch_size(hypotheses) for hypotheses in (1, 5, 100)] == [8, 8, 8]


@pytest.mark.usefixtures("loaded")
def test_features_are_in_float16_where_ctranslate2_computes_in_float16(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    types = ("float16", "int8_float16", "bfloat16", "int8", "float32")
    monkeypatch.setattr("ctranslate2.get_supported_compute_types", lambda *_: set(types))
    found = {name: cuda_engine(compute_type=name).feature_type for name in types}
    assert {name for name in types if found[name] is np.float16} == {"float16", "int8_float16"}
    assert {*found.values()} == {np.float16, np.float32}


def test_ctranslate2_encodes_features_in_float16(tmp_path: Path) -> None:
    model = ModelInfo.read(tiny_model(tmp_path / "model"), "small")
    engine = CTranslate2Engine(model, device="cpu")
    assert engine.feature_type is np.float32
    features = np.random.default_rng(0).normal(size=(2, 80, 200)).astype(np.float16)
    half, single = (
        to_array(check_encoded(engine.encode(features.astype(dtype)), EncodedView).view)
        for dtype in (np.float16, np.float32)
    )
    assert np.array_equal(half, single)


@pytest.mark.parametrize(
    ("compute_type", "weight_bytes", "value_bytes"),
    [
        ("float16", 2, 2),
        ("bfloat16", 2, 2),
        ("int8_float16", 1, 2),
        ("int8_bfloat16", 1, 2),
        ("int8", 1, 4),
        ("int8_float32", 1, 4),
        ("float32", 4, 4),
    ],
)
def test_the_compute_type_decides_the_bytes_of_weights_and_values(
    compute_type: str, weight_bytes: int, value_bytes: int
) -> None:
    expected = MemoryUse.of(MODELS["base"], weight_bytes=weight_bytes, value_bytes=value_bytes)
    assert memory_use(MODELS["base"], compute_type) == expected
