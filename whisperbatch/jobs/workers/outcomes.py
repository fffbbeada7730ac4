"""Work that another program distributes, such as Ray.

TaskWorker, read_outcomes    tasks of a plan
RecordingWorker              whole recordings without a plan, whose results the caller keeps

The program gives each task to one process at a time, and gives the task to another process if the
first one dies. Leases remain, for three reasons: `work` processes may share the plan, a process
that seemed dead may live, and a lease remembers at which span processes died.
"""

import logging
import threading
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Final

from whisperbatch.boundary import as_error
from whisperbatch.errors import ClosedError
from whisperbatch.jobs.leases import Leases, has_ended, process_name
from whisperbatch.jobs.plans.format import Failure, Header, Plan, PlanFiles, PlannedSpan, Task
from whisperbatch.jobs.plans.planning import SECTION_DURATION
from whisperbatch.jobs.plans.recordings import READ_RANGE, open_recording
from whisperbatch.jobs.plans.settings import check_machine, options_of
from whisperbatch.jobs.workers.results import (
    STORAGE,
    EngineFailures,
    Results,
    failure_of,
    pauses_after,
)
from whisperbatch.jobs.workers.spans import ModelSpans, Running, in_language
from whisperbatch.jobs.workers.worker import BATCHES_AHEAD, MIN_AT_ONCE, WorkerJob
from whisperbatch.options import Options
from whisperbatch.prefetch import interleave, map_ordered
from whisperbatch.protocols import EngineTraits
from whisperbatch.transcriber import Transcriber
from whisperbatch.types import Transcript

OPTION: Final = "option"
READERS: Final = 16  # results that are read at a time: reading waits for the store

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SpanOutcome:
    """What became of a span.

    Attributes:
        span: the span.
        transcript: in times of the recording; None if the span failed.
        failure: why there is no transcript; None if there is one.
    """

    span: PlannedSpan
    transcript: Transcript | None
    failure: Failure | None

    @property
    def start(self) -> float:
        """Nominal start of the span, in seconds."""
        return self.span.first * SECTION_DURATION

    @property
    def end(self) -> float:
        """Nominal end of the span, in seconds."""
        return self.start + self.span.duration


class TaskWorker:
    """A process that transcribes the tasks that another program gives to it.

    Args:
        plan: absolute path or URL of the plan.
        header: of the plan, so that the process need not read the plan.
        asr: the loaded model of the plan.
        group: name of the program. A process takes a task at once, if another process of the
            same group holds it: the program would not give a task to two processes.
        batch_size: number of chunks decoded at a time; None chooses it for the device.

    Raises:
        ModelError: the weights are not those of the plan.
    """

    def __init__(
        self,
        plan: str,
        header: Header,
        asr: Transcriber,
        *,
        group: str,
        batch_size: int | None = None,
    ) -> None:
        self._files = PlanFiles.at(plan)
        self._header, self._asr, self._group = header, asr, group
        self._options = options_of(header, batch_size)
        check_machine(header, asr.engine, self._options)
        self._name = process_name()
        self._engine_failures = EngineFailures()

    def outcomes(self, tasks: Sequence[Task]) -> Generator[SpanOutcome, None, None]:
        """Transcribe the spans that have no result; then yield all spans of the tasks in order.

        If a `work` process holds a task, wait for its results. The order is always the same,
        because a program that calls this again after a death may skip the received outcomes.

        Raises:
            WriteError: the store of the plan fails.
            EngineError: the engine failed several times in a row.
        """
        job = WorkerJob(
            self._files,
            Plan(self._header, (), tuple(tasks)),
            tasks,
            self._options,
            Leases(self._files.work, self._name, group=self._group, has_ended=has_ended),
            wait=True,
            name=self._name,
            lists=False,
            engine_failures=self._engine_failures,
        )
        failures: dict[str, Failure] = {}  # of spans without a result
        with closing(job.spans(self._asr)) as events:
            for event in events:
                if event.failure:
                    failures[event.span.id] = event.failure
        yield from _read_spans(self._files, tasks, failures)


def read_outcomes(plan: str, tasks: Sequence[Task]) -> Generator[SpanOutcome, None, None]:
    """Yield the results of all spans of tasks that are complete.

    Args:
        plan: absolute path or URL of the plan.
        tasks: of the plan.

    Raises:
        WriteError: the store of the plan fails, or a result is damaged.
    """
    yield from _read_spans(PlanFiles.at(plan), tasks, {})


def _read_spans(
    files: PlanFiles, tasks: Sequence[Task], failures: Mapping[str, Failure]
) -> Generator[SpanOutcome, None, None]:
    """Yield the result of each span; without a result, the reason that is known."""
    results = Results(files.work)

    def stored(span: PlannedSpan) -> SpanOutcome:
        result = results.read(span.id)
        if result:
            return SpanOutcome(span, result.transcript, result.failure)
        message = f"{span.name}: the result of a span has been deleted; run again"
        return SpanOutcome(span, None, failures.get(span.id) or Failure(STORAGE, message))

    spans = [span for task in tasks for span in task.spans]
    yield from map_ordered(stored, spans, workers=READERS, depth=2 * READERS)


class RecordingWorker:
    """Transcribes recordings; all of them share the batches of the model.

    Args:
        asr: the model.
        options: of the transcription.
    """

    def __init__(self, asr: Transcriber, options: Options) -> None:
        self._spans = ModelSpans(asr, options)
        self._options = options
        traits = EngineTraits.of(asr.engine)
        batch = options.batch_size or traits.default_batch_size(options.hypotheses)
        rows = batch * asr.engine.workers
        self._at_once = max(MIN_AT_ONCE, BATCHES_AHEAD * rows)
        self._running: set[Running] = set()
        self._engine_failures = EngineFailures()

    def outcomes(
        self, recordings: Iterable[tuple[str, object, object]]
    ) -> Generator[SpanOutcome, None, None]:
        """Yield the recordings in order: with the transcript, or with the reason of the failure.

        Stores and engines that fail are tried again, as `work` does. The order is always the same,
        because a program that calls this again after a death may skip the received outcomes.

        Args:
            recordings: id, URI and language of each. The URI is a path or a URL; the language is
                Whisper's code, or None to detect it.

        Raises:
            EngineError: the engine failed for several recordings in a row.
        """
        stopping = threading.Event()  # of this call: a thread of an earlier call stays stopped
        ended = interleave(
            (self._transcribe_recording(*recording, stopping) for recording in recordings),
            at_once=self._at_once,
            depth=1,
            ordered=True,
        )
        try:
            for outcome in ended:
                self._engine_failures.note(outcome.failure)
                yield outcome
        finally:
            stopping.set()
            for running in list(self._running):
                running.cancel()
            ended.close()

    def _transcribe_recording(
        self, id_: str, uri: object, language: object, stopping: threading.Event
    ) -> Iterator[SpanOutcome]:
        """Transcribe a recording, in a separate thread."""
        span = PlannedSpan(id_, id_, str(uri), "", 0, None, 0.0)
        if not isinstance(uri, str) or not uri:
            yield SpanOutcome(span, None, Failure(OPTION, f"recording {id_} has no uri"))
            return
        number = 0
        while True:
            try:
                transcript = self._transcribe(span, language, stopping)
            except ClosedError:
                if stopping.is_set():
                    return
                raise
            except Exception as error:  # noqa: BLE001 - ends this recording only
                failure = failure_of(as_error(error, uri))
            else:
                yield SpanOutcome(replace(span, duration=transcript.duration), transcript, None)
                return
            pauses = pauses_after(failure)
            if number == len(pauses) or stopping.is_set():
                yield SpanOutcome(span, None, failure)
                return
            log.warning("%s; trying again in %g s", failure.message, pauses[number])
            if stopping.wait(pauses[number]):
                return
            number += 1

    def _transcribe(
        self, span: PlannedSpan, language: object, stopping: threading.Event
    ) -> Transcript:
        chosen = self._options
        if language is not None:
            chosen = in_language(chosen, language)  # type: ignore[arg-type]  # is checked
        with open_recording(span.uri, None, read_range=READ_RANGE) as source:
            running = self._spans.start(source, span, chosen.language)
            self._running.add(running)
            if stopping.is_set():
                running.cancel()
            try:
                return running.result()
            finally:
                self._running.discard(running)
