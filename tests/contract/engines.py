"""The engines of the contract tests: their names, encoder outputs and decode requests."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from tokenizers import Tokenizer

from tests.contract.known_text_engine import KnownTextEngine
from whisperbatch.decoding.prompts import WhisperTokenizer
from whisperbatch.engines.ctranslate2.engine import EncodedView, to_array
from whisperbatch.engines.loading import load_engine
from whisperbatch.engines.onnx.encoder import EncoderOutput
from whisperbatch.models import find_model
from whisperbatch.options import Options
from whisperbatch.protocols import DecodeRequest, Encoded, Engine


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
    (pytest.mark.slow, ("ctranslate2 base", "openvino tiny.en", "onnxruntime tiny.en")),
)


def output_of(encoded: Encoded) -> npt.NDArray[np.float32]:
    """Encoder output in float32, shape (rows, positions, d_model)."""
    if isinstance(encoded, EncodedView):
        return to_array(encoded.view)
    if isinstance(encoded, EncoderOutput):
        return encoded.by_position()
    output: Any = encoded.output  # type: ignore[attr-defined]  # PyTorch's
    return np.asarray(output.float() if hasattr(output, "float") else output)


def load_exact(directory: Path, engine: str) -> Engine:
    compute_type = "int8" if engine in {"onnxruntime", "openvino"} else "float32"
    return load_engine(directory, engine=engine, device="cpu", compute_type=compute_type)


def requests_for(engine: Engine, frames: Sequence[int], options: Options) -> list[DecodeRequest]:
    """One request for each row; English, with timestamp tokens and a prefix by the options."""
    tokenizer = whisper_tokenizer(engine)
    start = tuple(tokenizer.prompt("en", "transcribe"))
    prompt = (*start, tokenizer.no_timestamps) if options.timestamps == "alignment" else start
    prefix = tuple(tokenizer.encode(options.prefix)) if options.prefix else ()
    if prefix and options.timestamps == "tokens":
        prefix = (tokenizer.no_timestamps + 1, *prefix)  # <|0.00|>
    return [DecodeRequest((*prompt, *prefix), start, prefix, count) for count in frames]


def whisper_tokenizer(engine: Engine) -> WhisperTokenizer:
    return WhisperTokenizer(engine.tokenizer, multilingual=engine.is_multilingual)
