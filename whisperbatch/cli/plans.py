"""The commands `plan`, `work`, `join` and `status`."""

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, Final

import typer

from whisperbatch import jobs
from whisperbatch.cli import flags
from whisperbatch.cli.flags import DEFAULT_MODEL, ListedCommand, Model, Verbose
from whisperbatch.cli.printing import (
    ExitOnSignal,
    configure_logging,
    loading_status,
    print_note,
    print_note_on_terminal,
    print_result,
)
from whisperbatch.engines.settings import setting_parameters
from whisperbatch.errors import OptionError
from whisperbatch.options import OPTION_NAMES
from whisperbatch.types import SECTION, to_seconds
from whisperbatch.writers import (
    FORMATS,
    TABLE_FORMATS,
    SubtitleOptions,
    TableOptions,
    check_file_options,
)

app = typer.Typer()

MACHINE: Final = jobs.MACHINE_KEYWORDS
PLAN_KEYWORDS: Final = tuple(
    name for name in ("engine", *setting_parameters()) if name not in MACHINE
)
"""Keywords of `load` that are flags of `plan`; those of `MACHINE` are flags of `work`."""
NOT_PLANNED: Final = {"sampling_rate", *jobs.TO_THE_WORKER}
PLAN_OPTIONS: Final = {*OPTION_NAMES} - NOT_PLANNED


PlanName = Annotated[str, typer.Argument(metavar="PLAN", help="Path or URL of the plan.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print errors only.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanArguments:
    """The arguments of `plan`: a flag for each field, and those of the last two."""

    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="SOURCE",
            help="Files, directories, patterns, URLs of any store (s3://...), and manifests "
            "(.jsonl, .jsonl.gz, .parquet).",
            show_default=False,
        ),
    ]
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="PLAN", help="Path or URL of the plan.")
    ]
    model: Model = DEFAULT_MODEL
    task_duration: Annotated[
        float,
        typer.Option(
            "--task-duration",
            metavar="SECONDS",
            help="Seconds of audio that a worker takes at a time. Longer recordings are divided.",
        ),
    ] = 1800.0
    quiet: Quiet = False
    verbose: Verbose = False
    load_keywords: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkArguments:
    """The arguments of `work`: a flag for each field, and those of the last two."""

    plan: PlanName
    shard: Annotated[
        str,
        typer.Option(
            "--shard",
            metavar="I/N",
            help="Take only the tasks of shard I of N, counted from 0: 0/4, 1/4, 2/4 or 3/4. "
            "Without this flag, the processes share all tasks.",
        ),
    ] = ""
    lease_duration: Annotated[
        float,
        typer.Option(
            "--lease-duration",
            metavar="SECONDS",
            help="Seconds until other processes take over a task, if this process dies.",
        ),
    ] = 600.0
    wait: Annotated[
        bool,
        typer.Option(
            "--wait/--no-wait",
            help="Wait for tasks that other processes hold, in case that these processes die.",
        ),
    ] = True
    retry_failed: Annotated[
        bool,
        typer.Option(
            "--retry-failed",
            help="Transcribe the recordings again whose result is a failure. Give it to one "
            "process, and start the others after it.",
        ),
    ] = False
    quiet: Quiet = False
    verbose: Verbose = False
    load_keywords: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinArguments:
    """The arguments of `join`: a flag for each field."""

    plan: PlanName
    output: Annotated[
        str,
        typer.Option(
            "--output", "-o", metavar="OUT", help="Path or URL of the folder of the transcripts."
        ),
    ]
    formats: Annotated[
        str,
        typer.Option(
            *("--format", "-f"),
            metavar="LIST",
            help=f"Formats of the files: {', '.join(FORMATS)}; several with commas.",
        ),
    ] = "txt"
    quiet: Quiet = False
    verbose: Verbose = False
    layout: SubtitleOptions = field(default_factory=SubtitleOptions)
    tables: TableOptions = field(default_factory=TableOptions)


@app.command("plan", cls=ListedCommand)
@flags.with_arguments(PlanArguments, load=PLAN_KEYWORDS, options=PLAN_OPTIONS)
def plan(arguments: PlanArguments) -> None:
    """Plan recordings that several processes transcribe."""
    configure_logging(verbose=arguments.verbose)
    raise typer.Exit(make_plan(arguments))


@app.command("work", cls=ListedCommand)
@flags.with_arguments(WorkArguments, load=MACHINE, options=jobs.TO_THE_WORKER)
def work(arguments: WorkArguments) -> None:
    """Transcribe tasks of a plan until none is left."""
    configure_logging(verbose=arguments.verbose)
    raise typer.Exit(work_on_plan(arguments))


@app.command("join", cls=ListedCommand)
@flags.with_arguments(JoinArguments)
def join(arguments: JoinArguments) -> None:
    """Write the transcripts of a plan, and a report."""
    configure_logging(verbose=arguments.verbose)
    raise typer.Exit(join_results(arguments))


@app.command("status", cls=ListedCommand)
def status(
    plan: PlanName,
    *,
    json_lines: Annotated[
        bool, typer.Option("--json-lines", help="Print the counts as a line of JSON.")
    ] = False,
) -> None:
    """Print how far the work on a plan is."""
    configure_logging(verbose=False)
    raise typer.Exit(show_status(plan, json_lines=json_lines))


def make_plan(arguments: PlanArguments) -> int:
    """Write a plan, and return the exit status: 1 if some recordings cannot be read."""
    output, quiet = arguments.output, arguments.quiet
    plan = jobs.plan(
        arguments.sources,
        output,
        model=arguments.model,
        task_duration=arguments.task_duration,
        **arguments.load_keywords,
        **arguments.options,
    )
    for recording in plan.failures:
        if recording.failure:
            print_note(f"failed: {recording.failure.message}")
    if not quiet and plan.with_secrets:
        readers = (
            "everyone who can read it can use them"
            if "://" in output and not output.startswith("file:")
            else "only you can read it (mode 0600)"
        )
        print_note(
            f"the plan contains passwords or signatures of {plan.with_secrets} URLs, which reading "
            f"needs: {readers}"
        )
    if not quiet:
        failed = len(plan.failures)
        print_note(
            f"{len(plan.recordings) - failed} recordings, {_hours(plan.header.duration / 3600)}, "
            f"in {len(plan.tasks)} tasks{f'; {failed} recordings failed' if failed else ''}"
        )
    return 1 if plan.failures else 0


def work_on_plan(arguments: WorkArguments) -> int:
    """Transcribe tasks, and return the exit status: 1 if some recordings failed."""
    job = jobs.WorkerJob.open(
        arguments.plan,
        shard=_shard(arguments.shard),
        batch_size=arguments.options.get("batch_size"),
        readers=arguments.options.get("readers"),
        reader_processes=arguments.options.get("reader_processes", False),
        lease_duration=arguments.lease_duration,
        wait=arguments.wait,
        retry_failed=arguments.retry_failed,
    )

    def show(event: jobs.SpanEnded) -> None:
        if event.failure:
            again = "" if event.is_final else "; another run tries again"
            print_note(f"failed: {event.failure.message}{again}")
        elif not arguments.quiet:
            print_note(f"done: {event.span.name}{_part(event.span)}")

    def say_goodbye() -> None:
        job.stop()
        print_note("stopped: other processes can take the tasks of this process at once")

    with ExitOnSignal(say_goodbye):
        with loading_status(job.plan.header.model, print_note_on_terminal):
            asr = job.load(**arguments.load_keywords)
        with asr:
            report = job.run(asr, show)
    if not arguments.quiet:
        left = f", {report.left} left to another run" if report.left else ""
        print_note(
            f"{report.transcribed} transcribed ({_hours(report.seconds / 3600)}), "
            f"{report.failed} failed{left}"
        )
    return 1 if report.failed or report.left else 0


def join_results(arguments: JoinArguments) -> int:
    """Write the transcripts, and return the exit status: 1 if some are missing or failed."""
    formats = tuple(name.strip().lower() for name in arguments.formats.split(","))
    for file_options in (arguments.layout, arguments.tables):
        check_file_options(file_options, formats)
    options = {
        name: (arguments.tables if name in TABLE_FORMATS else arguments.layout).fitted(name)
        for name in formats
    }
    report = jobs.join(arguments.plan, arguments.output, formats=formats, file_options=options)
    for message in report.failed.values():
        print_note(f"failed: {message}")
    for uri, spans in report.missing.items():
        print_note(f"missing: {uri}: {spans} of its parts have no result yet")
    for uri, seconds in report.incomplete.items():
        missing = f"{seconds:.1f} s that the file states are" if seconds else "a part is"
        print_note(f"incomplete: {uri}: {missing} missing")
    if not arguments.quiet:
        failed = sum(report.failures.values())
        kinds = ", ".join(f"{count} {kind}" for kind, count in report.failures.items())
        count = report.incomplete_recordings
        incomplete = f", {count} incomplete" if count else ""
        speed = f", {report.rtfx:g} times real time for each worker" if report.rtfx else ""
        print_note(
            f"{report.joined} of {report.recordings} recordings joined "
            f"({_hours(report.hours)}{speed}), {failed} failed{f' ({kinds})' if kinds else ''}, "
            f"{report.missing_recordings} missing{incomplete}"
        )
    return 1 if report.joined < report.recordings else 0


def show_status(plan: str, *, json_lines: bool) -> int:
    """Print the counts of a plan."""
    status = jobs.status(plan)
    if json_lines:
        print_result(json.dumps(asdict(status)))
        return 0
    print_result(
        f"tasks       {status.tasks}: {status.done} done, {len(status.running)} running, "
        f"{status.interrupted} interrupted, {status.waiting} waiting"
    )
    print_result(
        f"parts       {status.spans}: {status.transcribed} transcribed, {status.failed} failed, "
        f"{status.missing} missing"
    )
    print_result(f"audio       {_hours(status.hours_done)} of {_hours(status.hours)}")
    unreadable = f", {status.unreadable} unreadable" if status.unreadable else ""
    print_result(f"recordings  {status.recordings}{unreadable}")
    for task in status.running:
        print_result(f"running     {task.worker}, lease for {task.expires_in:.0f} s")
    for error in status.errors:
        print_result(f"error       {error}")
    return 0


def _shard(text: str) -> tuple[int, int] | None:
    if not text:
        return None
    match = re.fullmatch(r"(\d+)/(\d+)", text)
    if not match or int(match[1]) >= int(match[2]):
        raise OptionError(f"--shard {text}: give I/N, counted from 0: 0/4, 1/4, 2/4 or 3/4")
    return int(match[1]), int(match[2])


def _part(span: jobs.PlannedSpan) -> str:
    if span.is_whole:
        return ""
    minutes = round(to_seconds(SECTION) / 60)
    end = "the end" if span.last is None else f"{span.last * minutes} min"
    return f", {span.first * minutes} min to {end}"


def _hours(hours: float) -> str:
    return f"{hours:.2f} hours" if hours >= 1 else f"{hours * 60:.1f} minutes"
