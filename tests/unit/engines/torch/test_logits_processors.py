"""The rules of what may be said, beside a plain reading of them, a text at a time."""

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.torch

END, SILENT = 20, 21  # then timestamps up to the last token
BEGIN = SILENT + 1
SIZE = 40


def cases(longest: int, *, timestamps: bool) -> list[list[int]]:
    drawn = Random(0)  # noqa: S311 - texts, not secrets
    found: list[list[int]] = [[]]
    for _ in range(60):
        text: list[int] = []
        while len(text) < drawn.randint(1, longest):
            if timestamps and drawn.random() < 0.4:
                latest = max([one for one in text if one >= BEGIN], default=BEGIN)
                text.append(min(latest + drawn.randint(0, 3), SIZE - 1))
            else:
                text.append(drawn.randint(0, 5))
        found.append(text)
    return found


def padded(texts: list[list[int]]) -> np.ndarray:
    width = max(map(len, texts))
    return np.array([[-1] * (width - len(text)) + text for text in texts], np.int64)


def logits(count: int) -> np.ndarray:
    return np.random.default_rng(1).normal(0, 2, (count, SIZE)).astype(np.float32)


def check(rule: Callable[[Any, Any], Any], texts: list[list[int]], plain: Any) -> None:
    import torch  # noqa: PLC0415 - not always there

    given = logits(len(texts))
    together = rule(torch.from_numpy(given.copy()), torch.from_numpy(padded(texts))).numpy()
    for number, text in enumerate(texts):
        alone = rule(
            torch.from_numpy(given[number : number + 1].copy()), torch.tensor([text]).long()
        )
        wanted = plain(given[number].copy(), text)
        np.testing.assert_allclose(together[number], wanted, rtol=1e-6)
        np.testing.assert_allclose(alone[0].numpy(), wanted, rtol=1e-6)


def test_repetition_penalty() -> None:
    from whisperbatch.engines.torch.logits_processors import RepetitionPenalty  # noqa: PLC0415

    def plain(found: np.ndarray, text: list[int]) -> np.ndarray:
        for token in set(text):
            found[token] *= 1.5 if found[token] < 0 else 1 / 1.5
        return found

    check(RepetitionPenalty(1.5), cases(8, timestamps=False), plain)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_no_repeated_ngrams(size: int) -> None:
    from whisperbatch.engines.torch.logits_processors import NoRepeatedNgrams  # noqa: PLC0415

    def plain(found: np.ndarray, text: list[int]) -> np.ndarray:
        said = {tuple(text[n : n + size]) for n in range(len(text) - size + 1)}
        for token in range(SIZE):
            if (*text[len(text) - size + 1 :], token) in said and len(text) >= size:
                found[token] = -np.inf
        return found

    check(NoRepeatedNgrams(size), cases(9, timestamps=False), plain)


def test_timestamps() -> None:
    """As in openai/whisper's decoding.py, class ApplyTimestampRules."""
    from whisperbatch.engines.torch.logits_processors import TimestampRules  # noqa: PLC0415

    def plain(found: np.ndarray, text: list[int]) -> np.ndarray:
        timed = len(text) >= 1 and text[-1] >= BEGIN
        paired = len(text) < 2 or text[-2] >= BEGIN
        if timed and paired:
            found[BEGIN:] = -np.inf
        elif timed:
            found[:END] = -np.inf
        if times := [token for token in text if token >= BEGIN]:
            found[BEGIN : times[-1] + (0 if timed and not paired else 1)] = -np.inf
        if not text:
            found[:BEGIN] = -np.inf
            found[BEGIN + 6 :] = -np.inf
        if np.logaddexp.reduce(found[BEGIN:]) > found[:BEGIN].max():
            found[:BEGIN] = -np.inf
        return found

    check(TimestampRules(BEGIN, END, 5), cases(8, timestamps=True), plain)
