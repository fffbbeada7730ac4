"""Stored results of rows, so that a killed run resumes without decoding twice.

The results of a row depend on the row, the prompt and the options only: every engine promises this.
A run that was killed therefore starts again at the beginning of the recording, and all results that
were computed before come from the store, at the speed of reading. Retries, languages and contexts
follow from the same results, so they need no code here.

    language    hash of the row                          probability of each language
    text        hash of the row, request and search      tokens, scores and the times of the tokens

The scheduler asks for a result before it computes a row, and encodes only rows that it computes.
"""

import hashlib
import json
import logging
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from importlib.metadata import version
from typing import Any, Final, Protocol, TypeAlias

import numpy as np

from whisperbatch.jobs.ledger import Ledger
from whisperbatch.options import SearchOptions
from whisperbatch.protocols import Alignment, Decoded, Engine, Hypothesis
from whisperbatch.recording import Encoding
from whisperbatch.scheduling import WaitingRow
from whisperbatch.types import build, parse_json

log = logging.getLogger(__name__)

KEY_BYTES: Final = 20
MAX_TOKEN: Final = 2**32 - 1  # of a tokenizer

Result: TypeAlias = Decoded | dict[str, float]
_Languages: Final[Any] = Mapping[str, float]
_Column: TypeAlias = tuple[float, ...]
_Text: Final[Any] = tuple[tuple[tuple[int, ...], float, float], tuple[_Column, _Column, _Column]]


class JournalStore(Protocol):
    """Stores results by key. Thread-safe."""

    def find(self, keys: Sequence[bytes]) -> Mapping[bytes, bytes]:
        """Return the stored values; keys without a value are left out."""
        ...

    def keep(self, values: Mapping[bytes, bytes]) -> None:
        """Store all values, or none of them if the process is killed.

        A value replaces the stored value of its key.
        """
        ...


class Journal:
    """The stored results of an engine: see `scheduling.ResultStore`. Thread-safe.

    A value that is damaged counts as absent: its row is computed again, and the value is replaced.

    Args:
        engine: computes the results.
        store: several runs may share a store, and a store may hold results of several models.
    """

    def __init__(self, engine: Engine, store: JournalStore) -> None:
        self._store = store
        self._origin = f"whisperbatch {version('whisperbatch')}, {engine.fingerprint}".encode()
        self._end_of_text = engine.tokenizer.token_to_id("<|endoftext|>") or 0

    def find(self, calls: Sequence[WaitingRow]) -> Mapping[WaitingRow, Result]:
        """Return the stored results; rows without a result are left out."""
        keys = {call: self._key(call) for call in calls}
        values = self._store.find(list(keys.values()))
        results: dict[WaitingRow, Result] = {}
        for call, key in keys.items():
            if key not in values:
                continue
            try:
                results[call] = self._parse(call, parse_json(values[key]))
            except (ValueError, TypeError) as error:
                log.info("a stored result is damaged, and is computed again: %s", error)
        return results

    def keep(self, results: Mapping[WaitingRow, Result]) -> None:
        """Store the results of rows: all of them, or none if the process is killed."""
        self._store.keep({self._key(call): _pack(result) for call, result in results.items()})

    def _key(self, call: WaitingRow) -> bytes:
        row = self._row_key(call.row)
        if call.search is None:
            return _hash(row, b"language")
        search = repr(_changed_options(call.search)).encode()
        return _hash(row, b"text", search, repr(call.request).encode())

    def _row_key(self, row: Encoding) -> bytes:
        """Return the hash of a row's features and the engine; the row remembers it."""
        if row.key is None:
            if (features := row.features) is None:
                raise ValueError("a row needs its features before it is encoded")
            shape = repr(features.shape).encode()
            row.key = _hash(self._origin, shape, features.tobytes())
        return row.key

    def _parse(self, call: WaitingRow, value: Any) -> Result:  # noqa: ANN401 - JSON
        """Return the result of a stored value.

        Raises:
            ValueError: the value has another shape or other types than a result of this call.
        """
        if call.request is None:
            languages = build(_Languages, value)
            if not languages:
                raise ValueError("no language")
            return dict(languages)
        (tokens, avg_logprob, no_speech_prob), columns = build(_Text, value)
        if not all(0 <= token <= MAX_TOKEN for token in tokens):
            raise ValueError("a token is out of range")
        decoded = Decoded(
            Hypothesis(tokens, avg_logprob, no_speech_prob),
            Alignment(*(np.array(column, np.float64) for column in columns)),
        )
        written = (*call.request.prefix, *decoded.hypothesis.tokens)
        count = sum(token < self._end_of_text for token in written)
        times = decoded.alignment
        if {len(times.starts), len(times.ends), len(times.probabilities)} != {count}:
            raise ValueError(f"{count} tokens need as many times")
        return decoded


def _changed_options(options: SearchOptions) -> dict[str, object]:
    """Return the options that are not at their defaults.

    A new option with a default therefore changes no key, as long as the version stays the same.
    """
    return {
        field.name: getattr(options, field.name)
        for field in fields(SearchOptions)
        if getattr(options, field.name) != field.default
    }


def _hash(*parts: bytes) -> bytes:
    """Return a hash of the parts; the length of each part is hashed, too."""
    key = hashlib.blake2b(digest_size=KEY_BYTES)
    for part in parts:
        key.update(len(part).to_bytes(8, "little"))
        key.update(part)
    return key.digest()


def _pack(result: Result) -> bytes:
    """Return a result as JSON, which preserves every digit of a float."""
    value: object = result
    if isinstance(result, Decoded):
        row, times = result.hypothesis, result.alignment
        columns = [each.tolist() for each in (times.starts, times.ends, times.probabilities)]
        value = [[row.tokens, row.avg_logprob, row.no_speech_prob], columns]
    return json.dumps(value, separators=(",", ":")).encode()


class JournalMarks:
    """Deletes journal entries as soon as no recording of the run needs them.

    A mark is the number of the journal's next entry. All entries that a recording adds lie between
    the mark at its begin and the mark at its end:

        entries        1 2 3 4 5 6 7 8 9
        recording 0    [---------]
        recording 1        [----------->     at the end of recording 0, entries 1 and 2 are deleted

    Entries of earlier runs that this run has read may belong to any recording. They are deleted
    when all recordings have ended. Entries of recordings that failed with a temporary error stay
    for the next run.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._first = ledger.mark()
        self._begins: dict[int, int] = {}
        self._protected: list[tuple[int, int]] = []  # spans of marks of recordings that failed
        self._lock = threading.Lock()  # another thread iterates over the sources

    def begin(self, number: int) -> None:
        """Note that a recording is about to be read."""
        with self._lock:
            self._begins[number] = self._ledger.mark()

    def end(self, number: int, *, keep: bool) -> None:
        """Note that a recording has finished or failed; `keep` protects its entries."""
        with self._lock:
            now = self._ledger.mark()
            begin = self._begins.pop(number)
            if keep:
                self._protected.append((begin, now))
            self._forget(self._first, min(self._begins.values(), default=now))

    def close(self) -> None:
        """Delete the remaining unprotected entries.

        Entries of earlier runs are deleted, too, unless a recording failed with a temporary error.
        """
        self._forget(self._first if self._protected else 0, self._ledger.mark())

    def _forget(self, start: int, end: int) -> None:
        """Delete the entries from one mark to another, without the protected spans."""
        for protected_start, protected_end in [*_merge(self._protected), (end, end)]:
            if start < min(protected_start, end):
                self._ledger.forget(start, min(protected_start, end))
            start = max(start, protected_end)


def _merge(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the spans in order; overlapping spans become one."""
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged
