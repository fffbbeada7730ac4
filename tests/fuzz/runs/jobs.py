"""The jobs of random sequences: each uses a Transcriber in one way, in its own thread.

Whatever the other threads do, a recording has the same result as alone: the same text, times and
language, to the last digit, or the same error after the same segments. A recording that is
cancelled or closed gives the first of these segments.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from itertools import islice
from typing import Any

import whisperbatch as wb
from tests.fuzz.runs.material import Job, Material, Outcome, Result, read, shown
from whisperbatch.types import Source


class BrokenSourcesError(Exception):
    """Raised by an iterable of sources."""


class JobThread:
    """A job of a sequence. Call it in its thread.

    Args:
        material: the recordings, whose outcomes are known.
        asr: used by all jobs of the sequence.
        closed: set before the Transcriber is closed; only then may a recording end for this reason.
        job: what to do.
    """

    def __init__(
        self, material: Material, asr: wb.Transcriber, closed: threading.Event, job: Job
    ) -> None:
        self.asr, self.job = asr, job
        self.keywords = material.options[job.options]
        self.stop_after = job.stop * material.delay  # seconds
        self._material, self._closed = material, closed

    def __call__(self) -> None:
        """Do the job, and check the results."""
        time.sleep(self.job.start * self._material.delay)
        JOBS[self.job.kind](self)

    def source(self, recording: int) -> Source:
        """Return a new source of a recording."""
        return self._material.sources[recording]()

    def alone(self, recording: int) -> Outcome:
        """Return what a recording gives alone."""
        return self._material.alone(recording, self.job.options)

    def results_alone(self) -> list[Result]:
        """Return the results of the job's recordings alone."""
        return [self.alone(recording).result for recording in self.job.recordings]

    def stream(self, recording: int) -> wb.SegmentStream:
        """Open a stream."""
        return self.asr.stream(self.source(recording), **self.keywords)

    def submit(self) -> list[tuple[int, wb.Submission]]:
        """Submit the recordings, and return them in the order in which they are awaited."""
        handles = []
        for recording in self.job.recordings:
            source = self.source(recording)
            try:
                handle = self.asr.submit(source, weight=self.job.weight, **self.keywords)
            except wb.ClosedError:
                assert self._closed.is_set()
            else:
                handles.append((recording, handle))
        return [handles[index] for index in self.job.order if index < len(handles)]

    def transcribe_many(
        self,
        sources: Iterable[Source] | None = None,
        *,
        raised: type[Exception] = wb.ClosedError,
        **keywords: Any,
    ) -> Generator[object, None, None]:
        """Yield the results, and at the end an error of the class `raised`, or a ClosedError."""
        sources = sources or map(self.source, self.job.recordings)
        try:
            yield from self.asr.transcribe_many(sources, **keywords, **self.keywords)
        except (raised, wb.ClosedError) as error:
            yield error

    def check(self, recording: int, result: object, segments: Sequence[wb.Segment]) -> None:
        """Check the result and the segments of a recording."""
        if isinstance(result, wb.ClosedError):
            assert self._closed.is_set()
            self.check_first(recording, segments)
        else:
            expected = self.alone(recording)
            assert shown(result) == shown(expected.result)
            assert shown(tuple(segments)) == shown(expected.segments)

    def check_first(self, recording: int, segments: Sequence[wb.Segment]) -> None:
        """Check the first segments of a recording."""
        expected = self.alone(recording).segments[: len(segments)]
        assert shown(tuple(segments)) == shown(expected)

    def check_many(
        self,
        results: Iterable[object],
        expected: Sequence[object],
        *,
        ordered: bool = True,
        complete: bool = True,
    ) -> None:
        """Check the results of `transcribe_many`."""
        left = [*map(shown, expected)]
        for result in results:
            if isinstance(result, wb.ClosedError):
                assert self._closed.is_set()
                return
            assert shown(result) in (left[:1] if ordered else left)
            left.remove(shown(result))
        assert not (complete and left)


def submit(thread: JobThread) -> None:
    """Submit the recordings, and wait for them in any order."""
    for recording, handle in thread.submit():
        thread.check(recording, *result_of(handle))


def result_of(handle: wb.Submission) -> tuple[Result, tuple[wb.Segment, ...]]:
    """Wait for a submission, and return its result and its segments."""
    try:
        result: Result = handle.result()
    except wb.WhisperBatchError as raised:
        result = raised
    assert handle.done
    segments, error = read(lambda: handle)
    assert error is (result if isinstance(result, wb.WhisperBatchError) else None)
    return result, segments


def cancel(thread: JobThread) -> None:
    """Submit the recordings, and cancel one of them."""
    handles = thread.submit()
    for recording, handle in handles[:1]:
        with suppress(wb.WhisperBatchError):
            thread.check_first(recording, [*islice(handle, thread.job.taken)])
        time.sleep(thread.stop_after)
        handle.cancel()
        assert handle.done
        result, segments = result_of(handle)
        if isinstance(result, wb.ClosedError):
            thread.check_first(recording, segments)
        else:
            thread.check(recording, result, segments)
    for recording, handle in handles[1:]:
        thread.check(recording, *result_of(handle))


def await_all(thread: JobThread) -> None:
    """Await submissions in the tasks of an event loop, one of which soon stops waiting."""

    async def check(recording: int, handle: wb.Submission) -> None:
        segments = []
        try:
            async for segment in handle:
                segments.append(segment)  # noqa: PERF401 - the loop may raise an error
            result: Result = await handle
        except wb.WhisperBatchError as error:
            result = error
        thread.check(recording, result, segments)

    async def main() -> None:
        handles = thread.submit()
        for _, handle in handles[:1]:
            with suppress(asyncio.TimeoutError, wb.WhisperBatchError):
                await asyncio.wait_for(handle, thread.stop_after)
        await asyncio.gather(*(check(recording, handle) for recording, handle in handles))

    asyncio.run(main())


def transcribe(thread: JobThread) -> None:
    """Transcribe the recordings one after the other."""
    for recording in thread.job.recordings:
        try:
            transcript = thread.asr.transcribe(thread.source(recording), **thread.keywords)
        except wb.WhisperBatchError as error:
            result: Result = error
            segments = () if isinstance(error, wb.ClosedError) else thread.alone(recording).segments
        else:
            result, segments = transcript, transcript.segments
        thread.check(recording, result, segments)


def stream(thread: JobThread) -> None:
    """Read streams to their end, one after the other."""
    for recording in thread.job.recordings:
        segments, error = read(lambda recording=recording: thread.stream(recording))  # type: ignore[misc]
        alone = thread.alone(recording).result
        complete = alone if isinstance(alone, wb.Transcript) else None
        thread.check(recording, error or complete, segments)


def close(thread: JobThread) -> None:
    """Read a few segments of a stream, and close it."""
    _stop_early(thread, lambda opened: islice(opened, thread.job.taken))


def interrupt(thread: JobThread) -> None:
    """Read a stream that another thread closes."""

    def interrupted(opened: wb.SegmentStream) -> Iterator[wb.Segment]:
        timer = threading.Timer(thread.stop_after, opened.close)
        timer.daemon = True
        timer.start()
        try:
            yield from opened
        finally:
            timer.join()

    _stop_early(thread, interrupted)


def _stop_early(
    thread: JobThread, some: Callable[[wb.SegmentStream], Iterable[wb.Segment]]
) -> None:
    recording = thread.job.recordings[0]
    try:
        opened = thread.stream(recording)
    except wb.WhisperBatchError as refused:
        thread.check(recording, refused, ())
        return
    segments, error = read(lambda: some(opened))
    opened.close()
    assert [*opened] == []
    if error:
        thread.check(recording, error, segments)
    else:
        thread.check_first(recording, segments)


def many(thread: JobThread) -> None:
    """Transcribe the recordings together, in their order."""
    thread.check_many(thread.transcribe_many(on_error="yield"), thread.results_alone())


def unordered(thread: JobThread) -> None:
    """Transcribe the recordings together, in any order."""
    results = thread.transcribe_many(on_error="yield", ordered=False)
    thread.check_many(results, thread.results_alone(), ordered=False)


def until_an_error(thread: JobThread) -> None:
    """Transcribe the recordings together, up to the first that fails."""
    expected = thread.results_alone()
    failed = [isinstance(result, Exception) for result in expected]
    count = failed.index(True) + 1 if any(failed) else len(expected)
    thread.check_many(thread.transcribe_many(raised=wb.WhisperBatchError), expected[:count])


def abandon(thread: JobThread) -> None:
    """Take a few results of recordings that are transcribed together."""
    ordered = bool(thread.job.options % 2)
    with closing(thread.transcribe_many(on_error="yield", ordered=ordered)) as results:
        taken = islice(results, thread.job.taken)
        thread.check_many(taken, thread.results_alone(), ordered=ordered, complete=False)
        time.sleep(thread.stop_after)


def broken(thread: JobThread) -> None:
    """Transcribe recordings together; the iterable of the sources fails at its end."""
    error = BrokenSourcesError("there are no further sources")

    def sources() -> Iterator[Source]:
        yield from map(thread.source, thread.job.recordings)
        raise error

    ordered = bool(thread.job.options % 2)
    results = thread.transcribe_many(
        sources(), raised=BrokenSourcesError, on_error="yield", ordered=ordered
    )
    thread.check_many(results, [*thread.results_alone(), error], ordered=ordered)


JOBS: dict[str, Callable[[JobThread], None]] = {
    "submit": submit,
    "cancel": cancel,
    "await": await_all,
    "transcribe": transcribe,
    "stream": stream,
    "close": close,
    "interrupt": interrupt,
    "many": many,
    "unordered": unordered,
    "until an error": until_an_error,
    "abandon": abandon,
    "broken": broken,
}
