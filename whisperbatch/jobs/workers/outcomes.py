"""Spans whose tasks another program distributes, such as Ray: `TaskWorker` and `stored_outcomes`.

The program gives each task to one process at a time, and gives the task to another process if the
first one dies. Leases remain, for three reasons: `work` processes may share the plan, a process
that seemed dead may live, and a lease remembers at which span processes died.
"""

from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Final

from whisperbatch.jobs.plans.files import PlanFiles
from whisperbatch.jobs.plans.format import Failure, Header, Plan, PlannedSpan, Task
from whisperbatch.jobs.plans.packing import POINT
from whisperbatch.jobs.plans.settings import check_machine, options_of
from whisperbatch.jobs.workers.failures import STORAGE
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

    def outcomes(self, tasks: Sequence[Task]) -> Generator[SpanOutcome, None, None]:
        """Transcribe the spans that have no result, and yield each span of the tasks once.

        If a `work` process holds a task, wait for its results.

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
        )
        ended: set[str] = set()
        with closing(job.spans(self._asr)) as events:
            for event in events:
                ended.add(event.span.id)
                yield _stored(Results(self._files.work), event.span, event.failure)
        rest = [span for task in tasks for span in task.spans if span.id not in ended]
        yield from _stored_spans(self._files, rest)


def stored_outcomes(plan: str, tasks: Sequence[Task]) -> Generator[SpanOutcome, None, None]:
    """Yield the results of all spans of tasks that are complete.

    Args:
        plan: absolute path or URL of the plan.
        tasks: of the plan.

    Raises:
        WriteError: the store of the plan fails, or a result is damaged.
    """
    spans = [span for task in tasks for span in task.spans]
    yield from _stored_spans(PlanFiles.at(plan), spans)


def _stored_spans(
    files: PlanFiles, spans: Sequence[PlannedSpan]
) -> Generator[SpanOutcome, None, None]:
    read = partial(_stored, Results(files.work))
    yield from map_ordered(read, spans, workers=READERS, depth=2 * READERS)


def _stored(results: Results, span: PlannedSpan, failure: Failure | None = None) -> SpanOutcome:
    """Return the result of a span; without a result, the reason that is known."""
    result = results.read(span.id)
    if result:
        return SpanOutcome(span, result.transcript, result.failure)
    message = f"{span.uri}: the result of a span has been deleted; run again"
    return SpanOutcome(span, None, failure or Failure(STORAGE, message))
