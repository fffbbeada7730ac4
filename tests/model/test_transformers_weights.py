"""Weights as transformers saves them: written here from the real ones, under its names."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import whisperbatch as wb
from benchmarks import conversions, recordings
from whisperbatch.models.model_bin import fingerprint, read_arrays
from whisperbatch.models.registry import find_model

pytestmark = pytest.mark.torch

Arrays = Mapping[str, npt.NDArray[Any]]


def save(directory: Path, into: Path, *, shards: int = 1, bfloat16: bool = False) -> Path:
    """A model of CTranslate2's, as transformers would save it."""
    import torch  # noqa: PLC0415 - not always there
    from safetensors.torch import save_file  # noqa: PLC0415

    arrays = conversions.read_openai(directory)
    sizes = conversions.dimensions(arrays)
    found = {
        name: torch.from_numpy(array.copy())
        for name, array in conversions.for_transformers(arrays).items()
        if name != "proj_out.weight"  # tied, and not saved
    }
    if bfloat16:
        found = {name: one.to(torch.bfloat16) for name, one in found.items()}
    into.mkdir()
    names = [f"model-{n + 1:05}-of-{shards:05}.safetensors" for n in range(shards)]
    if shards == 1:
        names = ["model.safetensors"]
    where = {name: names[number % shards] for number, name in enumerate(sorted(found))}
    for file in names:
        save_file({name: found[name] for name in where if where[name] == file}, into / file)
    if shards > 1:
        (into / "model.safetensors.index.json").write_text(json.dumps({"weight_map": where}))
    stored = json.loads((directory / "config.json").read_bytes())
    config = {
        "model_type": "whisper",
        "encoder_layers": sizes.n_audio_layer,
        "decoder_layers": sizes.n_text_layer,
        "encoder_attention_heads": sizes.n_audio_head,
        "decoder_attention_heads": sizes.n_text_head,
        "begin_suppress_tokens": [1, 2, 3],  # generation_config.json is right
    }
    (into / "config.json").write_text(json.dumps(config))
    generation = {
        "suppress_tokens": stored["suppress_ids"],
        "begin_suppress_tokens": stored["suppress_ids_begin"],
        "alignment_heads": stored["alignment_heads"],
    }
    (into / "generation_config.json").write_text(json.dumps(generation))
    shutil.copy(directory / "tokenizer.json", into)
    return into


@pytest.fixture(scope="module")
def directory(tiny_model: str) -> Path:
    return find_model(tiny_model)


@pytest.fixture(scope="module")
def saved(directory: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(directory, tmp_path_factory.mktemp("saved") / "tiny.en")


def read(directory: Path) -> Arrays:
    from whisperbatch.engines.torch.transformers_weights import SafetensorsArrays  # noqa: PLC0415 - see above

    return SafetensorsArrays(directory)


@pytest.mark.parametrize(("model", "shards"), [("base", 1), ("tiny.en", 3)])
def test_every_array_is_that_of_ctranslate2(model: str, shards: int, tmp_path: Path) -> None:
    directory = find_model(model)
    found = read(save(directory, tmp_path / "saved", shards=shards))
    wanted = {
        name: array
        for name, array in read_arrays(directory / "model.bin", "").items()
        if (array.dtype.kind == "f" or name.endswith("num_heads"))
        and name != "decoder/projection/weight"  # an alias
    }
    assert sorted(found) == sorted(wanted)
    assert len(found) == len(wanted)
    for name, array in wanted.items():
        assert np.array_equal(found[name], array), name


def test_bfloat16_is_read(directory: Path, tmp_path: Path) -> None:
    found = read(save(directory, tmp_path / "saved", bfloat16=True))
    name = "decoder/layer_2/self_attention/linear_0/weight"
    wanted = read_arrays(directory / "model.bin", name)[name].astype(np.float32)
    assert found[name].dtype == np.float32
    assert np.abs(found[name] - wanted).max() <= np.abs(wanted).max() / 256
    assert not np.array_equal(found[name], wanted)


def test_settings_are_those_of_ctranslate2(directory: Path, saved: Path) -> None:
    from whisperbatch.engines.torch.transformers_weights import read_settings  # noqa: PLC0415

    stored = json.loads((directory / "config.json").read_bytes())
    found = read_settings(saved)
    assert found == {name: stored[name] for name in found}
    assert found["suppress_ids_begin"] == [220, 50256]


def test_older_models_say_it_in_config_json(saved: Path, tmp_path: Path) -> None:
    from whisperbatch.engines.torch.transformers_weights import read_settings  # noqa: PLC0415

    shutil.copy(saved / "config.json", tmp_path)
    assert read_settings(tmp_path) == {
        "suppress_ids": [],
        "suppress_ids_begin": [1, 2, 3],
        "alignment_heads": [],
    }


def test_the_transcript_is_the_same(directory: Path, saved: Path) -> None:
    speech = (recordings.dense("en", 30).samples / 32768).astype(np.float32)
    made = []
    for path in (directory, saved):
        with wb.load(path, engine="torch", compute_type="float32") as asr:
            made.append(asr.transcribe(speech))
    assert made[0].text
    assert made[0].segments == made[1].segments
    assert fingerprint(directory) != fingerprint(saved)


def test_ctranslate2_says_what_to_do(saved: Path) -> None:
    with pytest.raises(wb.ModelError, match=r'load them with engine="torch", or convert them: ct2'):
        wb.load(saved)


def test_missing_settings_are_named(saved: Path, tmp_path: Path) -> None:
    broken = Path(shutil.copytree(saved, tmp_path / "broken"))
    (broken / "config.json").unlink()
    with pytest.raises(wb.ModelError, match=r"config\.json: is missing"):
        wb.load(broken, engine="torch")


def test_a_missing_tokenizer_is_that_of_the_vocabulary(saved: Path, tmp_path: Path) -> None:
    """The packaged model of the same vocabulary has the tokenizer."""
    incomplete = Path(shutil.copytree(saved, tmp_path / "incomplete"))
    (incomplete / "tokenizer.json").unlink()
    vocabularies = []
    for directory in (saved, incomplete):
        with wb.load(directory, engine="torch") as asr:
            vocabularies.append(asr.engine.tokenizer.get_vocab())
    assert vocabularies[0] == vocabularies[1]


def test_another_model_is_refused(saved: Path, tmp_path: Path) -> None:
    broken = Path(shutil.copytree(saved, tmp_path / "broken"))
    (broken / "config.json").write_text('{"model_type": "llama"}')
    with pytest.raises(wb.ModelError, match="holds a 'llama' model, not Whisper's"):
        wb.load(broken, engine="torch")


def test_damaged_weights_are_named(saved: Path, tmp_path: Path) -> None:
    broken = Path(shutil.copytree(saved, tmp_path / "broken"))
    weights = broken / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1_000_000])
    with pytest.raises(wb.ModelError, match=r"broken/model\.safetensors: is damaged"):
        wb.load(broken, engine="torch")


def test_a_missing_shard_is_named(directory: Path, tmp_path: Path) -> None:
    broken = save(directory, tmp_path / "saved", shards=2)
    (broken / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(wb.ModelError, match="model-00002-of-00002"):
        wb.load(broken, engine="torch")
