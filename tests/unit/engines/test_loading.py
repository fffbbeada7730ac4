import sys
from typing import Any

import pytest

import whisperbatch as wb
from whisperbatch import MissingExtraError, OptionError


@pytest.mark.parametrize(
    ("keywords", "expected"),
    [
        ({"compile": True}, "compile=True"),
        ({"quantization": "int8"}, "quantization='int8'"),
        ({"group_size": 32}, "group_size=32"),
        ({"draft_model": "tiny.en"}, "draft_model='tiny.en'"),
        ({"engine": "torch", "encoder": "openvino"}, "encoder='openvino'"),
        ({"engine": "torch", "decoder": "ctranslate2"}, "decoder='ctranslate2'"),
        ({"engine": "torch", "inter_threads": 2}, "inter_threads=2"),
        ({"engine": "torch", "intra_threads": 2}, "intra_threads=2"),
    ],
)
def test_keywords_without_effect_on_the_engine_are_refused(
    keywords: dict[str, Any], expected: str
) -> None:
    engine = keywords.get("engine", "ctranslate2")
    with pytest.raises(OptionError, match=f"{expected} has no effect with engine='{engine}'"):
        wb.load("tiny.en", **keywords)


def test_an_unknown_engine_is_refused() -> None:
    with pytest.raises(OptionError, match="engine='jax' is none of ctranslate2, torch"):
        wb.load("tiny.en", engine="jax")  # type: ignore[arg-type]


def test_the_error_names_pytorchs_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "whisperbatch.engines.torch.engine", raising=False)
    with pytest.raises(MissingExtraError, match=r'pip install "whisperbatch\[torch\]"'):
        wb.load("tiny.en", engine="torch")


@pytest.mark.torch
@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"device_index": (0, 1)}, r"device_index=\(0, 1\): engine='torch' runs on one device"),
        ({"device_index": 3, "device": "cpu"}, "device_index=3 needs CUDA"),
        ({"device": "cuda", "device_index": 99}, "device='cuda' with device_index=99"),
        ({"compute_type": "int8"}, "compute_type='int8' is none of PyTorch's"),
        ({"compile": True, "device": "cpu"}, "compile=True needs CUDA"),
        ({"quantization": "int2"}, "quantization='int2' is none of None, hqq4, int8"),
        ({"quantization": "hqq4", "group_size": 48}, "group_size=48 is none of 32, 64, 128"),
        ({"group_size": 32}, "group_size=32 has no effect without quantization='hqq4'"),
        ({"quantization": "int8", "group_size": 128}, "group_size=128 has no effect"),
    ],
)
def test_options_that_pytorch_cannot_honour_are_refused(
    keywords: dict[str, Any], message: str
) -> None:
    with pytest.raises(OptionError, match=message):
        wb.load("tiny.en", engine="torch", **keywords)
