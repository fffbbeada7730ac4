"""How a worker transcribes a span: `SpanTranscriber`, and its form for whole recordings."""

from typing import Final, Protocol

from whisperbatch.errors import OptionError
from whisperbatch.jobs.plans.format import PlannedSpan
from whisperbatch.jobs.plans.recordings import StoredFile
from whisperbatch.options import DETECTION_OPTIONS, Options, resolve
from whisperbatch.transcriber import Transcriber
from whisperbatch.types import LanguageDetection, Transcript

DIVIDES: Final = False
"""Whether `open_spans` transcribes parts of recordings; if not, plans do not divide recordings."""


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


class WholeRecordings:
    """Transcribes spans that are whole recordings.

    Args:
        asr: the model.
        options: of the plan.
    """

    def __init__(self, asr: Transcriber, options: Options) -> None:
        self._asr, self._options = asr, options

    def start(self, source: str | StoredFile, span: PlannedSpan, language: str | None) -> Running:
        """See `SpanTranscriber`."""
        if not span.is_whole:
            raise OptionError(
                "the plan divides recordings, which this version cannot do; make the plan again"
            )
        options = resolve(self._options, language=language) if language else self._options
        return self._asr.submit(source, options=options)  # type: ignore[arg-type]  # a file

    def detect_language(self, source: str | StoredFile) -> LanguageDetection:
        """See `SpanTranscriber`."""
        keywords = {name: getattr(self._options, name) for name in DETECTION_OPTIONS}
        return self._asr.detect_language(source, **keywords)  # type: ignore[arg-type]  # a file


def open_spans(asr: Transcriber, options: Options) -> SpanTranscriber:
    """Return the transcriber of the spans of a plan."""
    return WholeRecordings(asr, options)
