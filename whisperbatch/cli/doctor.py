"""The command `whisperbatch doctor`: check the installation and this machine.

The command must run even if a library does not import. It uses the standard library only, and not
Typer.
"""

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, NoReturn

from whisperbatch.cli.help import Flag, print_page
from whisperbatch.doctor import (
    TIME_LIMIT,
    Finding,
    diagnose,
    has_problems,
    line,
    summary,
    to_json,
)

DESCRIPTION: Final = (
    "Check the installation and this machine, and print how to fix each problem.\n\n"
    "A recording with known text is transcribed with each installed engine on each device. Each "
    "line is ok, a warning (transcription works, but slower or without a part) or a problem. The "
    "exit status is 1 if there is a problem, otherwise 0."
)
MAX_TIME_LIMIT: Final = 86400  # seconds
CLEAR_LINE: Final = "\r\033[K"


def run_doctor(arguments: Sequence[str]) -> NoReturn:
    """Run the command, and exit with its status."""
    flags = _parser().parse_args(arguments)
    try:
        sys.exit(_diagnose(flags))
    except KeyboardInterrupt:
        os._exit(128 + signal.SIGINT)
    except BrokenPipeError:  # the reader of the output has ended, as in "| head"
        os._exit(128 + getattr(signal, "SIGPIPE", 13))


def _diagnose(flags: argparse.Namespace) -> int:
    terminal = sys.stderr.isatty()

    def show_status(text: str) -> None:
        if terminal:
            print(f"{CLEAR_LINE}checking {text} ...", end="", file=sys.stderr, flush=True)  # noqa: T201 - a message of the command line

    findings: list[Finding] = []
    for finding in diagnose(
        model=flags.model,
        revision=flags.revision,
        device=flags.device,
        time_limit=flags.time_limit,
        show_status=show_status,
    ):
        findings.append(finding)
        if terminal:
            print(CLEAR_LINE, end="", file=sys.stderr, flush=True)  # noqa: T201 - as above
        if not flags.json:
            print(line(finding, details=flags.verbose), flush=True)  # noqa: T201 - as above
    print(to_json(findings) if flags.json else summary(findings), flush=True)  # noqa: T201 - as above
    return int(has_problems(findings))


class _Parser(argparse.ArgumentParser):
    """A parser whose errors and help pages have the form of those of the other commands."""

    def print_help(self, file: object = None) -> None:  # noqa: ARG002 - as in argparse
        """Print the help page."""
        shown = [
            Flag(
                action.dest,
                " ".join((", ".join(action.option_strings), _value(action))).strip(),
                f"{(action.help or '') % {'default': action.default}}.",
            )
            for action in self._actions
            if action.dest != "help"
        ]
        print_page(f"{self.prog} [OPTIONS]", f"\n{self.description}", shown, brief=False)

    def error(self, message: str) -> NoReturn:
        """Print the error, and exit with status 2."""
        self.exit(2, f"whisperbatch: {message}; {self.prog} --help lists all options\n")


def _value(action: argparse.Action) -> str:
    """Return the form of the value of a flag; empty if it has none."""
    if action.nargs == 0:
        return ""
    return "|".join(action.choices) if action.choices else str(action.metavar or "NAME")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="whisperbatch doctor",
        description=DESCRIPTION,
        allow_abbrev=False,
    )
    parser.add_argument(
        "-m",
        "--model",
        default="",
        help="A name, a directory of weights, or a Hugging Face repository; without this flag "
        "base, or another model that needs no download",
    )
    parser.add_argument(
        "--revision", help="Commit, branch or tag of the model on the Hugging Face hub"
    )
    parser.add_argument(
        "--device",
        choices=("auto", "cpu", "cuda"),
        default="auto",
        help="The devices to check; auto is all devices of this machine",
    )
    parser.add_argument(
        "--time-limit",
        type=_seconds,
        default=TIME_LIMIT,
        metavar="SECONDS",
        help="For each check, which includes a download of the model; default %(default)g",
    )
    parser.add_argument("--json", action="store_true", help="Print the findings as a JSON object")
    parser.add_argument(
        "-v", "--verbose", action="store_true", help="Also print the messages of libraries"
    )
    return parser


def _seconds(text: str) -> float:
    """Return a time limit; argparse turns the exception into a usage error."""
    with suppress(ValueError):
        if 0 < float(text) <= MAX_TIME_LIMIT:
            return float(text)
    raise argparse.ArgumentTypeError(
        f"{text!r} must be a number of seconds, above 0 and up to {MAX_TIME_LIMIT}"
    )
