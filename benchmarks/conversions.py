"""CTranslate2's Whisper weights with the names that other programs use.

    CTranslate2                     openai-whisper, whisper.cpp    transformers
    encoder/conv1/weight            encoder.conv1.weight           model.encoder.conv1.weight
    .../layer_0/self_attention/     .blocks.0                      .layers.0
        linear_0  (3 d, d)              .attn.query, .key, .value      .self_attn.q_proj, ...
        linear_1                        .attn.out                      .self_attn.out_proj
    .../layer_0/attention/          .blocks.0                      .layers.0
        linear_0                        .cross_attn.query              .encoder_attn.q_proj
        linear_1  (2 d, d)              .cross_attn.key, .value        .encoder_attn.k_proj, ...

CTranslate2 stacks queries, keys and values in one matrix. Whisper's keys have no bias; CTranslate2
stores zeros in its place. (A bias of the keys would not change the softmax of the scores.)
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

HEAD_SIZE: Final = 64  # of every attention head, in all Whisper models
NORM_NAMES: Final = {"gamma": "weight", "beta": "bias"}
ATTENTION_PARTS: Final = ("query", "key", "value")

LAYER_NAMES: Final = {
    "self_attention/layer_norm": ("attn_ln",),
    "self_attention/linear_0": tuple(f"attn.{part}" for part in ATTENTION_PARTS),
    "self_attention/linear_1": ("attn.out",),
    "attention/layer_norm": ("cross_attn_ln",),
    "attention/linear_0": ("cross_attn.query",),
    "attention/linear_1": ("cross_attn.key", "cross_attn.value"),
    "attention/linear_2": ("cross_attn.out",),
    "ffn/layer_norm": ("mlp_ln",),
    "ffn/linear_0": ("mlp.0",),
    "ffn/linear_1": ("mlp.2",),
}
"""CTranslate2's names in a layer, with the openai-whisper names of the arrays stacked in each."""

MODULE_NAMES: Final = {
    "encoder/conv1": "encoder.conv1",
    "encoder/conv2": "encoder.conv2",
    "encoder/layer_norm": "encoder.ln_post",
    "decoder/layer_norm": "decoder.ln",
    "decoder/embeddings": "decoder.token_embedding",
}
POSITIONS: Final = "position_encodings/encodings"

TRANSFORMERS_NAMES: Final = {
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
"""Parts of openai-whisper's names with those of transformers, where they differ."""


class ConversionError(RuntimeError):
    """Weights cannot be converted for another program; the message says why."""


@dataclass(frozen=True, slots=True)
class Dimensions:
    """The sizes of a model, with openai-whisper's names."""

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
    """Return the memory-mapped arrays of a model, by their names in openai-whisper's state.

    Args:
        directory: directory of CTranslate2 weights in floating point.

    Raises:
        ConversionError: the weights are quantized.
    """
    arrays: dict[str, npt.NDArray[Any]] = {}
    for name, array in read_arrays(directory / "model.bin", "").items():
        if names := _openai_names(name):
            if array.dtype.kind != "f":
                raise ConversionError(
                    f"{directory}: the weights are quantized; use weights in float16"
                )
            arrays.update(zip(names, np.split(array, len(names)), strict=True))
    return {name: array for name, array in arrays.items() if not name.endswith(".key.bias")}


def _openai_names(name: str) -> tuple[str, ...]:
    """Return the names of the arrays stacked in an array; none for a setting."""
    part, _, within = name.partition("/")
    if within == POSITIONS:
        return (f"{part}.positional_embedding",)
    module, _, parameter = name.rpartition("/")
    parameter = NORM_NAMES.get(parameter, parameter)
    if module in MODULE_NAMES:
        return (f"{MODULE_NAMES[module]}.{parameter}",)
    layer, _, within = within.rpartition("/")[0].partition("/")
    number = layer.removeprefix("layer_")
    stacked = LAYER_NAMES.get(within, ())
    return tuple(f"{part}.blocks.{number}.{array}.{parameter}" for array in stacked)


def for_transformers(arrays: Arrays) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays of `read_openai` as the state of a WhisperForConditionalGeneration."""
    state = {}
    for name, array in arrays.items():
        parts = name.replace("mlp.0", "fc1").replace("mlp.2", "fc2").split(".")
        state[".".join(["model", *(TRANSFORMERS_NAMES.get(part, part) for part in parts)])] = array
    # Whisper uses the same weights for the token embedding and the output projection.
    state["proj_out.weight"] = arrays["decoder.token_embedding.weight"]
    return state


def dimensions(arrays: Arrays) -> Dimensions:
    """Return the sizes of a model from the arrays of `read_openai`."""
    audio, n_mels, _ = arrays["encoder.conv1.weight"].shape
    n_vocab, text = arrays["decoder.token_embedding.weight"].shape
    return Dimensions(
        n_mels=n_mels,
        n_audio_ctx=len(arrays["encoder.positional_embedding"]),
        n_audio_state=audio,
        n_audio_head=audio // HEAD_SIZE,
        n_audio_layer=_layers(arrays, "encoder"),
        n_vocab=n_vocab,
        n_text_ctx=len(arrays["decoder.positional_embedding"]),
        n_text_state=text,
        n_text_head=text // HEAD_SIZE,
        n_text_layer=_layers(arrays, "decoder"),
    )


def _layers(arrays: Arrays, part: str) -> int:
    return len({name.split(".")[2] for name in arrays if name.startswith(f"{part}.blocks.")})


def read_vocabulary(directory: Path) -> list[bytes]:
    """Return the bytes of each text token, in the order of token ids: all before end-of-text."""
    tokenizer = json.loads((directory / "tokenizer.json").read_bytes())
    (end,) = (
        token["id"] for token in tokenizer["added_tokens"] if token["content"] == "<|endoftext|>"
    )
    byte_of = {letter: byte for byte, letter in enumerate(_letters())}
    tokens = sorted((token, text) for text, token in tokenizer["model"]["vocab"].items())
    return [bytes(byte_of[letter] for letter in text) for token, text in tokens if token < end]


def _letters() -> Iterator[str]:
    """Yield the letter that represents each byte in a byte-level vocabulary (GPT-2's).

    A printable byte is its letter in Latin-1; all other bytes have the letters from 256 on.
    """
    next_letter = 256
    for byte in range(256):
        printable = 33 <= byte <= 126 or 161 <= byte <= 255
        if printable and byte != 173:  # the soft hyphen is invisible
            yield chr(byte)
        else:
            yield chr(next_letter)
            next_letter += 1
