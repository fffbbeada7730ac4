"""A fake engine without weights, a journal's store in memory, noise, and a count of threads.

`FakeEngine` records its calls. By default it decodes every row as "Sentence n.", detects French,
and spreads the words over the first 10 s of a row. Tests replace these results with functions.
"""

import threading
import time
import wave
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer

from tests.unit.small_tokenizers import small_tokenizer
from whisperbatch.engines.model_info import SpecialTokens
from whisperbatch.errors import ClosedError, EngineError, WhisperBatchError
from whisperbatch.options import SearchOptions
from whisperbatch.protocols import (
    Alignment,
    AlignRequest,
    Decoded,
    DecodeRequest,
    Encoded,
    Hypothesis,
    Sampling,
)
from whisperbatch.types import SAMPLING_RATE, Samples, SpeechFrames
from whisperbatch.vad.levels import FRAME, reblock


def tokenizer() -> Tokenizer:
    return small_tokenizer(multilingual=False)


def multilingual_tokenizer() -> Tokenizer:
    return small_tokenizer(multilingual=True)


@dataclass(frozen=True)
class EncodedRow:
    """The fake encoder output of one row.

    Attributes:
        level: mean of the features.
        start: start of the row in the recording, in seconds; valid with `RampExtractor` only.
        end: end of the row in the recording, in seconds; valid with `RampExtractor` only.
        peak: highest feature.
    """

    level: float
    start: float
    end: float
    peak: float


@dataclass(frozen=True)
class FakeEncoded:
    """The fake encoder output of a batch."""

    items: tuple[EncodedRow, ...]

    @property
    def rows(self) -> int:
        return len(self.items)


@dataclass(frozen=True)
class Call:
    """One row of a `decode` call.

    Attributes:
        number: number of rows decoded before this row, in all calls.
        index: number of the row in its batch.
        row: its encoder output.
        options: the search.
        sampling: how to sample the row, if it is sampled.
        prompt: token ids.
        frames: feature frames of the row, without padding.
    """

    number: int
    index: int
    row: EncodedRow
    options: SearchOptions
    sampling: Sampling | None
    prompt: tuple[int, ...] = field(repr=False)
    frames: int = field(default=0, repr=False)

    @property
    def start(self) -> float:
        """Start of the row in the recording, in seconds (see `EncodedRow`)."""
        return round(self.row.start, 2)

    @property
    def end(self) -> float:
        """End of the row in the recording, in seconds (see `EncodedRow`)."""
        return round(self.row.end, 2)


Detect = Callable[[EncodedRow], dict[str, float]]
Decode = Callable[[Call], str | Hypothesis]
Align = Callable[[EncodedRow, Sequence[int], int], Alignment]
"""From row, tokens and feature frames."""
Delay = float | Callable[[int], float]
"""Seconds that a call takes; or a function of its number of rows."""


def french(row: EncodedRow) -> dict[str, float]:
    return {"fr": 0.9, "en": 0.1}


def numbered_sentence(call: Call) -> str:
    return f" Sentence {call.number}."


def evenly_spaced(row: EncodedRow, tokens: Sequence[int], frames: int) -> Alignment:
    """Tokens of equal length in the first 10 s of the row, each with probability 0.5."""
    times = np.linspace(0, min(frames / 100, 10.0), len(tokens) + 1)
    return Alignment(times[:-1], times[1:], np.full(len(tokens), 0.5))


class FakeEngine:
    """An engine without weights. Rows do not depend on the other rows of their batch.

    Args:
        detect: returns the language probabilities of a row.
        decode: returns the text or the hypothesis of a row.
        align: returns the token times of a row.
        multilingual: whether the model is multilingual.
        can_translate: whether a multilingual model can translate.
        workers: number of batches computed at a time.
        fingerprint: identity of the weights.
        failing: for a method, the numbers of the calls (from 0) that raise an error.
        error: class of this error.
        delay: for a method, the seconds that a call takes.

    Attributes:
        batch_sizes: for each method, the number of rows of each call that did not fail.
        scored: rows whose languages were detected.
        calls: rows that were decoded.
        aligned: the texts of each call of `decode` and `align`.
        features: features of the last `encode` call, shape (batch, n_mels, frames).
        closed: whether `close` was called.
    """

    n_mels = 80
    name = "fake"
    encodes_rows_alone = False

    def __init__(
        self,
        *,
        detect: Detect = french,
        decode: Decode = numbered_sentence,
        align: Align = evenly_spaced,
        multilingual: bool = True,
        can_translate: bool = True,
        workers: int = 1,
        fingerprint: str = "fake",
        failing: Mapping[str, Container[int]] | None = None,
        error: type[WhisperBatchError] = EngineError,
        delay: Mapping[str, Delay] | None = None,
    ) -> None:
        self.is_multilingual = multilingual
        self.can_translate = multilingual and can_translate
        self.workers = workers
        self.fingerprint = fingerprint
        self.tokenizer = multilingual_tokenizer() if multilingual else tokenizer()
        methods = ("encode", "detect_language", "decode", "align")
        self._special = SpecialTokens.from_tokenizer(self.tokenizer)
        self.batch_sizes: dict[str, list[int]] = {method: [] for method in methods}
        self.scored: list[EncodedRow] = []
        self.calls: list[Call] = []
        self.aligned: list[list[AlignRequest]] = []
        self.features: npt.NDArray[np.float32] = np.zeros((0, 80, 0), np.float32)
        self.closed = False
        self._detect, self._decode, self._align = detect, decode, align
        self._failing, self._error, self._delay = failing or {}, error, delay or {}
        self._call_counts = dict.fromkeys(methods, 0)
        self._lock = threading.Lock()

    @property
    def batches(self) -> list[int]:
        """Number of rows of each `decode` call."""
        return self.batch_sizes["decode"]

    @property
    def prompts(self) -> list[list[int]]:
        """The prompt of each decoded row."""
        return [list(call.prompt) for call in self.calls]

    @property
    def detections(self) -> int:
        """Number of rows whose languages were detected."""
        return len(self.scored)

    def encode(self, features: npt.NDArray[np.float32]) -> FakeEncoded:
        if self.closed:
            raise ClosedError("fake is closed")
        assert features.shape[1] == self.n_mels
        assert features.shape[2] <= 3000
        assert features.shape[2] % 2 == 0
        self._record("encode", len(features))
        self.features = features
        rows = [
            EncodedRow(
                level,
                float(row[0, 0]) / SAMPLING_RATE,
                float(row[0, 0] + row[0, 1]) / SAMPLING_RATE,
                float(row.max()),
            )
            for row, level in zip(features, features.mean((1, 2)).tolist(), strict=True)
        ]
        # Not tuple(generator): CPython raises SystemError if gc.get_objects() is called meanwhile.
        return FakeEncoded(tuple(rows))

    def split(self, encoded: Encoded) -> list[Encoded]:
        return [FakeEncoded((row,)) for row in _items(encoded)]

    def join(self, rows: Sequence[Encoded]) -> FakeEncoded:
        return FakeEncoded(tuple(item for row in rows for item in _items(row)))

    def detect_language(self, encoded: Encoded) -> list[dict[str, float]]:
        self._record("detect_language", encoded.rows)
        with self._lock:
            self.scored += _items(encoded)
        return [self._detect(row) for row in _items(encoded)]

    def check(self, options: SearchOptions) -> None:
        pass

    def decode(
        self, encoded: Encoded, requests: Sequence[DecodeRequest], options: SearchOptions
    ) -> list[Decoded]:
        assert type(options) is SearchOptions
        assert len({len(request.prompt) for request in requests}) == 1
        self._record("decode", encoded.rows)
        with self._lock:
            calls = [
                Call(
                    *(len(self.calls) + index, index, row, options),
                    *(request.sampling, request.prompt, request.frames),
                )
                for index, (row, request) in enumerate(zip(_items(encoded), requests, strict=True))
            ]
            self.calls += calls
        hypotheses = [self._hypothesis(self._decode(call)) for call in calls]
        texts = list(map(self._special.text_of, requests, hypotheses))
        return list(map(Decoded, hypotheses, self._alignments(encoded, texts)))

    def align(self, encoded: Encoded, texts: Sequence[AlignRequest]) -> list[Alignment]:
        self._record("align", encoded.rows)
        return self._alignments(encoded, texts)

    def _alignments(self, encoded: Encoded, texts: Sequence[AlignRequest]) -> list[Alignment]:
        self.aligned.append(list(texts))
        return [
            self._align(row, text.tokens, text.frames)
            for row, text in zip(_items(encoded), texts, strict=True)
        ]

    def close(self) -> None:
        self.closed = True

    def _record(self, method: str, rows: int) -> None:
        delay = self._delay.get(method, 0.0)
        time.sleep(delay(rows) if callable(delay) else delay)
        with self._lock:
            number = self._call_counts[method]
            self._call_counts[method] += 1
            if number in self._failing.get(method, ()):
                raise self._error(f"fake: {method} failed")
            self.batch_sizes[method].append(rows)

    def _hypothesis(self, text: str | Hypothesis) -> Hypothesis:
        if isinstance(text, Hypothesis):
            return text
        tokens = self.tokenizer.encode(text, add_special_tokens=False).ids
        return Hypothesis(tuple(tokens), -0.1, 0.0)


def _items(encoded: Encoded) -> tuple[EncodedRow, ...]:
    assert isinstance(encoded, FakeEncoded)
    return encoded.items


class LoudVad:
    """A Vad that takes loud VAD frames for speech.

    Args:
        probabilities: for peaks in falling order, the probability of speech of a frame above the
            peak; otherwise 0.
    """

    hop = FRAME

    def __init__(self, probabilities: Mapping[float, float]) -> None:
        self._peaks, self._values = list(probabilities), list(probabilities.values())

    def __call__(self, blocks: Iterable[Samples]) -> Iterator[SpeechFrames]:
        for block in reblock(blocks):
            frames = np.pad(block, (0, -len(block) % FRAME)).reshape(-1, FRAME)
            above = [np.abs(frames).max(axis=1) > peak for peak in self._peaks]
            yield SpeechFrames(block, np.select(above, self._values).astype(np.float32))


class MemoryStore:
    """A journal's store of results, in memory."""

    def __init__(self) -> None:
        self.values: dict[bytes, bytes] = {}

    def find(self, keys: Sequence[bytes]) -> Mapping[bytes, bytes]:
        return {key: self.values[key] for key in keys if key in self.values}

    def keep(self, values: Mapping[bytes, bytes]) -> None:
        self.values |= values


LOUD = 4.0  # times the amplitude of `noise`: `fails_on_loud_rows` does not decode such rows
LOUD_PEAK = 1.08  # highest feature of a row: 0.96 at most for `noise`, 1.17 at least for loud rows


def fails_on_loud_rows(error: type[WhisperBatchError] = EngineError) -> Decode:
    """Return a function that decodes rows of `noise`, and raises an error for louder rows."""

    def decode(call: Call) -> str:
        if call.row.peak > LOUD_PEAK:
            raise error("fake: decode failed")
        return numbered_sentence(call)

    return decode


def noise(seconds: float, seed: int = 0) -> npt.NDArray[Any]:
    """Noise to transcribe with `vad=False`: one chunk for about every 30 s."""
    rng = np.random.default_rng(seed)
    return (0.1 * rng.standard_normal(round(seconds * SAMPLING_RATE))).astype(np.float32)


def write_noise(path: Path, seconds: float = 2.0) -> Path:
    """Write noise to a wav file, and return its path."""
    with wave.open(str(path), "wb") as file:
        file.setparams((1, 2, SAMPLING_RATE, 0, "NONE", "not compressed"))
        file.writeframes((noise(seconds) * 10_000).astype("<i2").tobytes())
    return path


def worker_threads() -> set[str]:
    """Names of the running threads that whisperbatch started."""
    return {
        thread.name for thread in threading.enumerate() if thread.name.startswith("whisperbatch")
    }
