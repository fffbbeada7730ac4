"""Damaged and mixed model directories: each engine decodes, or raises a ModelError of one line."""

import json
import os
import struct
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.contract.engines import load_exact, requests_for
from tests.contract.mutated_models import decode, encode_silence
from tests.contract.tiny_model import (
    SIZES,
    TOKEN_IDS,
    config,
    tiny_model,
    tiny_transformers_model,
    vocabulary,
)
from whisperbatch import ModelError, Options
from whisperbatch.engines.loading import load_engine
from whisperbatch.models.model_bin import TIED_PROJECTION, write_model_bin

ROOT = Path(__file__).parents[2]
TORCH = pytest.param("torch", marks=[pytest.mark.torch, pytest.mark.slow])
ENGINES = ("ctranslate2", "openvino", "onnxruntime", TORCH)

Change = Callable[[Path], object]


def error_message(directory: Path, engine: str) -> str:
    with pytest.raises(ModelError) as caught:
        decode(directory, engine)
    message = str(caught.value)
    assert "\n" not in message
    assert str(directory) in message
    assert len(message) < 600 + len(str(directory))
    return message


def set_config(directory: Path, **values: Any) -> None:
    (directory / "config.json").write_text(json.dumps({**config(), **values}))


def set_vocabulary(directory: Path, tokens: list[Any]) -> None:
    (directory / "vocabulary.json").write_text(json.dumps(tokens))


def shift_timestamps(directory: Path) -> None:
    """Rename a token of the tokenizer, as if a token stood before the timestamps."""
    path = directory / "tokenizer.json"
    path.write_text(path.read_text().replace("<|startofprev|>", "<|0.00|>"))


def swap_tokens(directory: Path) -> None:
    path = directory / "tokenizer.json"
    text = path.read_text().replace("<|transcribe|>", "<|other|>")
    text = text.replace("<|notimestamps|>", "<|transcribe|>")
    path.write_text(text.replace("<|other|>", "<|notimestamps|>"))
    (directory / "vocabulary.json").unlink()
    (directory / "vocabulary.txt").write_text("\n".join(vocabulary()))


CHANGES: dict[str, tuple[Change, str]] = {
    "heads": (partial(set_config, alignment_heads=[[99, 99]]), "config.json: alignment_heads="),
    "negative heads": (
        partial(set_config, alignment_heads=[[-1, -1]]),
        "config.json: alignment_heads=",
    ),
    "suppressed tokens": (partial(set_config, suppress_ids=[10**9]), "config.json: suppress_ids="),
    "text for a token": (partial(set_config, suppress_ids=["a"]), "config.json: suppress_ids="),
    "first tokens": (
        partial(set_config, suppress_ids_begin=[10**9]),
        "config.json: suppress_ids_begin=",
    ),
    "languages": (partial(set_config, lang_ids=[10**9]), "config.json: lang_ids="),
    "short vocabulary": (
        partial(set_vocabulary, tokens=vocabulary()[: len(TOKEN_IDS)]),
        "vocabulary.json: has",
    ),
    "long vocabulary": (
        partial(set_vocabulary, tokens=[*vocabulary(), *"abcdefgh"]),
        "vocabulary.json: has",
    ),
    "shuffled vocabulary": (
        partial(set_vocabulary, tokens=[*vocabulary()[499::-1], *vocabulary()[500:]]),
        "vocabulary.json: is the vocabulary of another model",
    ),
    "moved special tokens": (
        partial(set_vocabulary, tokens=["new", *vocabulary()[:-1]]),
        "tokenizer.json: is the tokenizer of another model",
    ),
    "shifted timestamps": (shift_timestamps, "tokenizer.json: "),
    "swapped special tokens": (swap_tokens, "tokenizer.json: "),
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", CHANGES)
def test_values_of_another_model_are_refused(tmp_path: Path, engine: str, name: str) -> None:
    directory = tiny_model(tmp_path / "model")
    change, expected = CHANGES[name]
    change(directory)
    assert expected in error_message(directory, engine)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes")
@pytest.mark.parametrize("engine", ENGINES)
def test_a_named_pipe_does_not_block(tmp_path: Path, engine: str) -> None:
    """The engine loads in another process, which is killed if it waits."""
    directory = tiny_model(tmp_path / "model")
    code = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from whisperbatch import ModelError, load\n"
        "for path in sorted(Path(sys.argv[1]).iterdir()):\n"
        "    content = path.read_bytes()\n"
        "    path.unlink()\n"
        "    os.mkfifo(path)\n"
        "    try:\n"
        "        load(sys.argv[1], engine=sys.argv[2])\n"
        "    except ModelError as error:\n"
        "        print(error)\n"
        "    path.unlink()\n"
        "    path.write_bytes(content)\n"
    )
    command = [sys.executable, "-c", code, str(directory), engine]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout.splitlines() == [
        f"{path}: is not a regular file; replace it by the model's file"
        for path in sorted(directory.iterdir())
    ]


@pytest.mark.parametrize(
    ("engine", "first", "last"),
    [
        ("ctranslate2", 0, 40),
        ("openvino", 40, 60),
        ("onnxruntime", 60, 80),
        pytest.param("ctranslate2", 1000, 1200, marks=pytest.mark.slow),
        pytest.param("openvino", 2000, 2200, marks=pytest.mark.slow),
        pytest.param("onnxruntime", 5000, 5200, marks=pytest.mark.slow),
        pytest.param("torch", 3000, 3050, marks=[pytest.mark.torch, pytest.mark.slow]),
        pytest.param("transformers", 4000, 4050, marks=[pytest.mark.torch, pytest.mark.slow]),
    ],
)
def test_damaged_copies(tmp_path: Path, engine: str, first: int, last: int) -> None:
    write = tiny_transformers_model if engine == "transformers" else tiny_model
    directory = write(tmp_path / "model")
    name = "torch" if engine == "transformers" else engine
    module = "tests.contract.mutated_models"
    command = [sys.executable, "-m", module, str(directory), name, str(first), str(last)]
    environment = {**os.environ, "WHISPERBATCH_CACHE": str(tmp_path / "cache")}
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, env=environment
    )
    lines = done.stdout.splitlines()
    assert done.returncode == 0, f"{lines[-1:]}\n{done.stderr}"
    results = [line.partition(" -> ")[2][1:-1] for line in lines]
    assert len(results) == last - first
    assert {result.partition(": ")[0] for result in results} == {"decoded", "ModelError"}, lines
    assert not any("\\n" in result for result in results)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("field", [*config(), "all"])
def test_settings_may_be_missing(tmp_path: Path, engine: str, field: str) -> None:
    directory = tiny_model(tmp_path / "model")
    settings = {} if field == "all" else {k: v for k, v in config().items() if k != field}
    (directory / "config.json").write_text(json.dumps(settings))
    assert decode(directory, engine) == "decoded"


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("tokens", [None, [TOKEN_IDS["<|nospeech|>"], TOKEN_IDS["<|de|>"]]])
def test_only_languages_are_detected(tmp_path: Path, engine: str, tokens: Any) -> None:
    """The converter lists <|nospeech|> as a language if the model does not list languages."""
    directory = tiny_model(tmp_path / "model")
    set_config(directory, lang_ids=tokens)
    loaded = load_exact(directory, engine)
    [scores] = loaded.detect_language(encode_silence(loaded))
    assert "de" in scores
    assert "nospeech" not in scores
    assert sum(scores.values()) == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_shortened_decoder_with_the_heads_of_the_complete_one(
    tmp_path: Path, engine: str
) -> None:
    sizes = replace(SIZES, layers=4, decoder_layers=2)
    alignments = []
    for name, heads in (("complete", [[3, 0], [2, 1]]), ("none", None)):
        directory = tiny_model(tmp_path / name, sizes)
        set_config(directory, alignment_heads=heads)
        loaded = load_exact(directory, engine)
        options = Options(beam_size=1, max_new_tokens=8)
        requests = requests_for(loaded, [100], options)
        [row] = loaded.decode(encode_silence(loaded), requests, options.search)
        alignments.append(row.alignment.starts.tolist())
        loaded.close()
    assert alignments[0] == alignments[1] != []


@pytest.mark.parametrize("engine", ENGINES)
def test_equal_arrays_that_the_converter_stores_once(tmp_path: Path, engine: str) -> None:
    directory = tiny_model(tmp_path / "model")
    arrays = SIZES.arrays()
    name = "decoder/layer_{}/ffn/layer_norm/gamma"
    del arrays[name.format(1)]
    with (directory / "model.bin").open("wb") as file:
        write_model_bin(file, arrays, {**TIED_PROJECTION, name.format(1): name.format(0)})
    assert decode(directory, engine) == "decoded"


@pytest.mark.parametrize("engine", ENGINES)
def test_a_projection_that_is_not_the_embeddings(tmp_path: Path, engine: str) -> None:
    directory = tiny_model(tmp_path / "model")
    arrays = SIZES.arrays()
    embeddings = arrays["decoder/embeddings/weight"]
    for change in (0, 1):
        arrays["decoder/projection/weight"] = embeddings + np.float16(change)
        with (directory / "model.bin").open("wb") as file:
            write_model_bin(file, arrays, {})
        if change and engine != "ctranslate2":
            message = error_message(directory, engine)
            assert message.endswith('load the model with engine="ctranslate2"')
        else:
            assert decode(directory, engine) == "decoded"


def test_what_ctranslate2_refuses_is_one_line(tmp_path: Path) -> None:
    directory = tiny_model(tmp_path / "model")
    path = directory / "model.bin"
    data = path.read_bytes()
    revision = data.index(b"WhisperSpec\0") + len(b"WhisperSpec\0")
    path.write_bytes(data[:revision] + struct.pack("<I", 999) + data[revision + 4 :])
    message = error_message(directory, "ctranslate2")
    assert message.startswith(f"{directory}: the weights do not load: Unsupported model revision")


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "field", "value"),
    [
        ("config.json", "decoder_layers", 10**9),
        ("config.json", "decoder_layers", 3),
        ("config.json", "decoder_layers", 1),
        ("config.json", "encoder_layers", -1),
        ("config.json", "encoder_layers", 2.0),
        ("config.json", "decoder_attention_heads", 0),
        ("config.json", "decoder_attention_heads", 3),
        ("config.json", "model_type", ["whisper"]),
        ("generation_config.json", "suppress_tokens", ["a"]),
        ("generation_config.json", "begin_suppress_tokens", [10**9]),
        ("generation_config.json", "alignment_heads", [[99, 99]]),
        ("model.safetensors.index.json", "weight_map", {"a": "../../secret"}),
        ("model.safetensors.index.json", "weight_map", {"a": "other.safetensors"}),
        ("model.safetensors.index.json", "weight_map", ["a"]),
    ],
)
def test_settings_of_transformers(tmp_path: Path, file: str, field: str, value: Any) -> None:
    directory = tiny_transformers_model(tmp_path / "model")
    path = directory / file
    content = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps({**content, field: value}))
    error_message(directory, "torch")


@pytest.mark.torch
@pytest.mark.slow
def test_both_formats_give_the_same_tokens(tmp_path: Path) -> None:
    tokens = []
    for directory in (tiny_model(tmp_path / "a"), tiny_transformers_model(tmp_path / "b")):
        loaded = load_engine(directory, engine="torch", device="cpu", compute_type="float32")
        options = Options(beam_size=1, max_new_tokens=8)
        requests = requests_for(loaded, [100], options)
        [row] = loaded.decode(encode_silence(loaded), requests, options.search)
        tokens.append(row.hypothesis.tokens)
    assert tokens[0] == tokens[1]
