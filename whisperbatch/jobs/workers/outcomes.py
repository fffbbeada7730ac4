"""Spans whose tasks another program distributes, such as Ray: `TaskWorker` and `stored_outcomes`.

The program gives each task to one process at a time, and gives the task to another process if the
first one dies. Leases remain, for three reasons: `work` processes may share the plan, a process
that seemed dead may live, and a lease remembers at which span processes died.
"""

from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Final

from whisperbatch.jobs.plans.files import PlanFiles
from whisperbatch.jobs.plans.format import Failure, Header, Plan, PlannedSpan, Task
from whisperbatch.jobs.plans.packing import POINT
from whisperbatch.jobs.plans.settings import check_machine, options_of
from whisperbatch.jobs.workers.failures import STORAGE, EngineFailures
from whisperbatch.jobs.workers.job import WorkerJob
from whisperbatch.jobs.workers.leases import Leases
from whisperbatch.jobs.workers.processes import has_ended, process_name
from whisperbatch.jobs.workers.results import Results
from whisperbatch.prefetch import map_ordered
from whisperbatch.transcriber import Transcriber
from whisperbatch.types import Transcript

READERS: Final = 16  # results that are read at a time: reading waits for the store


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
        return self.span.first * POINT

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
        yield from _stored_spans(self._files, tasks, failures)


def stored_outcomes(plan: str, tasks: Sequence[Task]) -> Generator[SpanOutcome, None, None]:
    """Yield the results of all spans of tasks that are complete.

    Args:
        plan: absolute path or URL of the plan.
        tasks: of the plan.

    Raises:
        WriteError: the store of the plan fails, or a result is damaged.
    """
    yield from _stored_spans(PlanFiles.at(plan), tasks, {})


def _stored_spans(
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
