"""An engine that keeps what it has found in a store, and asks the model only for what is new.

What becomes of a row depends on the row, the prompt and the options alone: that is what every
engine promises. So a run that was killed is begun again from the start of the recording, and
everything that was decoded before comes from the store, at the speed of reading: retries,
languages and context fall into place by themselves.

    encode     nothing yet: a row is known by the hash of its features
    generate   known rows from the store; the others are encoded and decoded together
    align      likewise; what `generate` found is stored with it, both or neither
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

DECODING: Final = tuple(
    field.name for field in fields(DecodeOptions) if field.name not in ("batch_size", "temperature")
)
"""Options that a hypothesis may depend on; temperatures come with `Sampling`."""

PLACES: Final = 20  # bytes of a key


class JournalStore(Protocol):
    """Where results are kept, by key. Thread-safe."""

    def find(self, keys: Sequence[bytes]) -> Mapping[bytes, bytes]:
        """The values of those keys that are there."""
        ...

    def keep(self, values: Mapping[bytes, bytes]) -> None:
        """JournalStore all of them, or, should the process be killed, none."""
        ...


@dataclass(slots=True, eq=False)
class _Row:
    """A row, encoded or not.

    Attributes:
        key: hash of its features, and of the engine.
        features: shape (n_mels, frames).
        encoded: by the engine, alone.
        generated: key of what was last decoded from it.
    """

    key: bytes
    features: npt.NDArray[np.float32]
    encoded: Encoded | None = None
    generated: bytes = b""


@dataclass(frozen=True, slots=True, eq=False)
class _Call:
    """What `generate` was asked for."""

    prompts: Sequence[Sequence[int]]
    options: DecodeOptions
    sampling: Sequence[Sampling] | None

    def of(self, numbers: Sequence[int]) -> "_Call":
        """For some of the rows."""
        sampling = [self.sampling[n] for n in numbers] if self.sampling else None
        return _Call([self.prompts[n] for n in numbers], self.options, sampling)


@dataclass(slots=True, eq=False)
class _Batch:
    """Rows of one call.

    Attributes:
        contents: the rows.
        made: the engine's own batches of some of them, by their numbers.
        call: the last one to `generate`.
        decoded: numbers of the rows that the engine decoded then.
        pending: what it found, not stored yet.
    """

    contents: tuple[_Row, ...]
    made: dict[tuple[int, ...], Encoded] = field(default_factory=dict)
    call: _Call | None = None
    decoded: tuple[int, ...] = ()
    pending: dict[bytes, bytes] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """See `protocols.Encoded`."""
        return len(self.contents)


class JournaledEngine:
    """See `protocols.Engine`.

    Args:
        engine: asked for what is not in the store.
        store: may be shared between runs, and holds what engines of any weights have found.
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
        """See `protocols.Engine`. The rows are encoded when they have to be."""
        shape = repr(features.shape[1:]).encode()
        rows = [np.ascontiguousarray(row) for row in features]
        return _Batch(tuple(_Row(_key(self._origin, shape, row.tobytes()), row) for row in rows))

    def split(self, encoded: Encoded) -> list[Encoded]:
        """See `protocols.Engine`."""
        batch = _own(encoded)
        if (whole := batch.made.get(_all(batch))) is not None:
            for row, part in zip(batch.contents, self._engine.split(whole), strict=True):
                row.encoded = row.encoded or part
        return [_Batch((row,)) for row in batch.contents]

    def join(self, rows: Sequence[Encoded]) -> Encoded:
        """See `protocols.Engine`."""
        return _Batch(tuple(row for batch in rows for row in _own(batch).contents))

    def detect_language(self, encoded: Encoded) -> list[dict[str, float]]:
        """See `protocols.Engine`."""
        batch = _own(encoded)
        keys = [_key(row.key, b"language") for row in batch.contents]
        known = dict(self._store.find(keys))
        if missing := _missing(keys, known):
            found = self._engine.detect_language(self._encoded(batch, missing))
            new = {keys[n]: _packed(one) for n, one in zip(missing, found, strict=True)}
            self._store.keep(new)
            known |= new
        return [json.loads(known[key]) for key in keys]

    def generate(
        self,
        encoded: Encoded,
        prompts: Sequence[Sequence[int]],
        options: DecodeOptions,
        sampling: Sequence[Sampling] | None = None,
    ) -> list[Hypothesis]:
        """See `protocols.Engine`."""
        batch = _own(encoded)
        shared = repr([(name, getattr(options, name)) for name in DECODING]).encode()
        keys = [
            _key(row.key, b"text", repr(list(prompt)).encode(), shared, repr(how).encode())
            for row, prompt, how in zip(
                batch.contents, prompts, sampling or repeat(None, batch.rows), strict=True
            )
        ]
        known = dict(self._store.find(keys))
        batch.call, batch.decoded = _Call(prompts, options, sampling), _missing(keys, known)
        if batch.decoded:
            found = self._generate(batch, batch.decoded)
            new = {
                keys[n]: _packed([one.tokens, one.avg_logprob, one.no_speech_prob])
                for n, one in zip(batch.decoded, found, strict=True)
            }
            batch.pending |= new
            known |= new
        for row, key in zip(batch.contents, keys, strict=True):
            row.generated = key
        return [_hypothesis(known[key]) for key in keys]

    def align(
        self,
        encoded: Encoded,
        prompts: Sequence[Sequence[int]],
        tokens: Sequence[Sequence[int]],
        frames: Sequence[int],
    ) -> list[Alignment]:
        """See `protocols.Engine`."""
        batch = _own(encoded)
        keys = [
            _key(row.key, b"times", row.generated, repr((list(start), list(text), count)).encode())
            for row, start, text, count in zip(batch.contents, prompts, tokens, frames, strict=True)
        ]
        known = dict(self._store.find(keys))
        if missing := _missing(keys, known):
            numbers = self._noted(batch, missing)
            found = self._engine.align(
                self._encoded(batch, numbers),
                [prompts[n] for n in numbers],
                [tokens[n] for n in numbers],
                [frames[n] for n in numbers],
            )
            new = {
                keys[n]: _packed([list(one.starts), list(one.ends), list(one.probabilities)])
                for n, one in zip(numbers, found, strict=True)
            }
            known |= new
            self._store.keep(batch.pending | new)
            batch.pending.clear()
        return [Alignment(*map(np.array, json.loads(known[key]))) for key in keys]

    def close(self) -> None:
        """See `protocols.Engine`. The store stays open."""
        self._engine.close()

    def _generate(self, batch: _Batch, numbers: tuple[int, ...]) -> list[Hypothesis]:
        """Decode some rows, as `generate` was last asked to."""
        if batch.call is None:
            return []
        call = batch.call.of(numbers)
        encoded = self._encoded(batch, numbers)
        return self._engine.generate(encoded, call.prompts, call.options, call.sampling)

    def _noted(self, batch: _Batch, missing: tuple[int, ...]) -> tuple[int, ...]:
        """Rows to be placed together, `missing` among them, all decoded by the engine as a batch.

        An engine may place a text by what it noted while decoding it. Texts from the store whose
        times are not there any more are decoded again for it.
        """
        if set(missing) <= set(batch.decoded):
            return batch.decoded
        self._generate(batch, missing)
        return missing

    def _encoded(self, batch: _Batch, wanted: tuple[int, ...]) -> Encoded:
        """What the engine hears in those rows: the same every time, with what it noted of them."""
        if wanted not in batch.made:
            rows = [batch.contents[number] for number in wanted]
            fresh = [row for row in rows if row.encoded is None]
            made = self._engine.encode(np.stack([row.features for row in fresh])) if fresh else None
            if made is None or len(fresh) < len(rows):
                new = iter(self._engine.split(made) if made else ())
                made = self._engine.join([row.encoded or next(new) for row in rows])
            batch.made[wanted] = made
        return batch.made[wanted]


def _own(encoded: Encoded) -> _Batch:
    if not isinstance(encoded, _Batch):
        raise EngineError("the encoder output comes from another engine")
    return encoded


def _all(batch: _Batch) -> tuple[int, ...]:
    return tuple(range(batch.rows))


def _missing(keys: Sequence[bytes], known: Mapping[bytes, bytes]) -> tuple[int, ...]:
    return tuple(number for number, key in enumerate(keys) if key not in known)


def _key(*parts: bytes) -> bytes:
    found = hashlib.blake2b(digest_size=PLACES)
    for part in parts:
        found.update(len(part).to_bytes(8, "little"))
        found.update(part)
    return found.digest()


def _packed(value: Any) -> bytes:  # noqa: ANN401 - what json takes
    """As JSON, which keeps every digit of a float."""
    return json.dumps(value, separators=(",", ":")).encode()


def _hypothesis(packed: bytes) -> Hypothesis:
    tokens, avg_logprob, no_speech_prob = json.loads(packed)
    return Hypothesis(tuple(tokens), avg_logprob, no_speech_prob)
