"""Random runs: jobs that use one Transcriber at the same time.

Whatever the other threads do, a recording has the same result as alone: the same text, times and
language, to the last digit, or the same error after the same segments. A recording that is
cancelled or closed gives the first of these segments.

No run may end in a deadlock, leave a thread behind, or change the transcript of a recording.
Used with a fake engine (run_cases.py) and with a model (tests/model/test_random_runs.py).
"""

import asyncio
import faulthandler
import sys
import threading
import time
import traceback
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import wait as wait_for
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import islice
from random import Random
from typing import Any, NoReturn, TypeVar

import pytest

import whisperbatch as wb
from tests.fuzz.cases import Failure
from tests.fuzz.leaks import slowness
from tests.unit.fakes import worker_threads
from whisperbatch import submissions
from whisperbatch.protocols import Engine
from whisperbatch.scheduling import scheduler
from whisperbatch.types import Source

Result = wb.Transcript | wb.WhisperBatchError


@dataclass(frozen=True)
class Job:
    """The actions of one thread.

    Attributes:
        kind: a key of `JOBS`.
        recordings: numbers of the recordings.
        options: number of the set of options.
        weight: of submitted recordings.
        order: the order in which results are awaited: a permutation of 0, 1, 2.
        taken: segments or results that are taken before the job stops early.
        start: when the job begins, from 0 to 1.
        stop: how long the job waits before it stops early, from 0 to 1.
    """

    kind: str
    recordings: tuple[int, ...]
    options: int
    weight: float = 1.0
    order: tuple[int, ...] = (0, 1, 2)
    taken: int = 0
    start: float = 0.0
    stop: float = 0.0


@dataclass(frozen=True)
class Outcome:
    """What a recording gives: its segments, and then its transcript or its error."""

    segments: tuple[wb.Segment, ...]
    result: Result


@dataclass(frozen=True, repr=False)
class Material:
    """What the jobs transcribe.

    Attributes:
        sources: return a new source of each recording.
        options: the sets of options.
        engine: returns the engine of a Transcriber, for a number of workers.
        delay: seconds; the times of a job are fractions of this time.
        timeout: seconds; only a deadlock takes so long.
        outcomes: of the recordings that were transcribed alone, by recording and options.
    """

    sources: Sequence[Callable[[], Source]]
    options: Sequence[Mapping[str, Any]]
    engine: Callable[[int], Engine]
    delay: float
    timeout: float
    outcomes: dict[tuple[int, int], Outcome] = field(default_factory=dict)

    def alone(self, recording: int, options: int) -> Outcome:
        """Return the outcome of a recording that is transcribed alone."""
        key = recording, options
        if key not in self.outcomes:
            source, keywords = self.sources[recording], self.options[options]
            with wb.Transcriber(self.engine(1)) as asr:
                try:
                    transcript = asr.transcribe(source(), **keywords)
                except (wb.AudioError, wb.EngineError) as error:
                    segments, _ = read(lambda: asr.stream(source(), **keywords))
                    # the traceback and the causes of the error keep its rows
                    self.outcomes[key] = Outcome(segments, type(error)(str(error)))
                else:
                    self.outcomes[key] = Outcome(transcript.segments, transcript)
        return self.outcomes[key]


def shown(value: object) -> str:
    """Return the text of a result. Results with equal texts are equal to the last digit."""
    return f"{type(value).__name__}: {value}" if isinstance(value, Exception) else repr(value)


def read(
    open_segments: Callable[[], Iterable[wb.Segment]],
) -> tuple[tuple[wb.Segment, ...], wb.WhisperBatchError | None]:
    """Return all segments, and the error that the opening or the reading raises."""
    segments = []
    try:
        for segment in open_segments():
            segments.append(segment)  # noqa: PERF402 - the segments before an error are kept
    except wb.WhisperBatchError as error:
        return tuple(segments), error
    return tuple(segments), None


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


T = TypeVar("T")

MAX_ACTIVE = 3  # submissions; the others wait
PATIENCE = 10.0  # seconds in which the threads of a recording end after its result
EXIT = 10.0  # seconds until the program ends although threads do not
STACK = 8  # function calls of a thread that a message shows


@dataclass(frozen=True)
class Run:
    """Jobs that run at the same time.

    Attributes:
        jobs: each has its own thread.
        workers: number of calls that the engine computes at a time.
        closing: when the Transcriber is closed, from 0 to 1; None if it is closed after the jobs.
    """

    jobs: tuple[Job, ...]
    workers: int
    closing: float | None


def run_of(random: Random, recordings: Sequence[int], options: int) -> Run:
    """Return a random run.

    Args:
        random: decides.
        recordings: numbers of the recordings; a number that comes twice is drawn more often.
        options: number of sets of options.
    """

    def job() -> Job:
        return Job(
            random.choice(sorted(JOBS)),
            tuple(random.choices(recordings, k=random.randint(1, 3))),
            random.randrange(options),
            weight=random.choice((1.0, 0.2, 5.0)),
            order=tuple(random.sample(range(3), 3)),
            taken=random.randint(0, 3),
            start=random.randint(0, 10) / 10,
            stop=random.randint(0, 10) / 10,
        )

    jobs = tuple(job() for _ in range(random.randint(3, 6)))
    closing = random.choice((None, random.randint(0, 10) / 10))
    return Run(jobs, random.randint(1, 3), closing)


def check_run(material: Material, run: Run) -> None:
    """Do all jobs of a run, and check the results and the remaining threads and files."""

    def transcribe_alone() -> None:
        for job in run.jobs:
            for recording in job.recordings:
                material.alone(recording, job.options)

    finished(in_thread(transcribe_alone), material.timeout)
    asr, closed = wb.Transcriber(material.engine(run.workers)), threading.Event()

    def close() -> None:
        """Close the Transcriber; its submissions then have no thread."""
        closed.set()
        finished(in_thread(asr.close), material.timeout)
        assert "whisperbatch-submission" not in worker_threads()

    with checked_threads():
        threads = [in_thread(JobThread(material, asr, closed, job)) for job in run.jobs]
        try:
            if run.closing is not None:
                time.sleep(run.closing * material.delay)
                close()
            for thread in threads:
                finished(thread, material.timeout)
            check_idle(asr)
        finally:
            close()
    with pytest.raises(wb.ClosedError):
        asr.submit(material.sources[0]())
    assert worker_threads() == set()


def check_idle(asr: wb.Transcriber) -> None:
    """Check that the recordings have ended, and that no row waits."""
    deadline = time.monotonic() + PATIENCE
    while worker_threads() and time.monotonic() < deadline:
        time.sleep(0.002)
    if worker_threads():
        stuck(f"threads are left: {worker_threads()}")
    assert asr._scheduler._runs == set()
    assert not asr._scheduler._queue
    assert asr._scheduler._workers.threads() == []
    assert asr._submissions._active == {}
    assert asr._submissions.counts().waiting == 0


def in_thread(function: Callable[[], T]) -> "Future[T]":
    """Call a function in a thread that does not keep the test from ending."""
    future: Future[T] = Future()

    def call() -> None:
        try:
            future.set_result(function())
        except BaseException as error:  # noqa: BLE001 - raised in the thread of the test
            future.set_exception(error)

    threading.Thread(target=call, name="job", daemon=True).start()
    return future


def finished(future: "Future[T]", timeout: float) -> T:
    """Wait for a function that a thread calls. If it does not end, the test fails."""
    if not wait_for([future], timeout * slowness()).done:
        stuck(f"deadlock: a thread has not ended in {timeout:g} s")
    return future.result()


def stuck(message: str) -> NoReturn:
    """Fail because threads do not end, and show what each is doing."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    stacks = (
        f"{names.get(ident)}:\n{''.join(traceback.format_stack(frame)[-STACK:])}"
        for ident, frame in sys._current_frames().items()
    )
    # They would also keep the program from ending.
    threading._register_atexit(faulthandler.dump_traceback_later, EXIT, exit=True)  # type: ignore[attr-defined]
    raise Failure("\n".join((message, *stacks)))


@contextmanager
def checked_threads() -> Iterator[None]:
    """Check that no thread ends with an exception, and that all waits end by a notification."""
    raised: list[Any] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threading, "excepthook", raised.append)
        patch.setattr(sys, "unraisablehook", raised.append)
        # The scheduler's threads also look around now and then. This must not be necessary.
        patch.setattr(scheduler, "CHECK_INTERVAL", threading.TIMEOUT_MAX)
        patch.setattr(submissions.Places, "of", lambda *_: submissions.Places(MAX_ACTIVE, 2))
        yield
    assert raised == []
