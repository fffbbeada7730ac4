"""Random submissions, cancellations, closed streams, failing sources and failing rows.

No sequence of them may end in a deadlock, leak a thread or change the transcript of another
recording. `WHISPERBATCH_SEQUENCES` sets the number of sequences.
"""

import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import whisperbatch as wb
from tests.unit.fakes import LOUD, LOUD_PEAK, Call, FakeEngine, noise, worker_threads
from whisperbatch.transcriber import Transcriber

SEQUENCES = int(os.environ.get("WHISPERBATCH_SEQUENCES", "60"))
TIMEOUT = 60.0  # seconds: only a deadlock takes so long
LENGTHS = (0.2, 2.0, 5.0, 31.0, 65.0, 100.0)  # seconds
OPTIONS: tuple[dict[str, Any], ...] = (
    {"language": "en"},
    {"language": "en", "beam_size": 1, "batch_size": 2},
    {},
    {"multilingual": True, "batch_size": 3},
    {"language": "en", "condition_on_previous_text": True, "batch_size": 4},
)


@dataclass(frozen=True)
class Job:
    """What one thread does.

    Attributes:
        kind: "submit", "cancel", "stream", "close", "many", "unordered" or "stop".
        length: number of the length of the recording.
        options: number of the options.
        failure: "source", "row" or "": whether the source or a row fails.
        taken: segments or transcripts that are taken before the job stops.
    """

    kind: str
    length: int
    options: int
    failure: str
    taken: int


jobs = st.builds(
    Job,
    st.sampled_from(("submit", "cancel", "stream", "close", "many", "unordered", "stop")),
    st.integers(0, len(LENGTHS) - 1),
    st.integers(0, len(OPTIONS) - 1),
    st.sampled_from(("", "", "", "source", "row")),
    st.integers(0, 3),
)


def audio(job: Job) -> npt.NDArray[np.float32]:
    samples: npt.NDArray[np.float32] = noise(LENGTHS[job.length], job.length).copy()
    if job.failure == "row":
        samples[len(samples) // 2 :] *= LOUD
    if job.failure == "source":
        samples[-1] = np.nan
    return samples


def decode(call: Call) -> str:
    """The text depends on the row only; loud rows fail."""
    if call.row.peak > LOUD_PEAK:
        raise wb.EngineError("fake: decode failed")
    return f" Level {round(call.row.level * 1e4)} of {call.options.beam_size} beams."


def engine(workers: int) -> FakeEngine:
    return FakeEngine(decode=decode, workers=workers, delay={"decode": 0.001})


def outcome(result: object) -> object:
    """A transcript, or the type and the text of an error."""
    return result if isinstance(result, wb.Transcript) else (type(result), str(result))


def alone(job: Job) -> object:
    """The outcome of a job's recording without other recordings."""
    key = (job.length, job.options, job.failure)
    if key not in EXPECTED:
        with Transcriber(engine(1)) as asr:
            [result] = asr.transcribe_many(
                [audio(job)], on_error="yield", vad=False, **OPTIONS[job.options]
            )
        EXPECTED[key] = outcome(result)
    return EXPECTED[key]


COUNTS = {"submit": 1, "many": 4, "unordered": 4}  # outcomes of each kind of job
EXPECTED: dict[tuple[int, int, str], object] = {}


def run(asr: Transcriber, job: Job) -> list[object]:
    """Do a job, and return the outcomes of its recordings that were not abandoned."""
    options = {"vad": False, **OPTIONS[job.options]}
    samples = audio(job)
    if job.kind in {"submit", "cancel"}:
        handle = asr.submit(samples, **options)
        if job.kind == "cancel":
            if job.taken:
                next(iter(handle), None)
            handle.cancel()
            return []
        return [outcome(_result(handle))]
    if job.kind in {"stream", "close"}:
        with asr.stream(samples, **options) as stream:
            for _ in range(job.taken if job.kind == "close" else 10**6):
                if next(stream, None) is None:
                    break
        return []
    many = asr.transcribe_many(
        [samples] * 4, on_error="yield", ordered=job.kind == "many", **options
    )
    if job.kind == "stop":
        for _ in range(job.taken):
            next(many)
        many.close()
        return []
    return [outcome(result) for result in many]


def _result(handle: wb.Submission) -> object:
    try:
        return handle.result(TIMEOUT)
    except wb.WhisperBatchError as error:
        return error


@pytest.fixture(autouse=True)
def no_unhandled_exceptions(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No thread ends with an exception."""
    raised: list[object] = []
    monkeypatch.setattr(threading, "excepthook", raised.append)
    yield
    assert raised == []


@settings(
    max_examples=SEQUENCES,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),  # a deadlock takes too long to shrink
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(st.lists(jobs, min_size=1, max_size=8), st.integers(1, 3), st.booleans())
def test_other_recordings_change_nothing(sequence: list[Job], workers: int, early: bool) -> None:
    for job in sequence:
        alone(job)
    pool = ThreadPoolExecutor(len(sequence))
    with Transcriber(engine(workers)) as asr:
        tasks = [pool.submit(run, asr, job) for job in sequence]
        if early:  # the Transcriber is closed while jobs run
            tasks[0].exception(TIMEOUT)
            asr.close()
        for job, task in zip(sequence, tasks, strict=True):
            error = task.exception(TIMEOUT)
            if error is None:
                found = task.result()
                was_closed = any(
                    isinstance(item, tuple) and item[0] is wb.ClosedError for item in found
                )
                assert early or not was_closed
                assert was_closed or found == [alone(job)] * COUNTS.get(job.kind, 0)
            elif isinstance(error, wb.ClosedError):
                assert early
            else:  # of the recording, raised while the job took its segments
                assert job.kind in {"stream", "close", "cancel"}
                assert job.failure
                assert outcome(error) == alone(job)
    pool.shutdown()
    assert worker_threads() == set()
