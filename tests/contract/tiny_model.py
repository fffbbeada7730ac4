"""A complete model directory of 2 MB that loads in milliseconds."""

import json
from pathlib import Path
from typing import Any, Final

import numpy as np

from tests.unit.small_tokenizers import small_tokenizer
from whisperbatch.models.architecture import RandomModel
from whisperbatch.models.model_bin import write_model_bin
from whisperbatch.models.tokenizer import TIMESTAMPS

TOKENIZER: Final = small_tokenizer(multilingual=True)
TOKEN_IDS: Final = TOKENIZER.get_vocab()
SIZES: Final = RandomModel(
    d_model=16,
    heads=2,
    layers=2,
    vocabulary_size=51_870,  # multilingual, and padded
    text_tokens=TOKEN_IDS["<|endoftext|>"],
)


def config() -> dict[str, Any]:
    """The content of config.json."""
    first = TOKEN_IDS["<|startoftranscript|>"] + 1
    return {
        "suppress_ids": [1, 2, 7],
        "suppress_ids_begin": [220, TOKEN_IDS["<|endoftext|>"]],
        "lang_ids": list(range(first, TOKEN_IDS["<|translate|>"])),
        "alignment_heads": [[1, 0], [1, 1]],
    }


def vocabulary() -> list[str]:
    """The content of vocabulary.json, padded to the size of the weights as in conversions.

    CTranslate2 recognises a multilingual model by its empty token.
    """
    tokens = ["", *sorted(TOKEN_IDS, key=TOKEN_IDS.__getitem__)[1:]]
    timestamps = [f"<|{step / 50:.2f}|>" for step in range(TIMESTAMPS)]
    padding = range(SIZES.vocabulary_size - len(tokens) - len(timestamps))
    return [*tokens, *timestamps, *(f"madeupword{number:04d}" for number in padding)]


def tiny_model(target: Path, sizes: RandomModel = SIZES, **arrays: Any) -> Path:
    """Write the directory; `arrays` replaces arrays, and None removes one."""
    target.mkdir(parents=True)
    changed = sizes.arrays()
    changed["decoder/embeddings/weight"][len(TOKEN_IDS) + TIMESTAMPS :] = 0  # improbable tokens
    changed |= arrays
    with (target / "model.bin").open("wb") as file:
        write_model_bin(file, {name: array for name, array in changed.items() if array is not None})
    (target / "config.json").write_text(json.dumps(config()))
    (target / "vocabulary.json").write_text(json.dumps(vocabulary()))
    (target / "tokenizer.json").write_text(TOKENIZER.to_str())
    return target


def tiny_transformers_model(target: Path) -> Path:
    """Write the same model in the format of transformers. Needs PyTorch."""
    from safetensors.numpy import save_file  # noqa: PLC0415 - an extra

    from whisperbatch.engines.torch.transformers_weights import (  # noqa: PLC0415
        SETTINGS,
        source_arrays,
    )

    target.mkdir(parents=True)
    arrays = SIZES.arrays()
    layers = {part: SIZES.layers_of(part) for part in ("encoder", "decoder")}
    stored = {
        source: np.ascontiguousarray(part)
        for name, sources in source_arrays(layers).items()
        for source, part in zip(sources, np.split(arrays[name], len(sources)), strict=True)
    }
    save_file(stored, target / "model.safetensors")
    settings: dict[str, Any] = {"model_type": "whisper"}
    for part, count in layers.items():
        settings |= {f"{part}_layers": count, f"{part}_attention_heads": SIZES.heads}
    (target / "config.json").write_text(json.dumps(settings))
    generation = {source: config()[name] for name, source in SETTINGS.items()}
    (target / "generation_config.json").write_text(json.dumps(generation))
    (target / "tokenizer.json").write_text(TOKENIZER.to_str())
    return target
