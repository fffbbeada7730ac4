"""CTranslate2 loads, decodes and aligns each kind of model directory that users bring."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ctranslate2
import numpy as np
import pytest

from tests.contract.model_directories import (
    MODEL_DIRECTORIES,
    token_id,
    write_model_directory,
)
from whisperbatch.engines.ctranslate2.weights import with_settings
from whisperbatch.engines.model_info import ModelInfo
from whisperbatch.models.registry import find_model

__all__ = ["write_model_directory"]  # a fixture

FRAMES = 1000
POSITIONS = FRAMES // 2
# what these lack or have, other directories lack or have, too
SLOW = (
    "base without tokenizer",
    "base without alignment heads",
    "random, 51866 tokens, 128 mels",
    "random, 51866 tokens, short decoder",
    "tiny.en without alignment heads",
)


class LoadedModel:
    """A model in CTranslate2, with its tokenizer and the encoder output of two rows of noise."""

    def __init__(self, directory: Path, **settings: Any) -> None:
        info = ModelInfo.read(directory, "model")
        self.vocabulary_size = info.vocabulary_size
        self.is_multilingual = info.is_multilingual
        self.tokenizer = info.tokenizer
        with with_settings(directory, info.missing_settings()) as complete:
            self.folder = complete
            self.model = ctranslate2.models.Whisper(
                str(complete), device="cpu", intra_threads=1, **settings
            )
        shape = (2, info.n_mels, FRAMES)
        noise = np.random.default_rng(0).standard_normal(shape, np.float32)
        self.encoded = self.model.encode(ctranslate2.StorageView.from_array(noise))

    def ids(self, *tokens: str) -> list[int]:
        return [token_id(self.tokenizer, token) for token in tokens]

    @property
    def start(self) -> list[int]:
        tokens = ("<|startoftranscript|>", "<|en|>", "<|transcribe|>")
        return self.ids(*tokens[: None if self.is_multilingual else 1])

    def generate(self) -> list[list[int]]:
        prompt = [*self.start, *self.ids("<|notimestamps|>")]
        results = self.model.generate(self.encoded, [prompt] * 2, beam_size=1, max_length=20)
        return [result.sequences_ids[0] for result in results]


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else [])
        for name in MODEL_DIRECTORIES
    ],
)
def directory(request: pytest.FixtureRequest, write_model_directory: Callable[[str], Path]) -> Path:
    return find_model(write_model_directory(request.param))


@pytest.fixture(scope="module")
def loaded(directory: Path) -> LoadedModel:
    return LoadedModel(directory, compute_type="int8")


def test_a_temporary_directory_is_gone_once_the_model_is_loaded(
    directory: Path, loaded: LoadedModel
) -> None:
    config = json.loads((directory / "config.json").read_text())
    assert (loaded.folder == directory) == bool(config.get("alignment_heads"))
    assert loaded.folder.exists() == (loaded.folder == directory)


def test_rows_are_encoded_and_decoded_to_text_tokens(loaded: LoadedModel) -> None:
    assert tuple(loaded.encoded.shape[:2]) == (2, POSITIONS)
    [end_of_text] = loaded.ids("<|endoftext|>")
    rows = loaded.generate()
    assert all(token < end_of_text for row in rows for token in row)
    assert all(isinstance(loaded.tokenizer.decode(row), str) for row in rows)


def test_tokens_are_aligned(loaded: LoadedModel) -> None:
    text = loaded.tokenizer.encode(" One two three.", add_special_tokens=False).ids
    texts = [text, text[:2]]
    for row, result in zip(
        texts, loaded.model.align(loaded.encoded, loaded.start, texts, FRAMES), strict=True
    ):
        path = np.array(result.alignments)
        assert set(path[:, 0]) == {*range(len(row) + 1)}  # the last is the end of text
        assert (np.diff(path, axis=0) >= 0).all()
        assert path[-1, 1] == POSITIONS - 1
        assert len(result.text_token_probs) == len(row)


def test_the_language_tokens_are_those_of_the_tokenizer(loaded: LoadedModel) -> None:
    if not loaded.is_multilingual:
        pytest.skip("an English-only model has one language")
    for row in loaded.model.detect_language(loaded.encoded):
        languages = [token for token, _ in row]
        assert len(languages) == loaded.vocabulary_size - 51_766
        assert ("<|yue|>" in languages) == (loaded.vocabulary_size == 51_866)
        assert len({*loaded.ids(*languages)}) == len(languages)
        assert sum(probability for _, probability in row) == pytest.approx(1, abs=1e-3)


def test_the_tokenizer_has_the_vocabulary_of_the_weights(loaded: LoadedModel) -> None:
    [last] = loaded.ids("<|notimestamps|>")
    assert last + 1502 == loaded.vocabulary_size


def test_the_model_can_be_loaded_again_and_on_several_workers(
    directory: Path, loaded: LoadedModel
) -> None:
    again = LoadedModel(directory, compute_type="int8", inter_threads=2)
    assert again.generate() == loaded.generate()


def test_ctranslate2_needs_the_alignment_heads(
    write_model_directory: Callable[[str], Path],
) -> None:
    directory = write_model_directory("tiny.en without alignment heads")
    model = ctranslate2.models.Whisper(str(directory), device="cpu")
    silence = ctranslate2.StorageView.from_array(np.zeros((1, 80, 100), np.float32))
    with pytest.raises(RuntimeError, match="'alignment_heads'"):
        model.align(model.encode(silence), [50_257], [[1, 2]], 100)


def test_missing_heads_are_those_of_the_upper_half(
    write_model_directory: Callable[[str], Path],
) -> None:
    for name, layers, heads in (
        ("base without alignment heads", (3, 4, 5), 8),
        ("tiny.en without alignment heads", (2, 3), 6),
        ("random, 51866 tokens, no tokenizer, no alignment heads", (1, 2), 4),
    ):
        directory = write_model_directory(name)
        settings = ModelInfo.read(directory, name).missing_settings()
        with with_settings(directory, settings) as complete:
            config = json.loads((complete / "config.json").read_text())
        expected = [[layer, head] for layer in layers for head in range(heads)]
        assert config.pop("alignment_heads") == expected
        assert config == json.loads((directory / "config.json").read_text())
