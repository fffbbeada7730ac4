"""A worker: takes tasks of a plan, transcribes their spans, and writes a result for each.

claims     one thread     a task at a time, when there is room for more audio
spans      some threads   read the recording, wait for the engine, write the result
leases     one thread     extends the leases of the tasks
"""

import logging
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from os import PathLike, fspath
from typing import Any, Final

from whisperbatch.api import load
from whisperbatch.boundary import as_error
from whisperbatch.errors import ClosedError, OptionError
from whisperbatch.jobs.leases import (
    DURATION,
    MAX_DURATION,
    Leases,
    has_ended,
    process_name,
)
from whisperbatch.jobs.plans.format import Failure, Header, Plan, PlanFiles, PlannedSpan, Task
from whisperbatch.jobs.plans.recordings import READ_RANGE, open_recording
from whisperbatch.jobs.plans.settings import MACHINE_KEYWORDS, check_machine, options_of
from whisperbatch.jobs.workers.results import (
    ATTEMPTS,
    STORAGE,
    EngineFailures,
    Results,
    SpanResult,
    crash_failure,
    failure_of,
    is_final,
    pauses_after,
)
from whisperbatch.jobs.workers.spans import DURATION as LANGUAGE_DURATION
from whisperbatch.jobs.workers.spans import Languages, ModelSpans, Running, SpanTranscriber
from whisperbatch.jobs.workers.tasks import ClaimedTask, TaskQueue
from whisperbatch.models import is_of_hub
from whisperbatch.options import Options, checks, plain
from whisperbatch.prefetch import interleave
from whisperbatch.protocols import EngineTraits
from whisperbatch.text.messages import shown
from whisperbatch.transcriber import Transcriber
from whisperbatch.types import Transcript

MAX_POLL: Final = 10.0  # seconds between two looks at tasks of other workers
MAX_TASKS: Final = 2  # that a worker holds: one, and the next, so that batches stay full

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SpanEnded:
    """A span has ended in this worker.

    Attributes:
        span: the span.
        failure: why it has no transcript; None if it has.
        is_final: whether the span has a result now. If not, other workers or a later run try again.
    """

    span: PlannedSpan
    failure: Failure | None
    is_final: bool


class Worker:
    """Transcribes tasks until none is left. Iterate `run` once.

    Args:
        queue: the tasks, and their leases.
        results: where the results go.
        languages: of the recordings that several tasks share.
        spans: the model.
        name: of this worker.
        engine: fingerprint of the engine, for the results.
        at_once: number of spans that are transcribed at a time.
        audio_ahead: seconds of audio that are transcribed at a time; two spans may have more.
        wait: whether to wait for tasks that other workers hold, in case that these workers die.
        engine_failures: of earlier workers of this process; None begins to count.
    """

    def __init__(
        self,
        queue: TaskQueue,
        results: Results,
        languages: Languages,
        spans: SpanTranscriber,
        *,
        name: str,
        engine: str,
        at_once: int,
        audio_ahead: float,
        wait: bool = True,
        engine_failures: EngineFailures | None = None,
    ) -> None:
        self._queue, self._held, self._results = queue, queue.held, results
        self._languages, self._spans = languages, spans
        self._name, self._engine = name, engine
        self._at_once, self._audio_ahead, self._wait = at_once, audio_ahead, wait
        self._stopping = threading.Event()
        self._changed = threading.Condition()  # guards the spans that run, and `_alone`
        self._audio: dict[str, float] = {}  # seconds of each span that runs
        self._alone = 0  # spans that wait to run alone, or run alone
        self._running: dict[str, tuple[ClaimedTask, Running]] = {}
        self._queue_lock = threading.Lock()
        self._engine_failures = engine_failures or EngineFailures()

    def run(self) -> Generator[SpanEnded, None, None]:
        """Transcribe, and yield each span that has ended.

        Raises:
            WriteError: the store of the job fails.
            EngineError: the engine failed several times in a row.
        """
        ended = interleave(
            self._work(),
            at_once=self._at_once,
            depth=1,
            ordered=False,
            may_start=self._may_start,
            changed=self._changed,
        )
        with self._held.renewing(self._cancel_task):
            try:
                for event in ended:  # noqa: UP028 - `yield from` would close it before `stop`
                    yield event
            finally:
                self.stop()
                ended.close()

    def stop(self) -> None:
        """End the work, and give up the leases. Thread-safe; safe to call twice."""
        self._stopping.set()
        with self._changed:
            self._changed.notify_all()
        for _, running in list(self._running.values()):
            running.cancel()
        self._held.give_up_all()

    def _work(self) -> Iterator[Iterator[SpanEnded]]:
        """Yield the work on each span, in the order in which it is to begin."""
        while (claim := self._next_claim()) is not None:
            for span in claim.remaining:
                if claim.alone:
                    with self._changed:
                        self._alone += 1
                yield self._run_span(claim, span)

    def _next_claim(self) -> ClaimedTask | None:
        """Take a task, or wait for one; None if there is none for this worker."""
        poll = min(max(self._held.duration / 60, 0.1), MAX_POLL)
        while not self._stopping.is_set():
            with self._changed:  # other workers need tasks, too
                if not self._changed.wait_for(self._may_claim, poll):
                    continue
            with self._queue_lock:
                if claim := self._queue.claim():
                    return claim
                if self._queue.has_ended() or not self._wait:
                    return None
            self._stopping.wait(poll)
            with self._queue_lock:
                self._queue.refresh()
        return None

    def _may_claim(self) -> bool:
        """Return whether a further task may be taken, or the work ends."""
        return self._stopping.is_set() or self._held.count() < MAX_TASKS

    def _may_start(self) -> bool:
        """Return whether a further span may begin."""
        few = len(self._audio) < 2 or sum(self._audio.values()) < self._audio_ahead  # noqa: PLR2004 - see the class
        return not self._alone and few

    def _run_span(self, claim: ClaimedTask, span: PlannedSpan) -> Iterator[SpanEnded]:
        """Transcribe a span, in a separate thread."""
        with self._changed:
            self._audio[span.id] = span.duration
        try:
            event = self._attempt(claim, span)
        finally:
            with self._changed:
                del self._audio[span.id]
                self._alone -= claim.alone
                self._changed.notify_all()
        if event:
            yield event

    def _attempt(self, claim: ClaimedTask, span: PlannedSpan) -> SpanEnded | None:
        """Transcribe a span, with further attempts if it fails; None if the task was lost."""
        started = time.time()
        lease = self._held.get(claim.task.id)
        attempts = lease.attempts.get(span.id, 0) if lease else 0
        if attempts >= ATTEMPTS:
            failure = crash_failure(span.uri, attempts)
            return self._finish(claim, span, started, failure=failure)
        number = 0
        while self._goes_on(claim):
            if claim.alone:
                self._held.note_alone(claim.task.id, span.id)
            try:
                transcript = self._transcribe(claim, span)
            except ClosedError:
                if self._goes_on(claim):
                    raise
                break
            except Exception as error:  # noqa: BLE001 - ends this span only
                failure = failure_of(as_error(error, span.uri))
            else:
                return self._finish(claim, span, started, transcript=transcript)
            if is_final(failure) or (
                failure.kind != STORAGE
                and self._held.count_attempt(claim.task.id, span.id, failure.message) >= ATTEMPTS
            ):
                return self._finish(claim, span, started, failure=failure)
            pauses = pauses_after(failure)
            if number == len(pauses):
                return self._give_up(claim, span, failure)
            log.warning("%s; trying again in %g s", failure.message, pauses[number])
            self._stopping.wait(pauses[number])
            number += 1
        self._close(claim)
        return None

    def _transcribe(self, claim: ClaimedTask, span: PlannedSpan) -> Transcript:
        detected = self._languages.detect(span, self._stopping) if span.language_task else None
        # without speech, the language has no effect, but a span needs one
        language = detected.language or "en" if detected else span.language
        with open_recording(span.uri, span.version, read_range=READ_RANGE) as source:
            running = self._spans.start(source, span, language)
            with self._register(claim, span, running):
                transcript = running.result()
        if detected and (detected.language or not transcript.segments):
            return replace(
                transcript,
                language=detected.language,
                language_probability=detected.probability,
            )
        return transcript

    def _goes_on(self, claim: ClaimedTask) -> bool:
        """Return whether the spans of a task are still to be transcribed by this worker."""
        return bool(self._held.get(claim.task.id)) and not self._stopping.is_set()

    @contextmanager
    def _register(self, claim: ClaimedTask, span: PlannedSpan, running: Running) -> Iterator[None]:
        """Let `stop` and the loss of the lease cancel a span, until the end of a `with` block."""
        self._running[span.id] = (claim, running)
        try:
            if not self._goes_on(claim):
                running.cancel()
            yield
        finally:
            del self._running[span.id]

    def _finish(
        self,
        claim: ClaimedTask,
        span: PlannedSpan,
        started: float,
        *,
        transcript: Transcript | None = None,
        failure: Failure | None = None,
    ) -> SpanEnded:
        """Write the result of a span."""
        self._results.create(
            SpanResult(
                id=span.id,
                uri=span.name,
                worker=self._name,
                engine=self._engine,
                started=started,
                finished=time.time(),
                transcript=transcript,
                failure=failure,
            )
        )
        if transcript:
            self._engine_failures.note(None)
        self._close(claim)
        return SpanEnded(span, failure, is_final=True)

    def _give_up(self, claim: ClaimedTask, span: PlannedSpan, failure: Failure) -> SpanEnded:
        """Leave a span to other workers and later runs."""
        claim.error = failure.message
        self._close(claim)
        self._engine_failures.note(failure)
        return SpanEnded(span, failure, is_final=False)

    def _close(self, claim: ClaimedTask) -> None:
        """End the work on a span, and with the last span the task."""
        if claim.end_span():
            with self._queue_lock:
                self._queue.end(claim)

    def _cancel_task(self, task: str) -> None:
        """Cancel the spans of a task that another worker has taken."""
        log.warning("task %s was taken by another worker", task)
        for claim, running in list(self._running.values()):
            if claim.task.id == task:
                running.cancel()


BATCHES_AHEAD: Final = 2  # batches of audio that are transcribed at a time
WINDOW_SECONDS: Final = 30.0
MIN_AT_ONCE: Final = 4  # spans
MIN_LEASE: Final = 1.0  # seconds

OnSpan = Callable[[SpanEnded], object]


@dataclass(frozen=True, slots=True)
class WorkReport:
    """What a worker has done.

    Attributes:
        transcribed: number of spans that it transcribed.
        failed: number of spans whose result is a failure.
        left: number of spans that it left to other workers and later runs, because of errors that
            may pass.
        seconds: seconds of audio that it transcribed.
    """

    transcribed: int
    failed: int
    left: int
    seconds: float


@dataclass(slots=True)
class WorkerJob:
    """A worker of a plan, from the checks of its arguments to its end.

    Attributes:
        files: of the plan.
        plan: without the recordings.
        tasks: of this worker.
        options: of the transcription.
        leases: of the tasks.
        wait: see `work`.
        name: of the worker.
        lists: whether to list the results of the whole plan; see `TaskQueue`.
        retry_failed: see `work`.
        engine_failures: of the worker; see `Worker`.
        worker: the worker; None before `run`.
    """

    files: PlanFiles
    plan: Plan
    tasks: Sequence[Task]
    options: Options
    leases: Leases
    wait: bool
    name: str
    lists: bool = True
    retry_failed: bool = False
    engine_failures: EngineFailures = field(default_factory=EngineFailures)
    worker: Worker | None = None

    @classmethod
    def open(
        cls,
        plan: str | PathLike[str],
        *,
        shard: tuple[int, int] | None = None,
        batch_size: int | None = None,
        readers: int | None = None,
        reader_processes: bool = False,
        lease_duration: float = DURATION,
        wait: bool = True,
        retry_failed: bool = False,
    ) -> "WorkerJob":
        """Check the arguments of `work`, and read the plan."""
        number, count = _shard(shard)
        checks.number(
            "lease_duration", plain(lease_duration), minimum=MIN_LEASE, maximum=MAX_DURATION
        )
        checks.boolean("wait", plain(wait))
        checks.boolean("retry_failed", plain(retry_failed))
        files = PlanFiles.at(fspath(plan))
        read = files.read(recordings=False)
        name = process_name()
        group = f"shard {number}/{count}" if shard else ""
        leases = Leases(
            files.work, name, group=group, duration=float(lease_duration), has_ended=has_ended
        )
        options = options_of(read.header, batch_size, readers, reader_processes=reader_processes)
        tasks = read.tasks[number::count]
        return cls(files, read, tasks, options, leases, wait, name, retry_failed=bool(retry_failed))

    def load(self, **keywords: Any) -> Transcriber:  # noqa: ANN401 - of `load`
        """Load the model of the plan.

        Args:
            **keywords: of `load`, that do not change the text.
        """
        return load_model(self.plan.header, **keywords)

    def run(self, asr: Transcriber, on_span: OnSpan | None = None) -> WorkReport:
        """Transcribe the tasks; see `work`."""
        check_machine(self.plan.header, asr.engine, self.options)
        self.files.work.delete_abandoned()
        if self.retry_failed:
            self._delete_failures()
        transcribed = failed = left = 0
        seconds = 0.0
        with closing(self.spans(asr)) as ended:
            for event in ended:
                transcribed += event.failure is None
                failed += event.failure is not None and event.is_final
                left += not event.is_final
                seconds += 0.0 if event.failure else event.span.duration
                if on_span:
                    on_span(event)
        return WorkReport(transcribed, failed, left, seconds)

    def _delete_failures(self) -> None:
        """Delete the results that are failures, so that their spans are transcribed again."""
        results = Results(self.files.work)
        failed = results.failed_ids()
        for task in self.tasks:
            for span in task.spans:
                if span.id in failed:
                    results.delete_failure(span)

    def spans(self, asr: Transcriber) -> Generator[SpanEnded, None, None]:
        """Transcribe the tasks, and yield each span that has ended.

        Args:
            asr: the model, which is known to be that of the plan.

        Raises:
            WriteError: the store of the plan fails.
            EngineError: the engine failed several times in a row.
        """
        results = Results(self.files.work)
        spans = ModelSpans(asr, self.options)
        language_leases = Leases(
            self.files.work, self.name, duration=LANGUAGE_DURATION, has_ended=has_ended
        )
        traits = EngineTraits.of(asr.engine)
        batch = self.options.batch_size or traits.default_batch_size(self.options.hypotheses)
        rows = batch * asr.engine.workers
        self.worker = Worker(
            TaskQueue(self.tasks, self.leases, results, lists=self.lists),
            results,
            Languages(results, language_leases, spans),
            spans,
            name=self.name,
            engine=asr.engine.fingerprint,
            at_once=max(MIN_AT_ONCE, BATCHES_AHEAD * rows),
            audio_ahead=BATCHES_AHEAD * rows * WINDOW_SECONDS,
            wait=self.wait,
            engine_failures=self.engine_failures,
        )
        yield from self.worker.run()

    def stop(self) -> None:
        """Stop the worker and give up its leases. Thread-safe."""
        if self.worker:
            self.worker.stop()


def check_machine_keywords(names: Iterable[str]) -> None:
    """Check that keywords of `load` do not change the text of a plan.

    Raises:
        OptionError: a keyword does.
    """
    for name in names:
        if name not in MACHINE_KEYWORDS:
            raise OptionError(f"`{name}` changes the text, so it belongs to plan; leave it out")


def load_model(header: Header, **keywords: Any) -> Transcriber:  # noqa: ANN401 - of `load`
    """Load the model of a plan.

    Args:
        header: of the plan.
        **keywords: of `load`, that do not change the text.

    Raises:
        OptionError: a keyword changes the text, or is wrong.
        MissingExtraError: the package of the engine is not installed.
        ModelError: the weights are missing or damaged.
    """
    check_machine_keywords(keywords)
    if header.revision is not None and is_of_hub(header.model):
        keywords["revision"] = header.revision
    return load(header.model, **{**header.load, **keywords})


def _shard(shard: tuple[int, int] | None) -> tuple[int, int]:
    if shard is None:
        return 0, 1
    if not (
        isinstance(shard, tuple)
        and len(shard) == 2  # noqa: PLR2004 - a pair
        and all(type(number) is int for number in shard)
        and 0 <= shard[0] < shard[1]
    ):
        raise OptionError(
            f"`shard={shown(shard)}`: give a number and a count; numbers start at 0: (0, 4) to "
            "(3, 4)"
        )
    return shard
