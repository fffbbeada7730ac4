"""The model as a worker uses it: it transcribes spans, and detects the languages of recordings.

The language of a recording that is divided is detected once, before its spans.
"""

import threading
from collections import defaultdict
from dataclasses import replace
from typing import Final, Protocol

from whisperbatch.errors import AudioError, ClosedError, OptionError, WhisperBatchError
from whisperbatch.jobs.leases import Leases
from whisperbatch.jobs.plans.format import PlannedSpan
from whisperbatch.jobs.plans.recordings import READ_RANGE, StoredFile, open_recording
from whisperbatch.jobs.workers.results import DetectedLanguage, Results, failure_of, is_final
from whisperbatch.options import DETECTION_OPTIONS, LANGUAGE_DETECTION_OPTIONS, Options
from whisperbatch.transcriber import Transcriber
from whisperbatch.types import LanguageDetection, Source, Span, SpanSource, Transcript


class Running(Protocol):
    """A span that is being transcribed in the background."""

    def result(self) -> Transcript:
        """Wait for the end, and return the transcript.

        Raises:
            WhisperBatchError: the span failed.
            ClosedError: `cancel` was called.
        """
        ...

    def cancel(self) -> None:
        """Stop the work. Thread-safe."""
        ...


class SpanTranscriber(Protocol):
    """A model that transcribes spans and detects languages. Thread-safe."""

    def start(self, source: str | StoredFile, span: PlannedSpan, language: str | None) -> Running:
        """Begin to transcribe a span.

        Args:
            source: the recording, which stays open until the span has ended.
            span: its boundaries; the transcript has exactly the chunks that a run of the whole
                recording has between these boundaries.
            language: Whisper's code; None to detect it.
        """
        ...

    def detect_language(self, source: str | StoredFile) -> LanguageDetection:
        """Detect the language of a recording, as a run of the whole recording does."""
        ...


class ModelSpans:
    """Transcribes spans with a model; all spans share its batches.

    Args:
        asr: the model.
        options: of the plan.
    """

    def __init__(self, asr: Transcriber, options: Options) -> None:
        self._asr, self._options = asr, options

    def start(self, source: str | StoredFile, span: PlannedSpan, language: str | None) -> Running:
        """Begin to transcribe a span."""
        options = in_language(self._options, language) if language else self._options
        recording: Source = source  # type: ignore[assignment]  # has the methods of a file
        if not span.is_whole:
            recording = SpanSource(recording, Span(span.first, span.last))
        return self._asr.submit(recording, options=options)

    def detect_language(self, source: str | StoredFile) -> LanguageDetection:
        """Detect the language of a recording, as a run of the whole recording does."""
        keywords = {name: getattr(self._options, name) for name in DETECTION_OPTIONS}
        return self._asr.detect_language(source, **keywords)  # type: ignore[arg-type]  # a file


def in_language(options: Options, language: str) -> Options:
    """Return options with a language, without those that choose a language."""
    default = Options()
    names = ("languages", *LANGUAGE_DETECTION_OPTIONS)
    return replace(options, language=language, **{name: getattr(default, name) for name in names})


DURATION: Final = 120.0  # seconds of a lease: detection reads a few windows of a recording
POLL: Final = 1.0  # seconds


class Languages:
    """The detected languages in a store. Thread-safe.

    Args:
        results: of the store.
        leases: of the store, for tasks that detect a language.
        spans: the model.
    """

    def __init__(self, results: Results, leases: Leases, spans: SpanTranscriber) -> None:
        self._results, self._leases, self._spans = results, leases, spans
        self._known: dict[str, DetectedLanguage] = {}
        self._locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)  # by task
        self._lock = threading.Lock()  # of `_locks`

    def detect(self, span: PlannedSpan, stopping: threading.Event) -> DetectedLanguage:
        """Return the language of a span's recording.

        If another worker detects it now, wait for its result.

        Raises:
            AudioError: the recording cannot be read.
            OptionError: an option does not fit the recording.
            ClosedError: the worker stops.
        """
        task = span.language_task or ""
        language = self._known.get(task)
        if language is None:
            with self._lock:
                of_task = self._locks[task]
            with of_task:
                language = self._known[task] = self._find(task, span, stopping)
        failure = language.failure
        if failure:
            raise (OptionError if failure.kind == "option" else AudioError)(failure.message)
        return language

    def _find(self, task: str, span: PlannedSpan, stopping: threading.Event) -> DetectedLanguage:
        """Return the language that this worker or another one has detected."""
        if task in self._known:  # another thread was faster
            return self._known[task]
        while not stopping.is_set():
            found = self._results.language(task) or self._detect(task, span)
            if found:
                return found
            stopping.wait(POLL)
        raise ClosedError("the worker stops")

    def _detect(self, task: str, span: PlannedSpan) -> DetectedLanguage | None:
        """Detect the language and write it; None if another worker does."""
        generation = self._leases.generations().get(task)
        before = None if generation is None else self._leases.read(task, generation)
        if before and self._leases.is_held(before):
            return None
        lease = self._leases.acquire(task, before)
        if lease is None:
            return None
        try:
            found = self._results.language(task)  # another worker may have ended meanwhile
            return found or self._results.create_language(task, self._listen(span))
        finally:
            self._leases.finish(lease)

    def _listen(self, span: PlannedSpan) -> DetectedLanguage:
        try:
            with open_recording(span.uri, span.version, read_range=READ_RANGE) as source:
                detection = self._spans.detect_language(source)
        except WhisperBatchError as error:
            failure = failure_of(error)
            if not is_final(failure):
                raise
            return DetectedLanguage(None, failure=failure)
        return DetectedLanguage(detection.language, detection.probability)
