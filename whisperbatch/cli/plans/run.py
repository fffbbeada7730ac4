"""The work of the commands `plan`, `work`, `join` and `status`."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any

import typer

from whisperbatch import jobs
from whisperbatch.cli.flags import Verbose
from whisperbatch.cli.printing import (
    ExitOnSignal,
    loading_status,
    print_note,
    print_note_on_terminal,
    print_result,
)
from whisperbatch.errors import OptionError
from whisperbatch.types import SECTION, to_seconds
from whisperbatch.writers import (
    FORMATS,
    TABLE_FORMATS,
    SubtitleOptions,
    TableOptions,
    check_file_options,
)

PlanName = Annotated[str, typer.Argument(metavar="PLAN", help="Path or URL of the plan.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print errors only.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkArguments:
    """The arguments of `work`.

    Attributes:
        plan: path or URL.
        shard: "I/N", or empty.
        batch_size: None if not given.
        lease_duration: in seconds.
        wait: whether to wait for the tasks of other workers.
        retry_failed: whether to transcribe failed recordings again.
        quiet: print errors only.
        load_keywords: keywords of `load`.
    """

    plan: str
    shard: str
    batch_size: int | None
    lease_duration: float
    wait: bool
    retry_failed: bool
    quiet: bool
    load_keywords: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinArguments:
    """The arguments of `join`: a flag for each field.

    Attributes:
        layout: of subtitles.
        tables: the content of csv and tsv files.
    """

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
            "--format",
            "-f",
            help=f"Formats of the files: {', '.join(FORMATS)}; several with commas.",
        ),
    ] = "txt"
    quiet: Quiet = False
    verbose: Verbose = False
    layout: SubtitleOptions = field(default_factory=SubtitleOptions)
    tables: TableOptions = field(default_factory=TableOptions)


def make_plan(sources: Sequence[str], output: str, *, quiet: bool, **keywords: Any) -> int:  # noqa: ANN401 - of `jobs.plan`
    """Write a plan, and return the exit status: 1 if some recordings cannot be read."""
    plan = jobs.plan(sources, output, **keywords)
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
        batch_size=arguments.batch_size,
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
