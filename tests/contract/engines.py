"""The engines of the contract tests, by name."""

from collections.abc import Callable
from functools import partial

import pytest
from tokenizers import Tokenizer

from tests.contract.known_text_engine import KnownTextEngine
from whisperbatch.engines.loading import load_engine
from whisperbatch.models import find_model
from whisperbatch.protocols import Engine


def load(model: str, engine: str, **settings: str) -> Engine:
    return load_engine(model, engine=engine, device="cpu", **settings)


SETTINGS = {
    "ctranslate2": ("ctranslate2", "auto"),
    "openvino": ("openvino", "auto"),
    "onnxruntime": ("onnxruntime", "int8"),
}
"""An engine and a compute type, by the name of both."""

ENGINES: dict[str, Callable[[], Engine]] = {
    **{
        f"{name} {model}": partial(load, model, engine, compute_type=compute_type)
        for name, (engine, compute_type) in SETTINGS.items()
        for model in ("tiny.en", "base")
    },
    "known text": lambda: KnownTextEngine(base_tokenizer()),
}


def base_tokenizer() -> Tokenizer:
    return Tokenizer.from_file(str(find_model("base") / "tokenizer.json"))


def load_torch(model: str, compute_type: str) -> Engine:
    return load(model, "torch", compute_type=compute_type)


TORCH: dict[str, Callable[[], Engine]] = {
    "torch tiny.en": lambda: load_torch("tiny.en", "float32"),
    "torch base": lambda: load_torch("base", "bfloat16"),
}
ENGINES |= TORCH
MARKS = (
    (pytest.mark.torch, tuple(TORCH)),
    (
        pytest.mark.slow,
        ("ctranslate2 base", "openvino tiny.en", "onnxruntime tiny.en"),
    ),
)
