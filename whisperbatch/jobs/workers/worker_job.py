"""A worker's run over a plan, from the checks of its arguments to its end."""

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from os import PathLike, fspath
from typing import Any, Final

from whisperbatch.errors import OptionError
from whisperbatch.jobs.plans.files import PlanFiles
from whisperbatch.jobs.plans.format import Header, Plan, Task
from whisperbatch.jobs.plans.settings import MACHINE_KEYWORDS, check_machine, options_of
from whisperbatch.jobs.workers.failures import EngineFailures
from whisperbatch.jobs.workers.languages import DURATION as LANGUAGE_DURATION
from whisperbatch.jobs.workers.languages import Languages
from whisperbatch.jobs.workers.leases import DURATION, MAX_DURATION, Leases
from whisperbatch.jobs.workers.processes import has_ended, process_name
from whisperbatch.jobs.workers.results import Results
from whisperbatch.jobs.workers.spans import ModelSpans
from whisperbatch.jobs.workers.task_queue import TaskQueue
from whisperbatch.jobs.workers.worker import SpanEnded, Worker
from whisperbatch.loading import load
from whisperbatch.models import is_of_hub
from whisperbatch.options import Options, checks, plain
from whisperbatch.protocols import EngineTraits
from whisperbatch.text.messages import shown
from whisperbatch.transcriber import Transcriber

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
        options = options_of(read.header, batch_size)
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
            self.leases,
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
            raise OptionError(f"{name} changes the text, so it belongs to plan; leave it out")


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
            f"shard={shown(shard)}: give a number and a count; numbers start at 0: (0, 4) to (3, 4)"
        )
    return shard
