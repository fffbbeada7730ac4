"""The results of a pipeline run for users: streams of segments, transcripts, and submissions.

A submission is a recording that is added while others are transcribed (`Transcriber.submit`):

    waiting    at most MAX_ACTIVE recordings are read and decoded at a time
    active     a thread collects the segments; threads and tasks wait for them
    ended      with a transcript or an error, or cancelled
"""

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Mapping
from contextlib import AbstractContextManager, closing
from functools import partial
from typing import Any, Final, Literal, TypeVar

from typing_extensions import Self

from whisperbatch.apart import call_apart
from whisperbatch.boundary import as_error
from whisperbatch.errors import ClosedError, EngineError, WhisperBatchError
from whisperbatch.pipeline import PipelineRun, Result
from whisperbatch.recording import End, RecordingState
from whisperbatch.threads import in_background, reset_after_fork, stop_at_exit
from whisperbatch.types import Diarization, Notice, Omission, Segment, Transcript, to_seconds

MAX_ACTIVE: Final = 64  # recordings; each has an open file and threads

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


class Submission:
    """A recording that is transcribed in the background. Thread-safe.

    Iterate with `for` or `async for`: the segments come in order, each as soon as it is decoded.
    Any number of threads and tasks may iterate, each from the first segment. `result()` and `await`
    wait for the transcript, and raise the error of the recording. At the end of a `with` or
    `async with` block, a recording that has not ended is cancelled.

    `Transcriber.submit` returns a Submission.
    """

    def __init__(self, run: PipelineRun) -> None:
        self._run: PipelineRun | None = run  # None after the end: the run holds the source
        self._changed = threading.Condition()
        self._segments: list[Segment] = []
        self._result: Transcript | WhisperBatchError | None = None
        self._tasks: list[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = []
        reset_after_fork(self)

    def _after_fork(self) -> None:
        """End without a result: the threads are in the parent. See `threads.Inheritable`."""
        self._changed, self._tasks = threading.Condition(), []
        self._result = self._result or EngineError(
            "the recording was submitted before a fork, and its threads are in the parent process; "
            "submit the recording in the process that needs the result"
        )

    @property
    def done(self) -> bool:
        """Whether the recording has ended: with a transcript, with an error, or cancelled."""
        return self._result is not None

    def result(self, timeout: float | None = None) -> Transcript:
        """Wait for the end of the recording and return the transcript.

        Args:
            timeout: maximum time to wait, in seconds; None for no limit.

        Returns:
            The transcript; it has no segments if the recording has no speech.

        Raises:
            TimeoutError: the recording has not ended within `timeout`.
            ClosedError: the recording was cancelled, or the Transcriber was closed.
            AudioError: the recording cannot be read.
            EngineError: the engine failed on rows of this recording.
            MissingExtraError: the package that an option needs is not installed.
            OptionError: an option does not fit the recording.
            InternalError: an unexpected exception, which is a bug.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._result is not None, timeout)
        if self._result is None:
            raise TimeoutError(f"the recording has not ended within {timeout:g} s")
        if isinstance(self._result, WhisperBatchError):
            raise self._result.with_traceback(None)  # of the call before
        return self._result

    def cancel(self) -> None:
        """Stop the work on the recording. `result` then raises ClosedError. Safe to call twice."""
        if not self.done:
            call_apart(self._cancel)

    def _cancel(self) -> None:
        self._end(ClosedError("the recording was cancelled"))
        run, self._run = self._run, None
        if run:
            run.stop()

    def __iter__(self) -> Iterator[Segment]:
        position = 0
        while (segment := self._segment(position)) is not None:
            yield segment
            position += 1

    async def __aiter__(self) -> AsyncIterator[Segment]:
        position = 0
        while True:
            await self._until(lambda: self._has(position))  # noqa: B023 - called in this pass only
            if (segment := self._segment(position)) is None:
                return
            yield segment
            position += 1

    def __await__(self) -> Generator[Any, None, Transcript]:
        return self._await_result().__await__()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.cancel()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.cancel()

    async def _await_result(self) -> Transcript:
        await self._until(lambda: self.done)
        return self.result()

    async def _until(self, is_due: Callable[[], bool]) -> None:
        """Wait in an event loop until a condition is true; it is checked at every change."""
        loop = asyncio.get_running_loop()
        while True:
            future: asyncio.Future[None] = loop.create_future()
            with self._changed:
                if is_due():
                    return
                self._tasks.append((loop, future))
            try:
                await future
            finally:
                with self._changed:
                    if (loop, future) in self._tasks:
                        self._tasks.remove((loop, future))

    def _has(self, position: int) -> bool:
        return position < len(self._segments) or self.done

    def _segment(self, position: int) -> Segment | None:
        """Wait for a segment; return None after the last, or raise the error of the recording."""
        with self._changed:
            self._changed.wait_for(lambda: self._has(position))
            if position < len(self._segments):
                return self._segments[position]
        self.result()
        return None

    def _collect(self) -> None:
        """Transcribe the recording, in the thread of this submission."""
        if (run := self._run) is None:  # cancelled
            return
        try:
            with closing(segments_and_transcripts(run.results())) as items:
                for _, item in items:
                    if isinstance(item, Segment):
                        self._add(item)
                    else:
                        self._end(item)
        except Exception as error:  # noqa: BLE001 - raised by `result`
            self._end(as_error(error, None))
        except BaseException as error:  # noqa: BLE001 - SystemExit of a source, for example
            stopped = ClosedError(f"the recording was stopped by {type(error).__name__}")
            stopped.__cause__ = error
            self._end(stopped)
        finally:
            self._run = None

    def _add(self, segment: Segment) -> None:
        with self._changed:
            if not self.done:
                self._segments.append(segment)
                self._notify()

    def _end(self, result: Transcript | WhisperBatchError) -> None:
        with self._changed:
            if self._result is None:
                self._result = result
                self._notify()

    def _notify(self) -> None:
        self._changed.notify_all()
        tasks, self._tasks = self._tasks, []
        for loop, future in tasks:
            try:
                loop.call_soon_threadsafe(_wake, future)
            except RuntimeError:  # the event loop is closed, and the task with it
                continue


class Submissions:
    """The submissions of a Transcriber: the active ones, and those that wait. Thread-safe."""

    def __init__(self) -> None:
        self._waiting: deque[Submission] = deque()
        self._active: dict[Submission, threading.Thread] = {}
        self._changed = threading.Condition()
        self._closed = False
        stop_at_exit(self)

    def stop_at_exit(self) -> None:
        """Cancel all submissions. See `threads.Stoppable`."""
        with self._changed:
            self._closed = True
            cancelled = [*self._waiting, *self._active]
            self._waiting.clear()
        for submission in cancelled:
            submission._cancel()  # noqa: SLF001 - of the same module

    def add(self, run: PipelineRun) -> Submission:
        """Start a run, or put it behind the runs that wait."""
        submission = Submission(run)
        with self._changed:
            if self._closed:
                raise ClosedError("this Transcriber is closed; load the model again")
            self._waiting.append(submission)
            self._start()
        return submission

    def close(self) -> None:
        """Cancel all submissions, and wait until their threads have ended."""
        with self._changed:
            self._closed = True
            cancelled = [*self._waiting, *self._active]
            self._waiting.clear()  # none of them starts before it is cancelled
            threads = list(self._active.values())
        for submission in cancelled:
            submission.cancel()
        for thread in threads:
            if thread is not threading.current_thread():
                thread.join()

    def _start(self) -> None:
        while self._waiting and len(self._active) < MAX_ACTIVE:
            submission = self._waiting.popleft()
            if submission.done:  # cancelled
                continue
            try:
                thread = in_background(partial(self._transcribe, submission))
            except RuntimeError as error:  # the system gives no more threads
                if self._active:  # when one of them ends, there is a thread
                    self._waiting.appendleft(submission)
                    return
                submission._end(as_error(error, None))  # noqa: SLF001 - of the same module
            else:
                self._active[submission] = thread

    def _transcribe(self, submission: Submission) -> None:
        try:
            submission._collect()  # noqa: SLF001 - of the same module
        finally:
            with self._changed:
                del self._active[submission]
                self._start()


def _wake(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)
