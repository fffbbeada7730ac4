"""The command `whisperbatch check`: violations of rules in files of subtitles."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any, Literal

import typer

from whisperbatch.cli.flags import ListedCommand
from whisperbatch.cli.printing import configure_logging, print_error, print_note, print_result
from whisperbatch.errors import OptionError
from whisperbatch.text import counted
from whisperbatch.writers import FRAME_RATE, RulesName, Violation, check

app = typer.Typer()


@app.command("check", cls=ListedCommand)
def check_files(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE", help="Files: .srt, .vtt, .sbv, .ass or .ssa.", show_default=False
        ),
    ],
    *,
    rules: Annotated[
        RulesName, typer.Option("--rules", help="Whose rules the files shall follow.")
    ] = "netflix",
    language: Annotated[
        str,
        typer.Option(
            "--language",
            metavar="CODE",
            help="Code or English name. By default the code in the file name (talk.de.srt), or the "
            "language of the script, or English.",
            show_default=False,
        ),
    ] = "",
    frame_rate: Annotated[
        float, typer.Option("--frame-rate", metavar="X", help="Frames per second of the video.")
    ] = FRAME_RATE,
    format_: Annotated[
        Literal["text", "json"], typer.Option("--format", "-f", help="json prints one line.")
    ] = "text",
) -> None:
    """Check files of subtitles: lines, reading speed, durations, gaps and breaks.

    The exit status is 1 if a file breaks a rule.
    """
    configure_logging(verbose=False)
    found: dict[str, list[Violation]] = {}
    problems: list[OptionError] = []
    for name in files:
        try:
            found[name] = check(name, rules, language=language or None, frame_rate=frame_rate)
        except OptionError as error:
            if len(files) == 1:
                raise
            problems.append(error)
    if format_ == "json":
        print_result(json.dumps(_values(found), ensure_ascii=False))
    else:
        for name, violations in found.items():
            _print(name if len(files) > 1 else "", violations)
    for problem in problems:
        print_error(problem)
    raise typer.Exit(1 if problems or any(found.values()) else 0)


def _values(found: dict[str, list[Violation]]) -> list[dict[str, Any]]:
    """Return the violations of each file as values of JSON."""
    return [
        {"file": name, "violations": [asdict(violation) for violation in violations]}
        for name, violations in found.items()
    ]


def _print(name: str, violations: Sequence[Violation]) -> None:
    """Print the violations of a file, and their number by rule."""
    prefix = f"{name}: " if name else ""
    for violation in violations:
        print_result(f"{prefix}{violation}")
    counts = Counter(violation.rule for violation in violations)
    summary = ", ".join(f"{count} {rule}" for rule, count in counts.most_common())
    print_note(f"{prefix}{counted(violations, 'violation')}{f': {summary}' if summary else ''}")
