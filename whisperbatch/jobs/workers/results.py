"""The result of a span: one object of the store, written once.

results/04/04d2....json    a transcript, or the reason why there is none
failures/04d2....json      that this result is a failure, for `status`
languages/8c1e....json     the language of a recording, which its spans need
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from whisperbatch.errors import WriteError
from whisperbatch.jobs.plans.format import Failure, PlannedSpan
from whisperbatch.jobs.plans.stores import Store
from whisperbatch.types import Transcript, from_values, to_values

T = TypeVar("T")

VERSION: Final = 1
RESULTS: Final = "results"
FAILURES: Final = "failures"
LANGUAGES: Final = "languages"
SUFFIX: Final = ".json"


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanResult:
    """What became of a span.

    Attributes:
        id: of the span.
        uri: of its recording, without passwords and signatures.
        worker: name of the worker.
        engine: fingerprint of the engine.
        started: when the worker began to read the span, in seconds since 1970.
        finished: when the result was complete.
        transcript: of the span, in times of the recording; None if the span failed.
        failure: why the span failed; None if it did not.
    """

    id: str
    uri: str
    worker: str
    engine: str
    started: float
    finished: float
    transcript: Transcript | None = None
    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class DetectedLanguage:
    """The language of a recording, which a separate task has detected.

    Attributes:
        language: Whisper's code; None if the recording has no speech.
        probability: of the language.
        failure: why the language could not be detected; None if it was.
    """

    language: str | None
    probability: float = 0.0
    failure: Failure | None = None


class Results:
    """The results in a store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def ids(self) -> set[str]:
        """Return the ids of all spans that have a result."""
        names = self._store.names(RESULTS)
        return {name.rpartition("/")[2].removesuffix(SUFFIX) for name in names}

    def exists(self, span: str) -> bool:
        """Return whether a span has a result."""
        return self._store.exists(_name(span))

    def create(self, result: SpanResult) -> bool:
        """Write the result of a span, unless the span has one. Return whether it was written."""
        created = self._store.create(
            _name(result.id), _encode({"version": VERSION, **to_values(result)})
        )
        if created and result.failure:
            name = f"{FAILURES}/{result.id}{SUFFIX}"
            self._store.write(name, _encode(to_values(result.failure)))
        return created

    def failed_ids(self) -> set[str]:
        """Return the ids of all spans whose result is a failure."""
        return {name.removesuffix(SUFFIX) for name in self._store.names(FAILURES)}

    def delete_failure(self, span: PlannedSpan) -> None:
        """Delete the result of a span, and the language of its recording, if they are failures."""
        task = span.language_task
        if task and (language := self.language(task)) and language.failure:
            self._store.delete(f"{LANGUAGES}/{task}{SUFFIX}")
        if (result := self.read(span.id)) and result.failure:
            self._store.delete(_name(span.id))
        self._store.delete(f"{FAILURES}/{span.id}{SUFFIX}")

    def read(self, span: str) -> SpanResult | None:
        """Return the result of a span; None if there is none.

        Raises:
            WriteError: the object is damaged, or the store cannot be read.
        """
        return self._read(_name(span), _result)

    def language(self, task: str) -> DetectedLanguage | None:
        """Return the language that a task has detected; None if the task is not done.

        Raises:
            WriteError: the object is damaged, or the store cannot be read.
        """
        return self._read(f"{LANGUAGES}/{task}{SUFFIX}", _language)

    def create_language(self, task: str, language: DetectedLanguage) -> DetectedLanguage:
        """Write the language of a task, unless there is one; return the language that is there."""
        if self._store.create(f"{LANGUAGES}/{task}{SUFFIX}", _encode(to_values(language))):
            return language
        return self.language(task) or language

    def _read(self, name: str, decode: Callable[[dict[str, Any]], T]) -> T | None:
        """Return the value of an object; None if there is no such object."""
        data = self._store.read(name)
        if data is None:
            return None
        try:
            return decode(json.loads(data))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            place = f"{self._store.uri}/{name}"
            raise WriteError(f"{place}: is damaged; delete it, and run work again") from error


def _name(span: str) -> str:
    return f"{RESULTS}/{span[:2]}/{span}{SUFFIX}"


def _encode(value: Mapping[str, Any]) -> bytes:
    return (json.dumps(value) + "\n").encode()


def _result(value: dict[str, Any]) -> SpanResult:
    if value.pop("version") != VERSION:
        raise ValueError
    return from_values(SpanResult, value)


def _language(value: dict[str, Any]) -> DetectedLanguage:
    return from_values(DetectedLanguage, value)
