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
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch
from safetensors import safe_open

from whisperbatch.engines.arrays import count_layers
from whisperbatch.errors import ModelError
from whisperbatch.models.files import one_line, open_regular, read_json
from whisperbatch.models.model_bin import Variable

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

FILE_NAME: Final = re.compile(r"[\w.-]+\.safetensors")
MAX_COUNT: Final = 1000  # layers, or heads; large-v3 has 32 and 20
TYPE_NUMBERS: Final = {"F32": 0, "F16": 4, "BF16": 5, "int": 3}  # see model_bin.py

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
        ModelError: a file is missing or damaged, or config.json describes a model that is not
            Whisper's.
    """

    def __init__(self, directory: Path) -> None:
        self._config = path = directory / "config.json"
        config = read_json(path, dict)
        if (kind := config.get("model_type")) != "whisper":
            raise ModelError(f"{directory}: holds a {str(kind)[:40]!r} model, not Whisper's")
        self._sources = source_arrays(
            {part: _count(config, f"{part}_layers", path) for part in PARTS}
        )
        self._heads = {
            f"{part}/num_heads": np.asarray(_count(config, f"{part}_attention_heads", path))
            for part in PARTS
        }
        self._files = {
            name: file
            for path in weight_files(directory)
            for file in [_open(path)]
            for name in file.keys()  # noqa: SIM118 - a safetensors file is not a mapping
        }

    def headers(self) -> dict[str, Variable]:
        """Return shape and type of each array. An array of another type than floats has type 3.

        Raises:
            ModelError: the files lack an array, or have more layers than config.json says.
        """
        for part in PARTS:
            layers = count_layers(self._sources, part)
            if f"model.{part}.layers.{layers}.fc1.weight" in self._files:
                raise ModelError(
                    f"{self._config}: {part}_layers={layers} is less than the weights have; copy "
                    "the file from the source of the model"
                )
        headers = {
            name: Variable(name, (), TYPE_NUMBERS["int"], value=float(heads))
            for name, heads in self._heads.items()
        }
        for name, sources in self._sources.items():
            stored = [source for source in sources if source in self._files]
            if missing := [s for s in sources if s not in stored and not _is_optional(s)]:
                raise ModelError(
                    f"{self._config.parent}: the weights have no {missing[0]!r}; download or "
                    "convert the model again"
                )
            slices = [self._files[source].get_slice(source) for source in stored]
            types = {TYPE_NUMBERS.get(part.get_dtype(), TYPE_NUMBERS["int"]) for part in slices}
            shapes = [tuple(part.get_shape()) for part in slices]
            if len({shape[1:] for shape in shapes}) > 1 or not all(shapes):
                raise ModelError(
                    f"{self._config.parent}: {sources[0]!r} has a wrong shape, one of {shapes}; "
                    "download or convert the model again"
                )
            rows = sum(shape[0] for shape in shapes) * len(sources) // len(stored)
            headers[name] = Variable(name, (rows, *shapes[0][1:]), max(types))
        return headers

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
        if source not in self._files and _is_optional(source):
            return np.zeros_like(self._read(source.replace("k_proj", "v_proj")))
        tensor = self._files[source].get_tensor(source)
        if tensor.dtype == torch.bfloat16:
            tensor = tensor.float()
        array: npt.NDArray[Any] = tensor.numpy()
        return array


def weight_files(directory: Path) -> list[Path]:
    """Return the paths of the safetensors files of a model, one or several.

    Raises:
        ModelError: the index of the files is damaged.
    """
    index = directory / f"{WEIGHTS}.index.json"
    if not index.exists():
        return [directory / WEIGHTS]
    weight_map = read_json(index, dict).get("weight_map")
    names = list(weight_map.values()) if isinstance(weight_map, dict) else []
    if not names or not all(isinstance(name, str) and FILE_NAME.fullmatch(name) for name in names):
        raise ModelError(f"{index}: lists no safetensors files; download it again")
    return [directory / name for name in sorted(set(names))]


def _open(path: Path) -> Any:  # noqa: ANN401 - untyped
    """Open a safetensors file, which is mapped into memory."""
    with open_regular(path):
        pass
    try:
        return safe_open(path, framework="pt")
    except Exception as error:  # SafetensorError, and the errors of the operating system
        raise ModelError(f"{path}: is damaged ({one_line(error)}); download it again") from error


def _is_optional(source: str) -> bool:
    """Return whether transformers leaves an array out: Whisper's key projection has no bias."""
    return source.endswith("k_proj.bias")


def _count(config: Mapping[str, Any], field: str, path: Path) -> int:
    value = config.get(field)
    if type(value) is not int or not 1 <= value <= MAX_COUNT:
        raise ModelError(
            f"{path}: {field}={str(value)[:40]} is not a number from 1 to {MAX_COUNT}; copy the "
            "file from the source of the model"
        )
    return value


def settings_file(directory: Path) -> Path:
    """Return the file with the settings: generation_config.json; in older models config.json."""
    generation = directory / "generation_config.json"
    return generation if generation.exists() else directory / "config.json"


def read_settings(directory: Path) -> dict[str, Any]:
    """Return the settings by the names of CTranslate2's config.json.

    They are read from generation_config.json; older models have them in config.json.

    Raises:
        ModelError: a file cannot be read, or is damaged.
    """
    settings = read_json(directory / "config.json", dict)
    settings |= read_json(settings_file(directory), dict)
    return {name: settings.get(source) or [] for name, source in SETTINGS.items()}
