"""An engine that stores its results, so that a killed run resumes without decoding twice.

The results of a row depend on the row, the prompt and the options only: every engine promises this.
A run that was killed therefore starts again at the beginning of the recording, and all results that
were computed before come from the store, at the speed of reading. Retries, languages and contexts
follow from the same results, so they need no code here.

    encode           computes nothing yet: a row is identified by the hash of its features
    decode           stored rows come from the store; the other rows are encoded and decoded as a
                     batch. A text and its times are stored together
    align            as `decode`
    detect_language  as `decode`
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from importlib.metadata import version
from typing import Any, Final, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from whisperbatch.errors import EngineError
from whisperbatch.options import SearchOptions
from whisperbatch.protocols import (
    Alignment,
    AlignRequest,
    Decoded,
    DecodeRequest,
    Encoded,
    Engine,
    EngineTraits,
    Hypothesis,
)

T = TypeVar("T")

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
        features: shape (n_mels, frames), in the engine's `feature_type`.
        encoded: the encoder output of this row alone; None before the row is encoded.
    """

    key: bytes
    features: npt.NDArray[Any]
    encoded: Encoded | None = None


@dataclass(slots=True, eq=False)
class _Batch:
    """A batch of rows; plays the part of `protocols.Encoded`.

    Attributes:
        contents: the rows.
        outputs: encoder outputs of the wrapped engine, by the numbers of their rows.
    """

    contents: tuple[_Row, ...]
    outputs: dict[tuple[int, ...], Encoded] = field(default_factory=dict)

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
        self.can_translate = engine.can_translate
        self.n_mels = engine.n_mels
        self.workers = engine.workers
        self.tokenizer = engine.tokenizer
        self._traits = EngineTraits.of(engine)
        self.feature_type = self._traits.feature_type

    def default_batch_size(self, hypotheses: int) -> int:
        """See `protocols.Engine`."""
        return self._traits.default_batch_size(hypotheses)

    def check(self, options: SearchOptions) -> None:
        """See `protocols.Engine`."""
        self._engine.check(options)

    def encode(self, features: npt.NDArray[Any]) -> Encoded:
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

        def detect(missing: tuple[int, ...]) -> list[bytes]:
            scores = self._engine.detect_language(self._encoded(batch, missing))
            return [_packed(row) for row in scores]

        return [json.loads(value) for value in self._found(keys, detect)]

    def decode(
        self, encoded: Encoded, requests: Sequence[DecodeRequest], options: SearchOptions
    ) -> list[Decoded]:
        """See `protocols.Engine`."""
        batch = _checked(encoded)
        search = repr(_changed(options)).encode()
        keys = [
            _key(row.key, b"text", search, repr(request).encode())
            for row, request in zip(batch.contents, requests, strict=True)
        ]

        def decode(missing: tuple[int, ...]) -> list[bytes]:
            output = self._encoded(batch, missing)
            decoded = self._engine.decode(output, [requests[n] for n in missing], options)
            return [_packed_decoded(row) for row in decoded]

        return [_unpacked_decoded(value) for value in self._found(keys, decode)]

    def align(self, encoded: Encoded, texts: Sequence[AlignRequest]) -> list[Alignment]:
        """See `protocols.Engine`."""
        batch = _checked(encoded)
        keys = [
            _key(row.key, b"times", repr(text).encode())
            for row, text in zip(batch.contents, texts, strict=True)
        ]

        def align(missing: tuple[int, ...]) -> list[bytes]:
            output = self._encoded(batch, missing)
            alignments = self._engine.align(output, [texts[n] for n in missing])
            return [_packed(_lists(row)) for row in alignments]

        return [_alignment(json.loads(value)) for value in self._found(keys, align)]

    def close(self) -> None:
        """See `protocols.Engine`. The store stays open."""
        self._engine.close()

    def _found(
        self, keys: Sequence[bytes], compute: Callable[[tuple[int, ...]], Sequence[bytes]]
    ) -> list[bytes]:
        """Return the stored value of each key; compute and store the values that are missing.

        Args:
            keys: one for each row.
            compute: returns the values of the rows with these numbers.
        """
        stored = dict(self._store.find(keys))
        missing = tuple(number for number, key in enumerate(keys) if key not in stored)
        if missing:
            new = dict(zip((keys[n] for n in missing), compute(missing), strict=True))
            self._store.keep(new)
            stored |= new
        return [stored[key] for key in keys]

    def _encoded(self, batch: _Batch, numbers: tuple[int, ...]) -> Encoded:
        """Return the wrapped engine's encoder output of some rows."""
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


def _changed(options: SearchOptions) -> dict[str, object]:
    """Return the options that are not at their defaults.

    A new option with a default therefore changes no key, as long as the version stays the same.
    """
    return {
        field.name: getattr(options, field.name)
        for field in fields(SearchOptions)
        if getattr(options, field.name) != field.default
    }


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


def _lists(alignment: Alignment) -> list[list[float]]:
    columns = (alignment.starts, alignment.ends, alignment.probabilities)
    return [column.tolist() for column in columns]


def _alignment(columns: Sequence[Sequence[float]]) -> Alignment:
    return Alignment(*(np.array(column, np.float64) for column in columns))


def _packed_decoded(decoded: Decoded) -> bytes:
    row = decoded.hypothesis
    scores = [row.tokens, row.avg_logprob, row.no_speech_prob]
    return _packed([scores, _lists(decoded.alignment)])


def _unpacked_decoded(packed: bytes) -> Decoded:
    (tokens, avg_logprob, no_speech_prob), columns = json.loads(packed)
    hypothesis = Hypothesis(tuple(tokens), avg_logprob, no_speech_prob)
    return Decoded(hypothesis, _alignment(columns))
