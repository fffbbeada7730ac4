"""The flags of `plan`, `work`, `join` and `status`."""

from typing import Annotated, Any, Final

import typer

from whisperbatch import jobs
from whisperbatch.cli import flags
from whisperbatch.cli.flags import DEFAULT_MODEL, ListedCommand, Model, Verbose
from whisperbatch.cli.plans.run import (
    JoinArguments,
    PlanName,
    Quiet,
    WorkArguments,
    join_results,
    make_plan,
    show_status,
    work_on_plan,
)
from whisperbatch.cli.printing import configure_logging
from whisperbatch.engines.keywords import setting_parameters
from whisperbatch.options import Options

app = typer.Typer()

MACHINE: Final = jobs.MACHINE_KEYWORDS
PLAN_KEYWORDS: Final = tuple(
    name for name in ("engine", *setting_parameters()) if name not in MACHINE
)
"""Keywords of `load` that are flags of `plan`; those of `MACHINE` are flags of `work`."""
NOT_PLANNED: Final = {"sampling_rate", "batch_size"}
PLAN_OPTIONS: Final = {*flags.field_names(Options)} - NOT_PLANNED


@app.command("plan", cls=ListedCommand)
@flags.with_flags(
    *flags.load_flags(PLAN_KEYWORDS, "Model"),
    *flags.option_flags(PLAN_OPTIONS),
)
def plan(
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="SOURCE",
            help="Files, directories, patterns, URLs of any store (s3://...), and manifests "
            "(.jsonl, .jsonl.gz, .parquet).",
            show_default=False,
        ),
    ],
    *,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="PLAN", help="Path or URL of the plan.")
    ],
    model: Model = DEFAULT_MODEL,
    task_duration: Annotated[
        float,
        typer.Option(
            "--task-duration",
            help="Seconds of audio that a worker takes at a time. Longer recordings are divided.",
        ),
    ] = 1800.0,
    quiet: Quiet = False,
    verbose: Verbose = False,
    **keywords: Any,  # noqa: ANN401 - the flags of options
) -> None:
    """Plan recordings that several processes transcribe."""
    configure_logging(verbose=verbose)
    given = flags.given_flags(keywords)
    raise typer.Exit(
        make_plan(sources, output, quiet=quiet, model=model, task_duration=task_duration, **given)
    )


@app.command("work", cls=ListedCommand)
@flags.with_flags(
    *flags.load_flags(MACHINE, "Model"),
    *flags.option_flags({"batch_size"}),
)
def work(
    plan: PlanName,
    *,
    shard: Annotated[
        str,
        typer.Option(
            "--shard",
            metavar="I/N",
            help="Take only the tasks of shard I of N, counted from 0: 0/4, 1/4, 2/4 or 3/4. "
            "Without this flag, the processes share all tasks.",
        ),
    ] = "",
    lease_duration: Annotated[
        float,
        typer.Option(
            "--lease-duration",
            help="Seconds until other processes take over a task, if this process dies.",
        ),
    ] = 600.0,
    wait: Annotated[
        bool,
        typer.Option(
            "--wait/--no-wait",
            help="Wait for tasks that other processes hold, in case that these processes die.",
        ),
    ] = True,
    retry_failed: Annotated[
        bool,
        typer.Option(
            "--retry-failed",
            help="Transcribe the recordings again whose result is a failure. Give it to one "
            "process, and start the others after it.",
        ),
    ] = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    **keywords: Any,  # noqa: ANN401 - the flags of options
) -> None:
    """Transcribe tasks of a plan until none is left."""
    configure_logging(verbose=verbose)
    given = flags.given_flags(keywords)
    arguments = WorkArguments(
        plan=plan,
        shard=shard,
        batch_size=given.pop("batch_size", None),
        lease_duration=lease_duration,
        wait=wait,
        retry_failed=retry_failed,
        quiet=quiet,
        load_keywords=given,
    )
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
