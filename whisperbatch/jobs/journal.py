"""An engine that stores its results, so that a killed run resumes without decoding twice.

The results of a row depend on the row, the prompt and the options only: every engine promises this.
A run that was killed therefore starts again at the beginning of the recording, and all results that
were computed before come from the store, at the speed of reading. Retries, languages and contexts
follow from the same results, so they need no code here.

    encode     computes nothing yet: a row is identified by the hash of its features
    generate   stored rows come from the store; the other rows are encoded and decoded as a batch
    align      stored rows come from the store; the other rows are aligned as a batch. A text and
               its times are stored together: both or neither
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from importlib.metadata import version
from itertools import repeat
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from whisperbatch.errors import EngineError
from whisperbatch.options import DecodeOptions
from whisperbatch.protocols import Alignment, Encoded, Engine, Sampling
from whisperbatch.types import Hypothesis

KEYED_OPTIONS: Final = tuple(
    field.name for field in fields(DecodeOptions) if field.name not in ("batch_size", "temperature")
)
"""Options that a hypothesis may depend on. The temperature of a row is part of its `Sampling`."""

KEY_BYTES: Final = 20


class JournalStore(Protocol):
    """Stores results by key. Thread-safe."""

    def find(self, keys: Sequence[bytes]) -> Mapping[bytes, bytes]:
        """Return the stored values; keys without a value are left out."""
        ...

    def keep(self, values: Mapping[bytes, bytes]) -> None:
        """Store all values, or none of them if the process is killed."""
        ...


@dataclass(slots=True, eq=False)
class _Row:
    """A row, encoded or not.

    Attributes:
        key: hash of the row's features and the engine's fingerprint.
        features: shape (n_mels, frames).
        encoded: the encoder output of this row alone; None before the row is encoded.
        text_key: key of the hypothesis that was decoded last; empty before that.
    """

    key: bytes
    features: npt.NDArray[np.float32]
    encoded: Encoded | None = None
    text_key: bytes = b""


@dataclass(frozen=True, slots=True, eq=False)
class _Call:
    """Arguments of a call of `generate`."""

    prompts: Sequence[Sequence[int]]
    options: DecodeOptions
    sampling: Sequence[Sampling] | None

    def of(self, numbers: Sequence[int]) -> "_Call":
        """Return the arguments for some of the rows."""
        sampling = [self.sampling[n] for n in numbers] if self.sampling else None
        return _Call([self.prompts[n] for n in numbers], self.options, sampling)


@dataclass(slots=True, eq=False)
class _Batch:
    """A batch of rows; plays the part of `protocols.Encoded`.

    Attributes:
        contents: the rows.
        outputs: encoder outputs of the wrapped engine, by the numbers of their rows.
        call: the last call of `generate`.
        decoded: numbers of the rows that the wrapped engine decoded in this call.
        pending: packed hypotheses that are stored later, together with their times.
    """

    contents: tuple[_Row, ...]
    outputs: dict[tuple[int, ...], Encoded] = field(default_factory=dict)
    call: _Call | None = None
    decoded: tuple[int, ...] = ()
    pending: dict[bytes, bytes] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """See `protocols.Encoded`."""
        return len(self.contents)


class JournaledEngine:
    """An engine that asks another engine only for results that are not stored yet.

    See `protocols.Engine`.

    Args:
        engine: the wrapped engine.
        store: several runs may share a store, and a store may hold results of several models.
    """

    def __init__(self, engine: Engine, store: JournalStore) -> None:
        self._engine = engine
        self._store = store
        self._origin = f"whisperbatch {version('whisperbatch')}, {engine.fingerprint}".encode()
        self.name = engine.name
        self.fingerprint = engine.fingerprint
        self.is_multilingual = engine.is_multilingual
        self.n_mels = engine.n_mels
        self.workers = engine.workers
        self.tokenizer = engine.tokenizer

    def encode(self, features: npt.NDArray[np.float32]) -> Encoded:
        """See `protocols.Engine`. The encoder runs later, and only on rows that need it."""
        shape = repr(features.shape[1:]).encode()
        rows = [np.ascontiguousarray(row) for row in features]
        return _Batch(tuple(_Row(_key(self._origin, shape, row.tobytes()), row) for row in rows))

    def split(self, encoded: Encoded) -> list[Encoded]:
        """See `protocols.Engine`."""
        batch = _checked(encoded)
        if (output := batch.outputs.get(tuple(range(batch.rows)))) is not None:
            for row, part in zip(batch.contents, self._engine.split(output), strict=True):
                row.encoded = row.encoded or part
        return [_Batch((row,)) for row in batch.contents]

    def join(self, rows: Sequence[Encoded]) -> Encoded:
        """See `protocols.Engine`."""
        return _Batch(tuple(row for batch in rows for row in _checked(batch).contents))

    def detect_language(self, encoded: Encoded) -> list[dict[str, float]]:
        """See `protocols.Engine`."""
        batch = _checked(encoded)
        keys = [_key(row.key, b"language") for row in batch.contents]
        stored = dict(self._store.find(keys))
        if missing := _missing(keys, stored):
            scores = self._engine.detect_language(self._encoded(batch, missing))
            new = {keys[n]: _packed(row) for n, row in zip(missing, scores, strict=True)}
            self._store.keep(new)
            stored |= new
        return [json.loads(stored[key]) for key in keys]

    def generate(
        self,
        encoded: Encoded,
        prompts: Sequence[Sequence[int]],
        options: DecodeOptions,
        sampling: Sequence[Sampling] | None = None,
    ) -> list[Hypothesis]:
        """See `protocols.Engine`."""
        batch = _checked(encoded)
        decoding = repr([(name, getattr(options, name)) for name in KEYED_OPTIONS]).encode()
        keys = [
            _key(row.key, b"text", repr(list(prompt)).encode(), decoding, repr(sampled).encode())
            for row, prompt, sampled in zip(
                batch.contents, prompts, sampling or repeat(None, batch.rows), strict=True
            )
        ]
        stored = dict(self._store.find(keys))
        batch.call, batch.decoded = _Call(prompts, options, sampling), _missing(keys, stored)
        if batch.decoded:
            hypotheses = self._generate(batch, batch.decoded)
            new = {
                keys[n]: _packed([row.tokens, row.avg_logprob, row.no_speech_prob])
                for n, row in zip(batch.decoded, hypotheses, strict=True)
            }
            batch.pending |= new
            stored |= new
        for row, key in zip(batch.contents, keys, strict=True):
            row.text_key = key
        return [_hypothesis(stored[key]) for key in keys]

    def align(
        self,
        encoded: Encoded,
        prompts: Sequence[Sequence[int]],
        tokens: Sequence[Sequence[int]],
        frames: Sequence[int],
    ) -> list[Alignment]:
        """See `protocols.Engine`."""
        batch = _checked(encoded)
        keys = [
            _key(row.key, b"times", row.text_key, repr((list(start), list(text), count)).encode())
            for row, start, text, count in zip(batch.contents, prompts, tokens, frames, strict=True)
        ]
        stored = dict(self._store.find(keys))
        if missing := _missing(keys, stored):
            numbers = self._rows_to_align(batch, missing)
            alignments = self._engine.align(
                self._encoded(batch, numbers),
                [prompts[n] for n in numbers],
                [tokens[n] for n in numbers],
                [frames[n] for n in numbers],
            )
            new = {
                keys[n]: _packed([list(row.starts), list(row.ends), list(row.probabilities)])
                for n, row in zip(numbers, alignments, strict=True)
            }
            stored |= new
            self._store.keep(batch.pending | new)
            batch.pending.clear()
        return [Alignment(*map(np.array, json.loads(stored[key]))) for key in keys]

    def close(self) -> None:
        """See `protocols.Engine`. The store stays open."""
        self._engine.close()

    def _generate(self, batch: _Batch, numbers: tuple[int, ...]) -> list[Hypothesis]:
        """Decode some rows with the arguments of the batch's last call of `generate`."""
        if batch.call is None:
            return []
        call = batch.call.of(numbers)
        encoded = self._encoded(batch, numbers)
        return self._engine.generate(encoded, call.prompts, call.options, call.sampling)

    def _rows_to_align(self, batch: _Batch, missing: tuple[int, ...]) -> tuple[int, ...]:
        """Return the rows to align together: all of `missing`, decoded by the engine as a batch.

        An engine may align a text by the attention that it saved while it decoded the text. Rows
        whose text is stored, but whose times are not, are therefore decoded again first.
        """
        if set(missing) <= set(batch.decoded):
            return batch.decoded
        self._generate(batch, missing)
        return missing

    def _encoded(self, batch: _Batch, numbers: tuple[int, ...]) -> Encoded:
        """Return the wrapped engine's encoder output of some rows.

        Every call returns the same object, because the engine may have saved attention in it.
        """
        if numbers not in batch.outputs:
            rows = [batch.contents[number] for number in numbers]
            fresh = [row for row in rows if row.encoded is None]
            output = None
            if fresh:
                output = self._engine.encode(np.stack([row.features for row in fresh]))
            if output is None or len(fresh) < len(rows):
                new = iter(self._engine.split(output) if output else ())
                output = self._engine.join([row.encoded or next(new) for row in rows])
            batch.outputs[numbers] = output
        return batch.outputs[numbers]


def _checked(encoded: Encoded) -> _Batch:
    if not isinstance(encoded, _Batch):
        raise EngineError("the encoder output comes from another engine")
    return encoded


def _missing(keys: Sequence[bytes], stored: Mapping[bytes, bytes]) -> tuple[int, ...]:
    """Return the numbers of the keys without a stored value."""
    return tuple(number for number, key in enumerate(keys) if key not in stored)


def _key(*parts: bytes) -> bytes:
    """Return a hash of the parts; the length of each part is hashed, too."""
    key = hashlib.blake2b(digest_size=KEY_BYTES)
    for part in parts:
        key.update(len(part).to_bytes(8, "little"))
        key.update(part)
    return key.digest()


def _packed(value: Any) -> bytes:  # noqa: ANN401 - any value that json can encode
    """Return the value as JSON, which preserves every digit of a float."""
    return json.dumps(value, separators=(",", ":")).encode()


def _hypothesis(packed: bytes) -> Hypothesis:
    tokens, avg_logprob, no_speech_prob = json.loads(packed)
    return Hypothesis(tuple(tokens), avg_logprob, no_speech_prob)
