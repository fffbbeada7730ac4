"""An engine without weights: it says how many rows it has decoded, in words."""

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer

from whisperbatch.errors import ClosedError, EngineError
from whisperbatch.models.registry import find_model
from whisperbatch.options import DecodeOptions
from whisperbatch.protocols import Alignment, Encoded, Sampling
from whisperbatch.types import Hypothesis


@cache
def tokenizer() -> Tokenizer:
    return Tokenizer.from_file(str(find_model("tiny.en") / "tokenizer.json"))


@cache
def multilingual_tokenizer() -> Tokenizer:
    return Tokenizer.from_file(str(find_model("base") / "tokenizer.json"))


@dataclass(frozen=True)
class FakeEncoded:
    rows: int
    levels: tuple[float, ...]  # mean feature of each row


class FakeEngine:
    """Row n of all that it decodes is "Sentence n."; silence is decoded like anything else.

    It speaks in the first 10 s of every row.

    Args:
        multilingual: whether it detects languages; every row is then French, 0.9.
        workers: as an engine's.
        fail_at: the number of the `generate` call that fails.
        seconds: that a `generate` call takes.
    """

    n_mels = 80
    name = "fake"
    fingerprint = "fake"

    def __init__(
        self,
        *,
        multilingual: bool = True,
        workers: int = 1,
        fail_at: int | None = None,
        seconds: float = 0.0,
    ) -> None:
        self.is_multilingual = multilingual
        self.workers = workers
        self.tokenizer = multilingual_tokenizer() if multilingual else tokenizer()
        self.batches: list[int] = []
        self.prompts: list[list[int]] = []
        self.detections = 0  # rows listened to
        self.closed = False
        self._fail_at, self._seconds = fail_at, seconds
        self._calls = self._rows = 0
        self._lock = threading.Lock()

    def encode(self, features: npt.NDArray[np.float32]) -> FakeEncoded:
        if self.closed:
            raise ClosedError("fake is closed")
        assert features.shape[1] == 80
        assert features.shape[2] <= 3000
        assert features.shape[2] % 2 == 0
        return FakeEncoded(len(features), tuple(features.mean((1, 2)).tolist()))

    def split(self, encoded: Encoded) -> list[Encoded]:
        assert isinstance(encoded, FakeEncoded)
        return [FakeEncoded(1, (level,)) for level in encoded.levels]

    def join(self, rows: Sequence[Encoded]) -> FakeEncoded:
        levels = tuple(row.levels[0] for row in rows if isinstance(row, FakeEncoded))
        return FakeEncoded(len(rows), levels)

    def detect_language(self, encoded: Encoded) -> list[dict[str, float]]:
        with self._lock:
            self.detections += encoded.rows
        return [{"fr": 0.9, "en": 0.1}] * encoded.rows

    def generate(
        self,
        encoded: Encoded,
        prompts: Sequence[Sequence[int]],
        options: DecodeOptions,
        sampling: Sequence[Sampling] | None = None,
    ) -> list[Hypothesis]:
        time.sleep(self._seconds)
        with self._lock:
            self._calls += 1
            if self._calls - 1 == self._fail_at:
                raise EngineError("fake: out of order")
            self.batches.append(encoded.rows)
            self.prompts += [list(prompt) for prompt in prompts]
            first, self._rows = self._rows, self._rows + encoded.rows
        texts = [f" Sentence {first + row}." for row in range(encoded.rows)]
        return [
            Hypothesis(tuple(self.tokenizer.encode(t, add_special_tokens=False).ids), -0.1, 0.0)
            for t in texts
        ]

    def align(
        self,
        encoded: Encoded,
        prompts: Sequence[Sequence[int]],
        tokens: Sequence[Sequence[int]],
        frames: Sequence[int],
    ) -> list[Alignment]:
        results = []
        for row, count in zip(tokens, frames, strict=True):
            joints = np.linspace(0, min(count / 100, 10.0), len(row) + 1)
            results.append(Alignment(joints[:-1], joints[1:], np.full(len(row), 0.5)))
        return results

    def close(self) -> None:
        self.closed = True


class Shelf:
    """A store in memory."""

    def __init__(self) -> None:
        self.values: dict[bytes, bytes] = {}

    def find(self, keys: Sequence[bytes]) -> Mapping[bytes, bytes]:
        return {key: self.values[key] for key in keys if key in self.values}

    def keep(self, values: Mapping[bytes, bytes]) -> None:
        self.values |= values


def noise(seconds: float, seed: int = 0) -> npt.NDArray[Any]:
    """Sound for `vad=False`: one chunk for each 30 s or so."""
    rng = np.random.default_rng(seed)
    return (0.1 * rng.standard_normal(round(seconds * 16000))).astype(np.float32)
