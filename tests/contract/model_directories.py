"""Model directories as users bring them: incomplete, or with sizes that the packaged models lack.

`MODEL_DIRECTORIES` has a function for each kind of directory. The function writes the model into a
folder that does not exist yet, and returns the folder. `write_model_directory` is a fixture that
calls it once per session.
"""

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
from tokenizers import Tokenizer

from whisperbatch.models.architecture import RandomModel
from whisperbatch.models.model_bin import write_model_bin
from whisperbatch.models.registry import find_model
from whisperbatch.models.tokenizer import TIMESTAMPS, add_cantonese
from whisperbatch.text.languages import LANGUAGES

TOKENIZERS: Final = {51_864: "tiny.en", 51_865: "base", 51_866: "base"}
"""The packaged model with the text tokens of each vocabulary."""


def copy_model(
    target: Path, name: str, *, missing_file: str = "", missing_settings: tuple[str, ...] = ()
) -> Path:
    """A packaged model without a file, or without settings in config.json. model.bin is a link."""
    target.mkdir(parents=True)
    source = find_model(name)
    for path in source.iterdir():
        if path.name == "model.bin":
            (target / path.name).symlink_to(path)
        elif path.name != missing_file and path.is_file():
            shutil.copy(path, target)
    config = json.loads((source / "config.json").read_text(encoding="utf-8"))
    for setting in missing_settings:
        del config[setting]
    (target / "config.json").write_text(json.dumps(config))
    return target


def random_model(
    target: Path,
    sizes: RandomModel,
    *,
    has_tokenizer: bool = True,
    lists_heads: bool = True,
    vocabulary_file: str = "vocabulary.json",
) -> Path:
    """A model with random weights, and the tokenizer and settings of its vocabulary."""
    target.mkdir(parents=True)
    with (target / "model.bin").open("wb") as file:
        write_model_bin(file, sizes.arrays())
    content = tokenizer_content(sizes.vocabulary_size)
    if has_tokenizer:
        (target / "tokenizer.json").write_text(json.dumps(content))
    tokenizer = Tokenizer.from_str(json.dumps(content))
    config = settings(tokenizer, sizes)
    if not lists_heads:
        del config["alignment_heads"]
    (target / "config.json").write_text(json.dumps(config))
    tokens = vocabulary(tokenizer)
    text = json.dumps(tokens) if vocabulary_file.endswith(".json") else "\n".join(tokens) + "\n"
    (target / vocabulary_file).write_text(text, encoding="utf-8")
    return target


def tokenizer_content(vocabulary_size: int) -> dict[str, Any]:
    """The tokenizer.json of a vocabulary; of the largest, with the language that large-v3 added."""
    directory = find_model(TOKENIZERS[vocabulary_size])
    content: dict[str, Any] = json.loads((directory / "tokenizer.json").read_bytes())
    return add_cantonese(content) if vocabulary_size == 51_866 else content


def settings(tokenizer: Tokenizer, sizes: RandomModel) -> dict[str, Any]:
    """The settings in config.json, by the token ids of this tokenizer."""
    packaged = find_model(TOKENIZERS[sizes.vocabulary_size])
    languages = [tokenizer.token_to_id(f"<|{code}|>") for code in LANGUAGES]
    last_layer = sizes.layers_of("decoder") - 1
    return {
        "suppress_ids": json.loads((packaged / "config.json").read_bytes())["suppress_ids"],
        "suppress_ids_begin": [220, tokenizer.token_to_id("<|endoftext|>")],
        "lang_ids": sorted(number for number in languages if number is not None),
        "alignment_heads": [[last_layer, head] for head in range(sizes.heads)],
    }


def vocabulary(tokenizer: Tokenizer) -> list[str]:
    """All tokens by their ids; tiny.en's tokenizer does not list the timestamps."""
    tokens = {number: token for token, number in tokenizer.get_vocab().items()}
    first = token_id(tokenizer, "<|notimestamps|>") + 1
    tokens |= {first + step: f"<|{step / 50:.2f}|>" for step in range(TIMESTAMPS)}
    return [tokens[number] for number in range(len(tokens))]


def token_id(tokenizer: Tokenizer, token: str) -> int:
    number = tokenizer.token_to_id(token)
    assert number is not None, token
    return int(number)


NO_HEADS: Final = ("alignment_heads",)
ENGLISH: Final = RandomModel(vocabulary_size=51_864, heads=1)
MULTILINGUAL: Final = RandomModel(vocabulary_size=51_865, heads=2, n_mels=128)
NEWEST: Final = RandomModel(vocabulary_size=51_866, heads=4, layers=3, n_mels=128)

MODEL_DIRECTORIES: Final[Mapping[str, Callable[[Path], Path]]] = {
    "base without tokenizer": partial(copy_model, name="base", missing_file="tokenizer.json"),
    "base without alignment heads": partial(copy_model, name="base", missing_settings=NO_HEADS),
    "tiny.en without tokenizer": partial(copy_model, name="tiny.en", missing_file="tokenizer.json"),
    "tiny.en without alignment heads": partial(
        copy_model, name="tiny.en", missing_settings=NO_HEADS
    ),
    "random, 51864 tokens, 80 mels": partial(random_model, sizes=ENGLISH),
    "random, 51865 tokens, 128 mels": partial(random_model, sizes=MULTILINGUAL),
    "random, 51866 tokens, 128 mels": partial(random_model, sizes=NEWEST),
    "random, 51866 tokens, short decoder": partial(
        random_model, sizes=replace(NEWEST, decoder_layers=1)
    ),
    "random, 51866 tokens, no tokenizer, no alignment heads": partial(
        random_model,
        sizes=NEWEST,
        has_tokenizer=False,
        lists_heads=False,
        vocabulary_file="vocabulary.txt",
    ),
}
"""The kinds of directories, each with the function that writes one."""


@pytest.fixture(scope="session")
def write_model_directory(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return a function that writes one of `MODEL_DIRECTORIES`, once per session."""
    written: dict[str, Path] = {}

    def write(name: str) -> Path:
        if name not in written:
            folder = tmp_path_factory.mktemp("model")
            written[name] = MODEL_DIRECTORIES[name](folder / "directory")
        return written[name]

    return write
