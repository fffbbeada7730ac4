"""An engine without a model: it "decodes" a known text for each row.

The text is a sentence of number words that depends on the features of the row, on the start of
transcript (so that another language gives another sentence) and, with sampling, on the seed. No
word occurs twice in a sentence, so that penalties and `no_repeat_ngram_size` change nothing.
"""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer

from whisperbatch.errors import ClosedError, EngineError, OptionError
from whisperbatch.options import SearchOptions
from whisperbatch.protocols import (
    Alignment,
    AlignRequest,
    Decoded,
    DecodeRequest,
    Encoded,
    Hypothesis,
)

WORDS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven")
PROBABILITY = 0.9  # of each token


@dataclass(frozen=True)
class KnownRows:
    """The encoded rows of a `KnownTextEngine`: a hash of the features of each row."""

    engine: "KnownTextEngine"
    hashes: tuple[str, ...]
    n_frames: int

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self.hashes)


class KnownTextEngine:
    """Gives a known text for each row, and spreads its tokens evenly over the row."""

    name = "known-text"
    n_mels = 80
    workers = 1
    can_translate = False

    def __init__(self, tokenizer: Tokenizer, *, multilingual: bool = True) -> None:
        self.tokenizer = tokenizer
        self.is_multilingual = multilingual
        vocabulary = hashlib.sha256(tokenizer.to_str().encode()).hexdigest()
        self.fingerprint = f"{self.name} 1, multilingual={multilingual}, {vocabulary}"
        self._end_of_text = self._special("<|endoftext|>")
        self._no_timestamps = self._special("<|notimestamps|>")
        self._closed = False

    def check(self, options: SearchOptions) -> None:
        """Refuse to suppress timestamp tokens; all other options are honoured."""
        if any(token > self._no_timestamps for token in options.suppress_tokens):
            raise OptionError(f"suppress_tokens: {self.name} cannot suppress timestamp tokens")

    def encode(self, features: npt.NDArray[np.float32]) -> KnownRows:
        """Identify each row by a hash of its features."""
        self._check_open()
        hashes = tuple(hashlib.sha256(row.tobytes()).hexdigest() for row in features)
        return KnownRows(self, hashes, features.shape[2])

    def split(self, encoded: Encoded) -> list[Encoded]:
        """Return a batch for each row."""
        own = self._own(encoded)
        return [KnownRows(self, (row,), own.n_frames) for row in own.hashes]

    def join(self, rows: Sequence[Encoded]) -> KnownRows:
        """Return one batch with all rows."""
        own = [self._own(row) for row in rows]
        if len({row.n_frames for row in own}) != 1:
            raise EngineError("join needs rows with the same number of frames")
        return KnownRows(self, tuple(key for row in own for key in row.hashes), own[0].n_frames)

    def detect_language(self, encoded: Encoded) -> list[dict[str, float]]:
        """Return English, probably, for each row."""
        self._check_open()
        own = self._own(encoded)
        if not self.is_multilingual:
            raise EngineError(f"{self.name} is English-only: it cannot detect the language")
        return [{"en": 0.9, "de": 0.1} for _ in own.hashes]

    def decode(
        self, encoded: Encoded, requests: Sequence[DecodeRequest], options: SearchOptions
    ) -> list[Decoded]:
        """Return the known text of each row, with its times."""
        self._check_open()
        own = self._own(encoded)
        self._check_count(own, len(requests))
        pairs = zip(own.hashes, requests, strict=True)
        return [self._decode_row(row, request, options) for row, request in pairs]

    def align(self, encoded: Encoded, texts: Sequence[AlignRequest]) -> list[Alignment]:
        """Spread the tokens of each text evenly over its row."""
        self._check_open()
        self._check_count(self._own(encoded), len(texts))
        return [self._spread(text.tokens, text.frames) for text in texts]

    def close(self) -> None:
        """Close the engine; may be called twice."""
        self._closed = True

    def _decode_row(self, row: str, request: DecodeRequest, options: SearchOptions) -> Decoded:
        key = f"{row} {request.start} {request.sampling}"
        words = sorted(WORDS, key=lambda word: hashlib.sha256(f"{key} {word}".encode()).digest())
        sentence = " " + " ".join(words[:10]) + "."
        ids = self.tokenizer.encode(sentence, add_special_tokens=False).ids
        tokens = tuple(token for token in ids if token not in options.suppress_tokens)
        prefix = tuple(token for token in request.prefix if token < self._end_of_text)
        if tokens[: len(prefix)] == prefix:
            tokens = tokens[len(prefix) :]
        limit = 224 if options.max_new_tokens is None else options.max_new_tokens
        if self._no_timestamps in request.prompt:
            tokens = tokens[:limit]
        else:
            first = self._no_timestamps + 1
            last = first + request.frames // 2  # a timestamp is 0.02 s, a frame 0.01 s
            tokens = (first, *tokens[: max(limit - 2, 0)], last)[:limit]
        hypothesis = Hypothesis(tokens, math.log(PROBABILITY), no_speech_prob=0.01)
        return Decoded(hypothesis, self._spread(request.prefix + tokens, request.frames))

    def _spread(self, tokens: tuple[int, ...], frames: int) -> Alignment:
        n_tokens = sum(token < self._end_of_text for token in tokens)
        times = np.linspace(0.0, frames / 100, n_tokens + 1)
        starts, ends = times[:n_tokens].copy(), times[1:].copy()
        return Alignment(starts, ends, np.full(n_tokens, PROBABILITY))

    def _special(self, token: str) -> int:
        if (number := self.tokenizer.token_to_id(token)) is not None:
            return int(number)
        raise EngineError(f"the tokenizer has no token {token}")

    def _own(self, encoded: Encoded) -> KnownRows:
        if isinstance(encoded, KnownRows) and encoded.engine is self:
            return encoded
        raise EngineError("these rows were encoded by another engine")

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError(f"model {self.name} is closed")

    def _check_count(self, own: KnownRows, count: int) -> None:
        if count != own.rows:
            raise EngineError(f"{own.rows} rows need as many requests, got {count}")
