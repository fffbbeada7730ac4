"""CTranslate2's list of tokens, and lists of other models."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from whisperbatch.errors import ModelError
from whisperbatch.models.tokenizer import check_vocabulary, read_vocabulary

TEXT = [f"t{number}" for number in range(320)]
TOKENS = [*TEXT, "<|endoftext|>", "<|startoftranscript|>", "<|notimestamps|>", "<|0.00|>"]
IDS = {token: number for number, token in enumerate(TOKENS)}


def write(directory: Path, tokens: object, *, text: str | None = None) -> Path:
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
    vocabulary = read_vocabulary(write(tmp_path / "json", TOKENS))
    assert list(vocabulary.tokens) == TOKENS
    assert vocabulary.special == {token: IDS[token] for token in TOKENS[320:]}
    text = (end or "\n").join(TOKENS) + end
    assert list(read_vocabulary(write(tmp_path, None, text=text)).tokens) == TOKENS


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
        check(write(tmp_path, tokens))
    assert expected in str(caught.value)


def test_lists_that_fit(tmp_path: Path) -> None:
    check(write(tmp_path, TOKENS), max_size=400)  # padded weights
    check(write(tmp_path, ["other", *TOKENS[1:]]))  # the text of this token is the tokenizer's
    check(write(tmp_path, [*TOKENS, "madeupword0000"]), max_size=325)
