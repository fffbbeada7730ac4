"""CTranslate2's list of tokens: vocabulary.json or vocabulary.txt.

CTranslate2 takes the ids of the special tokens from this list, and its length as the end of the
timestamps. The list must fit the weights and the tokenizer. Weights of transformers have no list.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from whisperbatch.errors import ModelError
from whisperbatch.models.files import read_json, read_text

REQUIRED: Final = ("<|endoftext|>", "<|startoftranscript|>", "<|notimestamps|>")
"""The tokens that CTranslate2 needs in the list."""

SAMPLE_STEP: Final = 16  # one of so many text tokens is compared; comparing all takes 40 ms

MAX_DIFFERENT: Final = 0.1
"""Share of text tokens that may differ from the tokenizer: their text comes from the tokenizer, so
single differences have no effect. 99 % of the tokens of an English-only and a multilingual model
differ."""


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
