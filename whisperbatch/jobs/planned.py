"""The functions `plan`, `work`, `join` and `status`: many processes transcribe together.

plan     finds the recordings and writes the tasks to a file
work     takes tasks, transcribes them, and writes results; in any number of processes
join     writes the transcripts of recordings whose results are complete
status   counts
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike, fspath
from typing import Any

from whisperbatch.api import DEFAULT_MODEL, LOAD_PARAMETERS
from whisperbatch.errors import OptionError
from whisperbatch.jobs.inputs import absolute
from whisperbatch.jobs.leases import DURATION, Lease, Leases, has_ended
from whisperbatch.jobs.names import digest
from whisperbatch.jobs.plans.format import Plan, PlanFiles
from whisperbatch.jobs.plans.joining import Joiner, JoinReport, ReportBuilder
from whisperbatch.jobs.plans.planning import MAX_TASK_DURATION, TASK_DURATION, make_plan
from whisperbatch.jobs.plans.settings import make_header
from whisperbatch.jobs.plans.stores import Store
from whisperbatch.jobs.workers.results import Results
from whisperbatch.jobs.workers.worker import OnSpan, WorkerJob, WorkReport
from whisperbatch.options import Options, checks, plain, resolve
from whisperbatch.text.messages import shown
from whisperbatch.transcriber import Transcriber
from whisperbatch.types import Transcript
from whisperbatch.writers import SPEAKER_FORMATS, FileOptions, check_format, render


def plan(
    sources: str | PathLike[str] | Iterable[str | PathLike[str]],
    output: str | PathLike[str],
    *,
    model: str | PathLike[str] = DEFAULT_MODEL,
    task_duration: float = TASK_DURATION,
    options: Options | None = None,
    **keywords: Any,  # noqa: ANN401 - options, and keywords of `load`
) -> Plan:
    """Write a plan: which recordings to transcribe, divided into tasks for `work`.

    Only the durations of the recordings are probed. A recording that cannot be probed is a failure
    in the plan, with its reason. Words get times, unless `word_timestamps=False`, so that `join`
    can write subtitles.

    Args:
        sources: files, folders, patterns and URLs of any store that fsspec opens, and manifests
            (JSONL or parquet; also those of lhotse).
        output: path or URL of the plan. An older plan is replaced; its results stay valid.
        model: a name, directory or repository, as in `load`.
        task_duration: seconds of audio of a task. Short recordings are packed into tasks of this
            duration.
        options: all options in one value.
        **keywords: any field of `Options` except `batch_size`, `readers` and `reader_processes`,
            and the keywords of `load` that change the text (`engine`, `compute_type`, ...).

    Returns:
        The plan.

    Raises:
        OptionError: an option is unknown or wrong, there are no recordings, or a file of another
            kind has the name of the plan.
        AudioError: the recording of a known speaker cannot be read.
        ModelError: the weights are missing or damaged.
        MissingExtraError: a package for a kind of URL, or for parquet, is not installed.
        WriteError: the plan cannot be written.
    """
    checks.number("task_duration", plain(task_duration), minimum=1.0, maximum=MAX_TASK_DURATION)
    names = [sources] if isinstance(sources, str | PathLike) else list(sources)
    load_keywords = {name: value for name, value in keywords.items() if name in LOAD_PARAMETERS}
    option_keywords = {name: value for name, value in keywords.items() if name not in load_keywords}
    if options is None:
        option_keywords.setdefault("word_timestamps", True)
    resolved = resolve(options, **option_keywords)
    files = PlanFiles.at(fspath(output))
    header = make_header(model, resolved, load_keywords, float(task_duration))
    made = make_plan([fspath(name) for name in names], header)
    files.write(made)
    return made


def work(
    plan: str | PathLike[str],
    *,
    asr: Transcriber | None = None,
    shard: tuple[int, int] | None = None,
    batch_size: int | None = None,
    readers: int | None = None,
    reader_processes: bool = False,
    lease_duration: float = DURATION,
    wait: bool = True,
    retry_failed: bool = False,
    on_span: OnSpan | None = None,
    **load_keywords: Any,  # noqa: ANN401 - of `load`
) -> WorkReport:
    """Take tasks of a plan and transcribe them, until no task is left.

    Any number of processes may work on one plan at the same time, on any machines.

    Args:
        plan: path or URL of the plan.
        asr: the loaded model of the plan; None loads it.
        shard: (number, count): take only the tasks of this shard, numbered from 0. None takes any
            task.
        batch_size: number of chunks decoded at a time; None chooses it for the device.
        readers: number of sections that are read at a time; None chooses it for the device.
        reader_processes: whether sections are read in other processes.
        lease_duration: seconds until other workers take over a task, if this process dies.
        wait: whether to wait for the tasks of other workers, in case that these workers die.
        retry_failed: whether to delete the results that are failures at first, so that their spans
            are transcribed again; those of this shard only. Give it to one of several workers, and
            start the others after it: each of them would delete the new failures of the others.
        on_span: called for each span that has ended.
        **load_keywords: keywords of `load` that do not change the text: `device`, `device_index`,
            `inter_threads`, `intra_threads`, `compile`. Refused with `asr`.

    Returns:
        What this worker has done.

    Raises:
        OptionError: there is no such plan, or an argument is wrong.
        ModelError: the weights are missing, damaged, or not those of the plan.
        MissingExtraError: the package of the engine or of a kind of URL is not installed.
        EngineError: the engine failed several times in a row.
        WriteError: the store of the plan fails.
    """
    job = WorkerJob.open(
        plan,
        shard=shard,
        batch_size=batch_size,
        readers=readers,
        reader_processes=reader_processes,
        lease_duration=lease_duration,
        wait=wait,
        retry_failed=retry_failed,
    )
    if asr and load_keywords:
        raise OptionError(f"`{next(iter(load_keywords))}` has no effect with asr; leave it out")
    if asr:
        return job.run(asr, on_span)
    with job.load(**load_keywords) as loaded:
        return job.run(loaded, on_span)


def join(
    plan: str | PathLike[str],
    output: str | PathLike[str],
    *,
    formats: Sequence[str] = ("txt",),
    file_options: Mapping[str, FileOptions] | None = None,
) -> JoinReport:
    """Write the transcripts of all recordings whose spans have results, and a report.

    It may be called at any time and again. Recordings that are written already are not read again.
    The report is also written beside the plan, with the suffix `.report.json`.

    Args:
        plan: path or URL of the plan.
        output: folder of the transcripts: a path or a URL.
        formats: names of formats, as in `write`.
        file_options: for some of the formats, `SubtitleOptions` or `TableOptions`.

    Returns:
        The report: hours, speed, failures, and missing spans.

    Raises:
        OptionError: there is no such plan, or a format is unknown.
        MissingExtraError: the package for a kind of URL is not installed.
        WriteError: the store of the plan fails, or an output cannot be written.
    """
    options = dict(file_options or {})
    _check_formats(formats)
    files = PlanFiles.at(fspath(plan))
    read = files.read()
    if not read.header.options.get("diarize") and set(formats) & set(SPEAKER_FORMATS):
        raise OptionError("format rttm needs speakers; make the plan with `diarize=True`")

    def rendered(transcript: Transcript, suffix: str) -> str:
        return render(transcript, suffix, options.get(suffix))

    settings = digest(sorted(options.items()))
    store = Store(absolute(fspath(output)))
    store.delete_abandoned()
    joiner = Joiner(Results(files.work), store, formats, rendered, settings)
    builder = ReportBuilder()
    for item in joiner.join(read.recordings):
        builder.add(item)
    report = builder.report()
    files.write_report(report.to_json())
    return report


@dataclass(frozen=True, slots=True)
class RunningTask:
    """A task that a worker holds now.

    Attributes:
        task: id of the task.
        worker: name of the worker.
        expires_in: seconds until others may take the task, unless the worker extends its lease.
    """

    task: str
    worker: str
    expires_in: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanStatus:
    """Counts of a plan.

    Attributes:
        recordings: number of recordings.
        unreadable: number of recordings that could not be probed when the plan was made.
        tasks: number of tasks.
        done: tasks whose spans all have results.
        running: tasks that a worker holds now.
        interrupted: number of tasks whose worker died or gave up; a worker will take them.
        waiting: number of tasks that no worker has taken yet.
        spans: number of spans.
        transcribed: number of spans with a transcript.
        failed: number of spans whose result is a failure.
        missing: number of spans without a result.
        hours: hours of audio of all spans.
        hours_done: hours of audio of the spans with a result.
        errors: the last error of each interrupted task that has one.
    """

    recordings: int
    unreadable: int
    tasks: int
    done: int
    running: tuple[RunningTask, ...]
    interrupted: int
    waiting: int
    spans: int
    transcribed: int
    failed: int
    missing: int
    hours: float
    hours_done: float
    errors: tuple[str, ...] = ()


def status(plan: str | PathLike[str]) -> PlanStatus:
    """Return how far the work on a plan is.

    Args:
        plan: path or URL of the plan.

    Returns:
        Counts of tasks that are done, running, interrupted and waiting, and of spans.

    Raises:
        OptionError: there is no such plan.
        MissingExtraError: the package for a kind of URL is not installed.
        WriteError: the store of the plan cannot be read.
    """
    files = PlanFiles.at(fspath(plan))
    leases = Leases(files.work, "status", has_ended=has_ended)
    return _count(files.read(), leases, Results(files.work))


def _count(plan: Plan, leases: Leases, results: Results) -> PlanStatus:
    """Return the counts of a plan.

    Raises:
        WriteError: the store cannot be read.
    """
    done = results.ids()
    generations = leases.generations()
    unfinished = [task for task in plan.tasks if any(span.id not in done for span in task.spans)]
    found = [
        lease
        for task in unfinished
        if task.id in generations and (lease := leases.read(task.id, generations[task.id]))
    ]
    now = time.time()
    held: list[Lease] = []
    free: list[Lease] = []
    for lease in found:
        (held if leases.is_held(lease) else free).append(lease)
    spans = [span for task in plan.tasks for span in task.spans]
    ended = [span for span in spans if span.id in done]
    failed = len(results.failed_ids() & {span.id for span in ended})
    return PlanStatus(
        recordings=len(plan.recordings),
        unreadable=len(plan.failures),
        tasks=len(plan.tasks),
        done=len(plan.tasks) - len(unfinished),
        running=tuple(_running(lease, now) for lease in held),
        interrupted=len(free),
        waiting=len(unfinished) - len(found),
        spans=len(spans),
        transcribed=len(ended) - failed,
        failed=failed,
        missing=len(spans) - len(ended),
        hours=round(sum(span.duration for span in spans) / 3600, 4),
        hours_done=round(sum(span.duration for span in ended) / 3600, 4),
        errors=tuple(lease.error for lease in free if lease.error),
    )


def _running(lease: Lease, now: float) -> RunningTask:
    return RunningTask(lease.task, lease.worker, round(lease.expires - now, 1))


def _check_formats(formats: Sequence[str]) -> None:
    if isinstance(formats, str) or not formats:
        raise OptionError("formats must be several names, such as ('txt', 'srt')")
    for name in formats:
        check_format(name, f"format {shown(name)}")
