"""Weights that transformers saved (config.json, *.safetensors), by CTranslate2's names.

    CTranslate2                     transformers
    encoder/conv1/weight            model.encoder.conv1.weight
    .../layer_0/self_attention/     .layers.0
        linear_0  (3 d, d)              .self_attn.q_proj, .k_proj, .v_proj
        linear_1                        .self_attn.out_proj
    .../layer_0/attention/          .layers.0
        linear_0                        .encoder_attn.q_proj
        linear_1  (2 d, d)              .encoder_attn.k_proj, .v_proj

CTranslate2 stacks the projections of queries, keys and values in one matrix, and their biases in
one vector. Whisper's key projection has no bias; its part of the vector is zeros.
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
PARTS: Final = ("encoder", "decoder")
NORM: Final = {"gamma": "weight", "beta": "bias"}

LAYER: Final = {
    "self_attention/layer_norm": ("self_attn_layer_norm",),
    "self_attention/linear_0": tuple(f"self_attn.{kind}_proj" for kind in "qkv"),
    "self_attention/linear_1": ("self_attn.out_proj",),
    "attention/layer_norm": ("encoder_attn_layer_norm",),
    "attention/linear_0": ("encoder_attn.q_proj",),
    "attention/linear_1": ("encoder_attn.k_proj", "encoder_attn.v_proj"),
    "attention/linear_2": ("encoder_attn.out_proj",),
    "ffn/layer_norm": ("final_layer_norm",),
    "ffn/linear_0": ("fc1",),
    "ffn/linear_1": ("fc2",),
}
"""Modules of a layer: CTranslate2's name, and transformers' names of the modules stacked in it."""

OUTSIDE_LAYERS: Final = {
    "encoder/conv1": "encoder.conv1",
    "encoder/conv2": "encoder.conv2",
    "encoder/layer_norm": "encoder.layer_norm",
    "decoder/layer_norm": "decoder.layer_norm",
    "decoder/embeddings": "decoder.embed_tokens",
}
"""Modules outside the layers: CTranslate2's name, and transformers' name."""

POSITIONS: Final = "position_encodings/encodings"

SETTINGS: Final = {
    "suppress_ids": "suppress_tokens",
    "suppress_ids_begin": "begin_suppress_tokens",
    "alignment_heads": "alignment_heads",
}
"""Settings: the name in CTranslate2's config.json, and the name in generation_config.json."""


def source_arrays(layers: Mapping[str, int]) -> dict[str, tuple[str, ...]]:
    """Return, for each of CTranslate2's arrays, transformers' arrays that are stacked in it.

    Args:
        layers: number of layers of the "encoder" and of the "decoder".
    """
    modules: dict[str, tuple[str, ...]] = {
        name: (source,) for name, source in OUTSIDE_LAYERS.items()
    }
    for part, count in layers.items():
        for number, (name, sources) in itertools.product(range(count), LAYER.items()):
            if part == "decoder" or not name.startswith("attention/"):
                modules[f"{part}/layer_{number}/{name}"] = tuple(
                    f"{part}.layers.{number}.{source}" for source in sources
                )
    arrays = {
        f"{name}/{kind}": tuple(f"model.{source}.{NORM.get(kind, kind)}" for source in sources)
        for name, sources in modules.items()
        for kind in (NORM if name.endswith("layer_norm") else ("weight", "bias"))
    }
    del arrays["decoder/embeddings/bias"]
    for part in layers:
        arrays[f"{part}/{POSITIONS}"] = (f"model.{part}.embed_positions.weight",)
    return arrays


class SafetensorsArrays(Mapping[str, npt.NDArray[Any]]):
    """The arrays of a directory, by CTranslate2's names. Each access reads the array from its file.

    Raises:
        ModelError: config.json describes a model that is not Whisper's.
        OSError: a file is missing.
        safetensors.SafetensorError: a file is damaged.
        LookupError: config.json lacks the number of layers or heads.
    """

    def __init__(self, directory: Path) -> None:
        config = json.loads((directory / "config.json").read_bytes())
        if (kind := config.get("model_type")) != "whisper":
            raise ModelError(f"{directory}: holds a {kind!r} model, not Whisper's")
        self._sources = source_arrays({part: config[f"{part}_layers"] for part in PARTS})
        self._heads = {
            f"{part}/num_heads": np.asarray(config[f"{part}_attention_heads"]) for part in PARTS
        }
        self._files = {
            name: file
            for path in weight_files(directory)
            for file in [safe_open(path, framework="pt")]
            for name in file.keys()  # noqa: SIM118 - a safetensors file is not a mapping
        }

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        """Return an array in its stored type; bfloat16, which NumPy lacks, in float32."""
        if name in self._heads:
            return self._heads[name]
        arrays = [self._read(source) for source in self._sources[name]]
        return np.concatenate(arrays) if len(arrays) > 1 else arrays[0]

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names of all arrays."""
        return itertools.chain(self._heads, self._sources)

    def __len__(self) -> int:
        """Return the number of arrays."""
        return len(self._heads) + len(self._sources)

    def _read(self, source: str) -> npt.NDArray[Any]:
        if source not in self._files and source.endswith("k_proj.bias"):
            return np.zeros_like(self._read(source.replace("k_proj", "v_proj")))
        tensor = self._files[source].get_tensor(source)
        if tensor.dtype == torch.bfloat16:
            tensor = tensor.float()
        array: npt.NDArray[Any] = tensor.numpy()
        return array


def weight_files(directory: Path) -> list[Path]:
    """Return the paths of the safetensors files of a model, one or several.

    Raises:
        OSError: the index of the files exists, but cannot be read.
        ValueError: the index is damaged.
    """
    index = directory / f"{WEIGHTS}.index.json"
    if not index.exists():
        return [directory / WEIGHTS]
    return [
        directory / name
        for name in sorted(set(json.loads(index.read_bytes())["weight_map"].values()))
    ]


def read_settings(directory: Path) -> dict[str, Any]:
    """Return the settings by the names of CTranslate2's config.json.

    They are read from generation_config.json; older models have them in config.json.

    Raises:
        OSError: config.json cannot be read.
        ValueError: a file is damaged.
    """
    settings = json.loads((directory / "config.json").read_bytes())
    if (generation := directory / "generation_config.json").exists():
        settings |= json.loads(generation.read_bytes())
    return {name: settings.get(source) or [] for name, source in SETTINGS.items()}
