"""CTranslate2's Whisper weights under the names that other programs know them by.

    CTranslate2                     openai-whisper, whisper.cpp    transformers
    encoder/conv1/weight            encoder.conv1.weight           model.encoder.conv1.weight
    .../layer_0/self_attention/     .blocks.0                      .layers.0
        linear_0  (3 d, d)              .attn.query, .key, .value      .self_attn.q_proj, ...
        linear_1                        .attn.out                      .self_attn.out_proj
    .../layer_0/attention/          .blocks.0                      .layers.0
        linear_0                        .cross_attn.query              .encoder_attn.q_proj
        linear_1  (2 d, d)              .cross_attn.key, .value        .encoder_attn.k_proj, ...

Queries, keys and values lie above each other in one matrix. Whisper's keys have no bias: what is
stored for it is zeros, and no other value would change what the softmax makes of the scores.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from whisperbatch.models.model_bin import read_arrays

Arrays: TypeAlias = Mapping[str, npt.NDArray[Any]]

HEAD: Final = 64  # values a head, in all of Whisper's models
NORM: Final = {"gamma": "weight", "beta": "bias"}
ATTENTION: Final = ("query", "key", "value")

LAYER: Final = {
    "self_attention/layer_norm": ("attn_ln",),
    "self_attention/linear_0": tuple(f"attn.{part}" for part in ATTENTION),
    "self_attention/linear_1": ("attn.out",),
    "attention/layer_norm": ("cross_attn_ln",),
    "attention/linear_0": ("cross_attn.query",),
    "attention/linear_1": ("cross_attn.key", "cross_attn.value"),
    "attention/linear_2": ("cross_attn.out",),
    "ffn/layer_norm": ("mlp_ln",),
    "ffn/linear_0": ("mlp.0",),
    "ffn/linear_1": ("mlp.2",),
}
"""Of a layer: CTranslate2's name to those of the parts that are stacked in it."""

OUTSIDE: Final = {
    "encoder/conv1": "encoder.conv1",
    "encoder/conv2": "encoder.conv2",
    "encoder/layer_norm": "encoder.ln_post",
    "decoder/layer_norm": "decoder.ln",
    "decoder/embeddings": "decoder.token_embedding",
}
POSITIONS: Final = "position_encodings/encodings"

TRANSFORMERS: Final = {
    "blocks": "layers",
    "attn": "self_attn",
    "cross_attn": "encoder_attn",
    "attn_ln": "self_attn_layer_norm",
    "cross_attn_ln": "encoder_attn_layer_norm",
    "mlp_ln": "final_layer_norm",
    "ln": "layer_norm",
    "ln_post": "layer_norm",
    "query": "q_proj",
    "key": "k_proj",
    "value": "v_proj",
    "out": "out_proj",
    "token_embedding": "embed_tokens",
    "positional_embedding": "embed_positions.weight",
}
"""A part of openai-whisper's name to that of transformers, where they differ."""


class ConversionError(RuntimeError):
    """Weights that another program cannot be given; the message says why."""


@dataclass(frozen=True, slots=True)
class Dimensions:
    """Sizes of a model, by openai-whisper's names."""

    n_mels: int
    n_audio_ctx: int
    n_audio_state: int
    n_audio_head: int
    n_audio_layer: int
    n_vocab: int
    n_text_ctx: int
    n_text_state: int
    n_text_head: int
    n_text_layer: int


def read_openai(directory: Path) -> dict[str, npt.NDArray[Any]]:
    """Arrays as they are stored, mapped and not read, by the names in openai-whisper's state.

    Args:
        directory: of CTranslate2 weights, in floats.

    Raises:
        ConversionError: they are quantized.
    """
    found: dict[str, npt.NDArray[Any]] = {}
    for name, array in read_arrays(directory / "model.bin", "").items():
        if parts := _openai(name):
            if array.dtype.kind != "f":
                raise ConversionError(f"{directory}: is quantized; give the weights in float16")
            found.update(zip(parts, np.split(array, len(parts)), strict=True))
    return {name: array for name, array in found.items() if not name.endswith(".key.bias")}


def _openai(name: str) -> tuple[str, ...]:
    """The names of what is stacked in an array; none for a setting."""
    half, _, within = name.partition("/")
    if within == POSITIONS:
        return (f"{half}.positional_embedding",)
    module, _, kind = name.rpartition("/")
    kind = NORM.get(kind, kind)
    if module in OUTSIDE:
        return (f"{OUTSIDE[module]}.{kind}",)
    layer, _, within = within.rpartition("/")[0].partition("/")
    number = layer.removeprefix("layer_")
    return tuple(f"{half}.blocks.{number}.{part}.{kind}" for part in LAYER.get(within, ()))


def for_transformers(arrays: Arrays) -> dict[str, npt.NDArray[Any]]:
    """The arrays of `read_openai` as the state of a WhisperForConditionalGeneration."""
    found = {}
    for name, array in arrays.items():
        parts = name.replace("mlp.0", "fc1").replace("mlp.2", "fc2").split(".")
        found[".".join(["model", *(TRANSFORMERS.get(part, part) for part in parts)])] = array
    found["proj_out.weight"] = arrays["decoder.token_embedding.weight"]  # on the way out as in
    return found


def dimensions(arrays: Arrays) -> Dimensions:
    """Sizes of the model that `read_openai` has read."""
    audio, n_mels, _ = arrays["encoder.conv1.weight"].shape
    n_vocab, text = arrays["decoder.token_embedding.weight"].shape
    return Dimensions(
        n_mels=n_mels,
        n_audio_ctx=len(arrays["encoder.positional_embedding"]),
        n_audio_state=audio,
        n_audio_head=audio // HEAD,
        n_audio_layer=_layers(arrays, "encoder"),
        n_vocab=n_vocab,
        n_text_ctx=len(arrays["decoder.positional_embedding"]),
        n_text_state=text,
        n_text_head=text // HEAD,
        n_text_layer=_layers(arrays, "decoder"),
    )


def _layers(arrays: Arrays, half: str) -> int:
    return len({name.split(".")[2] for name in arrays if name.startswith(f"{half}.blocks.")})


def read_vocabulary(directory: Path) -> list[bytes]:
    """The bytes that each token of text stands for, by number: all before end-of-text."""
    known = json.loads((directory / "tokenizer.json").read_bytes())
    (end,) = (one["id"] for one in known["added_tokens"] if one["content"] == "<|endoftext|>")
    value = {letter: byte for byte, letter in enumerate(_letters())}
    tokens = sorted((number, text) for text, number in known["model"]["vocab"].items())
    return [bytes(value[letter] for letter in text) for number, text in tokens if number < end]


def _letters() -> Iterator[str]:
    """The letter that stands for each byte in a vocabulary of GPT-2's kind.

    A byte that is printed in Latin-1 stands for itself; the others have the letters from 256 on.
    """
    spare = 256
    for byte in range(256):
        printed = 33 <= byte <= 126 or 161 <= byte <= 255
        if printed and byte != 173:  # the soft hyphen is not seen
            yield chr(byte)
        else:
            yield chr(spare)
            spare += 1
