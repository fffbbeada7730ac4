"""How a worker transcribes a span: `SpanTranscriber`, and its form with a loaded model."""

from dataclasses import replace
from typing import Final, Protocol

from whisperbatch.jobs.plans.format import PlannedSpan
from whisperbatch.jobs.plans.recordings import StoredFile
from whisperbatch.options import DETECTION_OPTIONS, LANGUAGE_DETECTION_OPTIONS, Options
from whisperbatch.transcriber import Transcriber
from whisperbatch.types import LanguageDetection, Source, Span, SpanSource, Transcript

UNDIVIDED: Final = ("diarize", "clip_timestamps", "prefix")
"""With these options, a recording is one span: they concern the recording as a whole."""


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
            span: its points; the transcript has exactly the chunks that a run of the whole
                recording has between these points.
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
        """See `SpanTranscriber`."""
        options = in_language(self._options, language) if language else self._options
        recording: Source = source  # type: ignore[assignment]  # has the methods of a file
        if not span.is_whole:
            recording = SpanSource(recording, Span(span.first, span.last))
        return self._asr.submit(recording, options=options)

    def detect_language(self, source: str | StoredFile) -> LanguageDetection:
        """See `SpanTranscriber`."""
        keywords = {name: getattr(self._options, name) for name in DETECTION_OPTIONS}
        return self._asr.detect_language(source, **keywords)  # type: ignore[arg-type]  # a file


def in_language(options: Options, language: str) -> Options:
    """Return options with a language, without those that choose a language."""
    default = Options()
    names = ("languages", *LANGUAGE_DETECTION_OPTIONS)
    return replace(options, language=language, **{name: getattr(default, name) for name in names})


def can_divide(options: Options) -> bool:
    """Return whether a recording may be divided into several spans with these options."""
    default = Options()
    return all(getattr(options, name) == getattr(default, name) for name in UNDIVIDED)
