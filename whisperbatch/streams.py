"""The results of a pipeline run for users: streams of segments, and transcripts."""

from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import AbstractContextManager, closing
from typing import Literal, TypeVar

from typing_extensions import Self

from whisperbatch.apart import call_apart
from whisperbatch.errors import ClosedError, WhisperBatchError
from whisperbatch.pipeline import PipelineRun, Result
from whisperbatch.recording import End, RecordingState
from whisperbatch.types import Diarization, Notice, Omission, Segment, Transcript, to_seconds

T = TypeVar("T")


class SegmentStream(Iterator[Segment]):
    """An iterator over the segments of one recording, in order, each as soon as it is decoded.

    A sentence that is not finished at the end of its chunk comes with the next chunk.

    You can stop early: `close()`, the end of a `with` block, or deleting the stream stops the work,
    joins the threads and closes the file.

    Attributes:
        source: name of the recording.
    """

    def __init__(self, run: PipelineRun, source: str, on_close: Callable[[], None]) -> None:
        self.source = source
        self._on_close = on_close
        self._items = iter(run)
        self._closed = self._ended = False
        self._recording = RecordingState.beginning(0, run.given_language)  # replaced by the run's

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Segment:
        try:
            item = next(self._items)
        except ClosedError:
            was_closed = self._closed  # by another thread, during `next`
            self.close()
            if was_closed:
                raise StopIteration from None
            raise
        except BaseException:
            self.close()
            raise
        if self._closed:  # by another thread, during `next`
            self.close()
            raise StopIteration
        if not isinstance(item, End):
            self._recording, segment = item
            return segment
        self._recording, self._ended = item.recording, True
        self.close()
        if item.error:
            raise item.error
        raise StopIteration

    @property
    def language(self) -> str | None:
        """The language, given or detected.

        A detected language is None before the first segment, and if there is no speech. If the
        recording has no random access, later chunks may change the language, which then changes
        with the first segment of these chunks; segments that were returned before keep their
        language.
        """
        decision = self._recording.published
        return decision.language if decision else None

    @property
    def language_probability(self) -> float:
        """Probability of the detected language; 1.0 for a given language."""
        decision = self._recording.published
        return decision.probability if decision else 0.0

    @property
    def language_probabilities(self) -> Mapping[str, float]:
        """Probability of each language; empty for a given language."""
        decision = self._recording.published
        return decision.probabilities if decision else {}

    @property
    def duration(self) -> float | None:
        """Seconds that were read, after the last segment; None before."""
        return self._recording.duration if self._ended else None

    @property
    def checked_duration(self) -> float | None:
        """Seconds that the VAD rejects and the model checked; as `duration`."""
        return to_seconds(self._recording.checked) if self._ended else None

    @property
    def recovered_duration(self) -> float | None:
        """Seconds that count as speech only because of this check; as `duration`."""
        return to_seconds(self._recording.recovered) if self._ended else None

    @property
    def omissions(self) -> tuple[Omission, ...]:
        """Removed text and speech without text, so far."""
        return tuple(self._recording.omissions)

    @property
    def notices(self) -> tuple[Notice, ...]:
        """Facts about the recording that you must know, so far."""
        return self._recording.notices.all()

    @property
    def chunks(self) -> int:
        """Number of chunks decoded so far."""
        return self._recording.chunks

    @property
    def redecoded(self) -> int:
        """Number of chunks decoded again so far, see `Transcript.redecoded`."""
        return self._recording.redecoded

    @property
    def diarization(self) -> Diarization | None:
        """The speakers and their turns, after the last segment, with `diarize`; None before."""
        return self._recording.diarization

    @property
    def final_segments(self) -> tuple[Segment, ...] | None:
        """With `diarize`, all segments with their final speakers, after the last segment.

        The segments of the stream have provisional speakers. None before.
        """
        return self._recording.final_segments

    def call_on_close(self, function: Callable[[], None]) -> None:
        """Call a function when the stream is closed, after the work has stopped.

        Args:
            function: is called after the functions that were given before.
        """
        previous = self._on_close

        def call_all() -> None:
            try:
                previous()
            finally:
                function()

        self._on_close = call_all

    def close(self) -> None:
        """Stop the work and free its threads and files. Safe to call twice, and from any thread.

        If another thread is waiting for a segment, its iteration stops when that segment is ready.
        """
        self._closed = True
        try:
            self._items.close()
        finally:
            on_close, self._on_close = self._on_close, _nothing
            if on_close is not _nothing:
                call_apart(on_close, patience=None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_items"):
            self.close()


def _nothing() -> None:
    """Free nothing: the stream was closed before."""


def transcripts(
    run: PipelineRun, on_error: Literal["raise", "yield"]
) -> Generator[Transcript | WhisperBatchError, None, None]:
    """Yield the transcript of each recording when the recording ends, or yield or raise its error.

    Args:
        run: a run that has not been iterated.
        on_error: "yield" yields the error of a recording, and continues; "raise" raises it.
    """
    with closing(segments_and_transcripts(iter(run))) as items:
        for _, item in items:
            if isinstance(item, WhisperBatchError) and on_error == "raise":
                raise item
            if not isinstance(item, Segment):
                yield item


def segments_and_transcripts(
    results: Generator[Result, None, None],
) -> Generator[tuple[int, Segment | Transcript | WhisperBatchError], None, None]:
    """Yield each segment of each recording and, at its end, the recording's transcript or error.

    Args:
        results: of a run; closed at the end.

    Yields:
        (recording, item), with the number of the recording in the run.
    """
    segments: dict[int, list[Segment]] = {}
    with closing(results) as items:
        for item in items:
            if isinstance(item, End):
                number = item.recording.number
                found = segments.pop(number, [])
                yield number, item.error or item.recording.transcript(found)
            else:
                recording, segment = item
                segments.setdefault(recording.number, []).append(segment)
                yield recording.number, segment


def collect(stream: SegmentStream) -> Transcript:
    """Read a stream to its end and return the transcript."""
    with stream:
        segments = list(stream)
        return stream._recording.transcript(segments)  # noqa: SLF001 - of the same module


def closing_after(
    resource: AbstractContextManager[object], items: Generator[T, None, None]
) -> Generator[T, None, None]:
    """Yield items, and then close what they need."""
    with resource:
        yield from items
