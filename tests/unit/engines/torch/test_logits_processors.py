"""Each logits processor gives the same logits as a direct implementation for a single text."""

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.torch

END_OF_TEXT, NO_TIMESTAMPS = 20, 21
BEGIN = NO_TIMESTAMPS + 1  # id of the first timestamp; the last token is the last timestamp
VOCABULARY_SIZE = 40

Processor = Callable[[Any, Any], Any]


def random_texts(max_length: int, *, timestamps: bool) -> list[list[int]]:
    rng = Random(0)  # noqa: S311 - texts, not secrets
    texts: list[list[int]] = [[]]
    for _ in range(60):
        text: list[int] = []
        while len(text) < rng.randint(1, max_length):
            if timestamps and rng.random() < 0.4:
                latest = max([token for token in text if token >= BEGIN], default=BEGIN)
                text.append(min(latest + rng.randint(0, 3), VOCABULARY_SIZE - 1))
            else:
                text.append(rng.randint(0, 5))
        texts.append(text)
    return texts


def left_padded(texts: list[list[int]]) -> np.ndarray:
    width = max(map(len, texts))
    return np.array([[-1] * (width - len(text)) + text for text in texts], np.int64)


def random_logits(count: int) -> np.ndarray:
    return np.random.default_rng(1).normal(0, 2, (count, VOCABULARY_SIZE)).astype(np.float32)


def check(processor: Processor, texts: list[list[int]], reference: Processor) -> None:
    """Compare with `reference`, which takes the logits and the tokens of one text."""
    import torch  # noqa: PLC0415 - not always installed

    logits = random_logits(len(texts))
    batch = processor(torch.from_numpy(logits.copy()), torch.from_numpy(left_padded(texts))).numpy()
    for number, text in enumerate(texts):
        alone = processor(
            torch.from_numpy(logits[number : number + 1].copy()), torch.tensor([text]).long()
        )
        expected = reference(logits[number].copy(), text)
        np.testing.assert_allclose(batch[number], expected, rtol=1e-6)
        np.testing.assert_allclose(alone[0].numpy(), expected, rtol=1e-6)


def test_repetition_penalty() -> None:
    from whisperbatch.engines.torch.decoding import RepetitionPenalty  # noqa: PLC0415

    def reference(logits: np.ndarray, text: list[int]) -> np.ndarray:
        for token in set(text):
            logits[token] *= 1.5 if logits[token] < 0 else 1 / 1.5
        return logits

    check(RepetitionPenalty(1.5), random_texts(8, timestamps=False), reference)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_no_repeated_ngrams(size: int) -> None:
    from whisperbatch.engines.torch.decoding import NoRepeatedNgrams  # noqa: PLC0415

    def reference(logits: np.ndarray, text: list[int]) -> np.ndarray:
        ngrams = {tuple(text[n : n + size]) for n in range(len(text) - size + 1)}
        for token in range(VOCABULARY_SIZE):
            if (*text[len(text) - size + 1 :], token) in ngrams and len(text) >= size:
                logits[token] = -np.inf
        return logits

    check(NoRepeatedNgrams(size), random_texts(9, timestamps=False), reference)


def test_timestamp_rules() -> None:
    """The reference follows openai/whisper's decoding.py, class ApplyTimestampRules."""
    from whisperbatch.engines.torch.decoding import TimestampRules  # noqa: PLC0415

    def reference(logits: np.ndarray, text: list[int]) -> np.ndarray:
        ends_in_timestamp = len(text) >= 1 and text[-1] >= BEGIN
        is_paired = len(text) < 2 or text[-2] >= BEGIN
        if ends_in_timestamp and is_paired:
            logits[BEGIN:] = -np.inf
        elif ends_in_timestamp:
            logits[:END_OF_TEXT] = -np.inf
        if timestamps := [token for token in text if token >= BEGIN]:
            may_repeat = ends_in_timestamp and not is_paired
            logits[BEGIN : timestamps[-1] + (0 if may_repeat else 1)] = -np.inf
        if not text:
            logits[:BEGIN] = -np.inf
            logits[BEGIN + 6 :] = -np.inf
        if np.logaddexp.reduce(logits[BEGIN:]) > logits[:BEGIN].max():
            logits[:BEGIN] = -np.inf
        return logits

    check(TimestampRules(BEGIN, END_OF_TEXT, 5), random_texts(8, timestamps=True), reference)
