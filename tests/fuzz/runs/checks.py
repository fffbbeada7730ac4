"""Random runs: jobs that use one Transcriber at the same time.

No run may end in a deadlock, leave a thread behind, or change the transcript of a recording.
Used with a fake engine (`run_cases`) and with a model (tests/model/test_random_runs.py).
"""

import faulthandler
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from concurrent.futures import wait as wait_for
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random
from typing import Any, NoReturn, TypeVar

import pytest

import whisperbatch as wb
from tests.fuzz.cases import Failure
from tests.fuzz.leaks import slowness
from tests.fuzz.runs.jobs import JOBS, JobThread
from tests.fuzz.runs.material import Job, Material
from tests.unit.fakes import worker_threads
from whisperbatch import streams
from whisperbatch.scheduling import scheduler

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
    assert not asr._submissions._waiting


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
        patch.setattr(streams, "MAX_ACTIVE", MAX_ACTIVE)
        yield
    assert raised == []
