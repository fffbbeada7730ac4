from types import SimpleNamespace
from typing import Any

import pytest

from whisperbatch import OptionError
from whisperbatch.engines.ctranslate2.engine import CTranslate2Engine
from whisperbatch.engines.model_info import ModelInfo
from whisperbatch.engines.settings import CTranslate2Settings
from whisperbatch.models import find_model


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The arguments with which CTranslate2 loads models, on a machine with two CUDA devices."""
    calls: list[dict[str, Any]] = []

    def load(directory: str, **arguments: Any) -> SimpleNamespace:
        calls.append({"directory": directory, **arguments})
        return SimpleNamespace(unload_model=lambda: None)

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


def test_every_device_gets_the_weights_and_its_batches(loaded: list[dict[str, Any]]) -> None:
    engine = cuda_engine(device_index=(0, 1), inter_threads=2)
    assert loaded[0]["device_index"] == [0, 1]
    assert loaded[0]["compute_type"] == "float16"
    assert engine.workers == 4


@pytest.mark.usefixtures("loaded")
def test_threads_of_the_cpu_are_refused_on_cuda() -> None:
    with pytest.raises(OptionError, match="intra_threads=4 has no effect on CUDA"):
        cuda_engine(intra_threads=4)
