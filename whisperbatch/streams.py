"""The results of a pipeline run for users: streams of segments, and transcripts."""

import asyncio
import warnings
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Mapping
from contextlib import closing
from typing import Literal, TypeVar

from typing_extensions import Self

from whisperbatch.apart import ClosingGenerator, call_apart
from whisperbatch.errors import ClosedError, WhisperBatchError
from whisperbatch.pipeline_run import PipelineRun, Result
from whisperbatch.progress import Meter, ShowProgress
from whisperbatch.recording import End, RecordingState
from whisperbatch.text import brief_name, description
from whisperbatch.types import (
    Diarization,
    Explained,
    Notice,
    Omission,
    Segment,
    Transcript,
    iterate,
    to_seconds,
)

T = TypeVar("T")


class SegmentStream(Explained, Iterator[Segment]):
    """An iterator over the segments of one recording, in order, each as soon as it is decoded.

    A sentence that is not finished at the end of its chunk comes with the next chunk.

    You can stop early: `close()`, the end of a `with` block, or deleting the stream stops the work,
    joins the threads and closes the file.

    Attributes:
        source: name of the recording.
        total: length of the recording in seconds, as its file states it at the start; None if it
            states none. `duration` has the seconds that were read, at the end.
    """

    def __init__(
        self,
        run: PipelineRun,
        source: str,
        on_close: Callable[[], None],
        *,
        total: float | None = None,
        show: ShowProgress | None = None,
    ) -> None:
        self.source, self.total = source, total
        self._position, self._begun = 0.0, False
        self._meter = Meter("transcribe", source, total, show)
        self._on_close = on_close
        self._items = iter(run)
        self._closed = self._ended = False
        self._recording = RecordingState.beginning(0, run.given_language)  # replaced by the run's

    def __repr__(self) -> str:
        state = "ended" if self._ended else "closed" if self._closed else "open"
        total = "" if self.total is None else f" of {self.total:.1f}"
        position = f"at {self.position:.1f}{total} s"
        return description(
            self, brief_name(self.source), state, position, f"language={self.language!r}"
        )

    def __iter__(self) -> Self:
        iterate((), "a stream")
        return self

    async def __aiter__(self) -> AsyncIterator[Segment]:
        while (segment := await asyncio.to_thread(next, self, None)) is not None:
            yield segment

    def __next__(self) -> Segment:
        if not self._begun:
            self._begun = True
            self._advance(0.0)
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
            self._advance(segment.end)
            return segment
        self._recording, self._ended = item.recording, True
        self.close()
        self._advance(self._recording.duration)
        if item.error:
            raise item.error
        raise StopIteration

    def _advance(self, position: float) -> None:
        """Note a position, and show it. If the function that shows it fails, the work ends."""
        self._position = max(position, self._position)
        try:
            if self._ended:
                self._meter.end(position)
            else:
                self._meter.advance(position)
        except BaseException:
            self.close()
            raise

    @property
    def position(self) -> float:
        """End of the audio that is transcribed, in seconds from the start of the recording."""
        return self._position

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
        return to_seconds(self._recording.checked.total()) if self._ended else None

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


class Transcripts(ClosingGenerator[T]):
    """A generator that warns if it is discarded before its first item was requested.

    Args:
        items: the generator, which has not been started.
    """

    def __init__(self, items: Generator[T, None, None]) -> None:
        self._items = items
        self._on_close: Callable[[], None] = _nothing
        self._state: Literal["not started", "started", "closed"] = "not started"

    def __repr__(self) -> str:
        return description(self, self._state)

    def __next__(self) -> T:
        self._state = "started"
        try:
            return next(self._items)
        except BaseException:
            self.close()
            raise

    def call_on_close(self, function: Callable[[], None]) -> None:
        """Call a function when the generator ends or is closed, after the work has stopped."""
        self._on_close = function

    def close(self) -> None:
        """Stop the work. Safe to call twice."""
        self._state = "closed"
        on_close, self._on_close = self._on_close, _nothing
        try:
            self._items.close()
        finally:
            on_close()

    def __del__(self) -> None:
        if not hasattr(self, "_state"):
            return
        try:
            if self._state == "not started":
                warnings.warn(
                    "transcribe_many(...) was discarded, and nothing was transcribed: it "
                    "transcribes while you iterate; write: for transcript in transcribe_many(...)",
                    RuntimeWarning,
                    stacklevel=2,
                )
        finally:
            self.close()


def transcripts(
    run: PipelineRun, on_error: Literal["raise", "yield"], show: ShowProgress | None = None
) -> Generator[Transcript | WhisperBatchError, None, None]:
    """Yield the transcript of each recording when the recording ends, or yield or raise its error.

    Args:
        run: a run that has not been iterated.
        on_error: "yield" yields the error of a recording, and continues; "raise" raises it.
        show: is called with the progress of each recording.
    """
    with closing(segments_and_transcripts(iter(run), show)) as items:
        for _, item in items:
            if isinstance(item, WhisperBatchError) and on_error == "raise":
                raise item
            if not isinstance(item, Segment):
                yield item


def segments_and_transcripts(
    results: Generator[Result, None, None], show: ShowProgress | None = None
) -> Generator[tuple[int, Segment | Transcript | WhisperBatchError], None, None]:
    """Yield each segment of each recording and, at its end, the recording's transcript or error.

    Args:
        results: of a run; closed at the end.
        show: is called with the progress of each recording, by the thread that iterates.

    Yields:
        (recording, item), with the number of the recording in the run.
    """
    segments: dict[int, list[Segment]] = {}
    meters: dict[int, Meter] = {}
    with closing(results) as items:
        for item in items:
            recording = item.recording if isinstance(item, End) else item[0]
            number = recording.number
            meter = meters.get(number) or meters.setdefault(number, _meter(recording, show))
            if isinstance(item, End):
                meters.pop(number).end(recording.duration)
                yield number, item.error or recording.transcript(segments.pop(number, []))
            else:
                segment = item[1]
                meter.advance(segment.end)
                segments.setdefault(number, []).append(segment)
                yield number, segment


def _meter(recording: RecordingState, show: ShowProgress | None) -> Meter:
    total = recording.reader.duration if recording.reader else None
    return Meter("transcribe", recording.source or "", total, show, recording.begun)


def collect(stream: SegmentStream) -> Transcript:
    """Read a stream to its end and return the transcript."""
    with stream:
        segments = list(stream)
        return stream._recording.transcript(segments)  # noqa: SLF001 - of the same module
