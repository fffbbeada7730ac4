"""Weights as transformers saves them (config.json, *.safetensors), by CTranslate2's names.

    CTranslate2                     transformers
    encoder/conv1/weight            model.encoder.conv1.weight
    .../layer_0/self_attention/     .layers.0
        linear_0  (3 d, d)              .self_attn.q_proj, .k_proj, .v_proj
        linear_1                        .self_attn.out_proj
    .../layer_0/attention/          .layers.0
        linear_0                        .encoder_attn.q_proj
        linear_1  (2 d, d)              .encoder_attn.k_proj, .v_proj

Queries, keys and values lie above each other in one matrix. Whisper's keys have no bias, so zeros
stand for it.
"""

import itertools
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch
from safetensors import safe_open

from whisperbatch.errors import ModelError

WEIGHTS: Final = "model.safetensors"
HALVES: Final = ("encoder", "decoder")
NORM: Final = {"gamma": "weight", "beta": "bias"}

LAYER: Final = {
    "self_attention/layer_norm": ("self_attn_layer_norm",),
    "self_attention/linear_0": tuple(f"self_attn.{part}_proj" for part in "qkv"),
    "self_attention/linear_1": ("self_attn.out_proj",),
    "attention/layer_norm": ("encoder_attn_layer_norm",),
    "attention/linear_0": ("encoder_attn.q_proj",),
    "attention/linear_1": ("encoder_attn.k_proj", "encoder_attn.v_proj"),
    "attention/linear_2": ("encoder_attn.out_proj",),
    "ffn/layer_norm": ("final_layer_norm",),
    "ffn/linear_0": ("fc1",),
    "ffn/linear_1": ("fc2",),
}
"""Of a layer: CTranslate2's name to those of the parts that are stacked in it."""

OUTSIDE: Final = {
    "encoder/conv1": "encoder.conv1",
    "encoder/conv2": "encoder.conv2",
    "encoder/layer_norm": "encoder.layer_norm",
    "decoder/layer_norm": "decoder.layer_norm",
    "decoder/embeddings": "decoder.embed_tokens",
}
POSITIONS: Final = "position_encodings/encodings"

SETTINGS: Final = {
    "suppress_ids": "suppress_tokens",
    "suppress_ids_begin": "begin_suppress_tokens",
    "alignment_heads": "alignment_heads",
}
"""Of a setting: its name in CTranslate2's config.json to that in generation_config.json."""


def stacked(layers: Mapping[str, int]) -> dict[str, tuple[str, ...]]:
    """CTranslate2's names of all arrays, with transformers' for what is stacked in each.

    Args:
        layers: of the "encoder" and of the "decoder".
    """
    modules: dict[str, tuple[str, ...]] = {ours: (theirs,) for ours, theirs in OUTSIDE.items()}
    for half, count in layers.items():
        for number, (ours, within) in itertools.product(range(count), LAYER.items()):
            if half == "decoder" or not ours.startswith("attention/"):
                theirs = tuple(f"{half}.layers.{number}.{part}" for part in within)
                modules[f"{half}/layer_{number}/{ours}"] = theirs
    found = {
        f"{ours}/{kind}": tuple(f"model.{one}.{NORM.get(kind, kind)}" for one in theirs)
        for ours, theirs in modules.items()
        for kind in (NORM if ours.endswith("layer_norm") else ("weight", "bias"))
    }
    del found["decoder/embeddings/bias"]
    positions = {f"{half}/{POSITIONS}": f"model.{half}.embed_positions.weight" for half in layers}
    return found | {ours: (theirs,) for ours, theirs in positions.items()}


class SavedArrays(Mapping[str, npt.NDArray[Any]]):
    """The arrays of a directory, by CTranslate2's names; each is read when it is asked for.

    Raises:
        ModelError: config.json is another model's.
        OSError: a file is missing.
        safetensors.SafetensorError: a file is damaged.
        LookupError: config.json does not say how many layers and heads there are.
    """

    def __init__(self, directory: Path) -> None:
        config = json.loads((directory / "config.json").read_bytes())
        if (kind := config.get("model_type")) != "whisper":
            raise ModelError(f"{directory}: holds a {kind!r} model, not Whisper's")
        self._stacked = stacked({half: config[f"{half}_layers"] for half in HALVES})
        self._heads = {
            f"{half}/num_heads": np.asarray(config[f"{half}_attention_heads"]) for half in HALVES
        }
        self._files = {
            name: file
            for path in weight_files(directory)
            for file in [safe_open(path, framework="pt")]
            for name in file.keys()  # noqa: SIM118 - it is no mapping
        }

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        """An array as it is stored; bfloat16, which numpy has not, in float32."""
        if name in self._heads:
            return self._heads[name]
        found = [self._read(part) for part in self._stacked[name]]
        return np.concatenate(found) if len(found) > 1 else found[0]

    def __iter__(self) -> Iterator[str]:
        """All names."""
        return itertools.chain(self._heads, self._stacked)

    def __len__(self) -> int:
        """How many there are."""
        return len(self._heads) + len(self._stacked)

    def _read(self, name: str) -> npt.NDArray[Any]:
        if name not in self._files and name.endswith("k_proj.bias"):
            return np.zeros_like(self._read(name.replace("k_proj", "v_proj")))
        found = self._files[name].get_tensor(name)
        array: npt.NDArray[Any] = (
            found.float() if found.dtype == torch.bfloat16 else found
        ).numpy()
        return array


def weight_files(directory: Path) -> list[Path]:
    """The files that the weights are in, one or several.

    Raises:
        OSError: the list of them is there and cannot be read.
        ValueError: it is damaged.
    """
    index = directory / f"{WEIGHTS}.index.json"
    if not index.exists():
        return [directory / WEIGHTS]
    return [
        directory / name
        for name in sorted(set(json.loads(index.read_bytes())["weight_map"].values()))
    ]


def read_settings(directory: Path) -> dict[str, Any]:
    """What CTranslate2's config.json would say; older models say it in their config.json.

    Raises:
        OSError: config.json cannot be read.
        ValueError: a file is damaged.
    """
    said = json.loads((directory / "config.json").read_bytes())
    if (generation := directory / "generation_config.json").exists():
        said |= json.loads(generation.read_bytes())
    return {ours: said.get(theirs) or [] for ours, theirs in SETTINGS.items()}
