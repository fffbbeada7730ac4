"""The results of spans: one object of the store for each, written once.

results/04/04d2....json    a transcript, or the reason why there is none
failures/04d2....json      that this result is a failure, for `status`
languages/8c1e....json     the language of a recording, which its spans need

Only an error that is final is a result:

error                                         what a worker does
the recording is missing, damaged, changed    writes the failure as the result
an option does not fit the recording          writes the failure as the result
the store of the recording fails              tries again after `STORAGE_PAUSES`; then leaves the
                                              span to other workers and later runs
the engine fails, or a bug                    tries again once; then leaves the span to other
                                              workers; the failure is the result after `ATTEMPTS`
                                              of all workers
the worker dies                               another worker transcribes the spans of the task one
                                              at a time; the failure is the result after `ATTEMPTS`
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from whisperbatch.addresses import without_secrets
from whisperbatch.errors import (
    AudioError,
    EngineError,
    OptionError,
    WhisperBatchError,
    WriteError,
)
from whisperbatch.jobs.plans.format import Failure, PlannedSpan
from whisperbatch.jobs.plans.recordings import StoreError
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


ATTEMPTS: Final = 3
STORAGE_PAUSES: Final = (5.0, 30.0)  # seconds before further attempts of one worker
ENGINE_PAUSES: Final = (5.0,)
MAX_IN_A_ROW: Final = 3
"""Spans that fail in a row for reasons of the engine: the machine is broken, so the worker ends."""

STORAGE: Final = "storage"
_KINDS: Final[tuple[tuple[type[WhisperBatchError], str], ...]] = (
    (StoreError, STORAGE),
    (AudioError, "audio"),
    (OptionError, "option"),
    (EngineError, "engine"),
)
FINAL_KINDS: Final = ("audio", "option")


def failure_of(error: WhisperBatchError) -> Failure:
    """Return the failure of a span that ended with this error."""
    kind = next((kind for cls, kind in _KINDS if isinstance(error, cls)), "internal")
    return Failure(kind, str(error))


def is_final(failure: Failure) -> bool:
    """Return whether a further attempt would fail, too."""
    return failure.kind in FINAL_KINDS


def pauses_after(failure: Failure) -> tuple[float, ...]:
    """Return the seconds before each further attempt of one worker; () if it tries no more."""
    if is_final(failure):
        return ()
    return STORAGE_PAUSES if failure.kind == STORAGE else ENGINE_PAUSES


class EngineFailures:
    """Counts the recordings in a row that failed for reasons of the engine."""

    def __init__(self) -> None:
        self._count = 0

    def note(self, failure: Failure | None) -> None:
        """Note how a recording ended; None stands for a transcript.

        Raises:
            EngineError: this is the last of `MAX_IN_A_ROW` failures.
        """
        if failure is None:
            self._count = 0
        elif failure.kind not in (STORAGE, *FINAL_KINDS):
            self._count += 1
            if self._count == MAX_IN_A_ROW:
                raise EngineError(
                    f"{MAX_IN_A_ROW} recordings in a row failed, so this worker ends; the last: "
                    f"{failure.message}"
                )


def crash_failure(uri: str, attempts: int) -> Failure:
    """Return the failure of a span at which workers died."""
    name = without_secrets(uri, whole=True)
    return Failure(
        "crash", f"{name}: {attempts} attempts failed; the last worker died at this recording"
    )
