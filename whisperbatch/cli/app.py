"""The commands: their flags and their exit statuses. Other files of this package do the work.

0    everything is done
1    some recordings failed, or doctor found a problem; a line for each states the reason
2    a flag or option is unknown, or cannot be used
3    the model cannot be found or loaded
4    a required package is not installed
5    outputs cannot be written
6    an unexpected error: a bug; --verbose prints the traceback
130  stopped by Ctrl-C
141  the reader of a pipe has ended, as in "| head": 128 plus SIGPIPE, as from cat, grep and git
"""

import logging
import signal
import sys
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Annotated, Any, Final, NoReturn

import typer
from rich.console import Console
from typer.core import TyperGroup

from whisperbatch.boundary import as_error
from whisperbatch.cli import check, flags, version_line
from whisperbatch.cli.doctor import run_doctor
from whisperbatch.cli.flags import (
    DEFAULT_MODEL,
    WHOLE_PAGE,
    ListedCommand,
    Model,
    Revision,
    page_flags,
)
from whisperbatch.cli.help import MAX_WIDTH, MORE, UNGROUPED, Flag, print_page
from whisperbatch.cli.inventory import fetch_model, show_info, show_models, show_tracks
from whisperbatch.cli.live import LiveArguments, transcribe_live
from whisperbatch.cli.messages import message_of, usage_messages
from whisperbatch.cli.plans import app as plan_commands
from whisperbatch.cli.printing import (
    configure_logging,
    exit_now,
    print_note,
    print_result,
    reason_of,
)
from whisperbatch.cli.recordings import looks_like_recording
from whisperbatch.cli.transcribe import (
    DetectionArguments,
    TranscribeArguments,
    detect_languages,
    transcribe_all,
)
from whisperbatch.cli.wyoming import WyomingArguments, serve_wyoming
from whisperbatch.dependencies import interface_note
from whisperbatch.engines.memory import return_large_arrays_at_once
from whisperbatch.engines.settings import setting_parameters
from whisperbatch.errors import (
    InternalError,
    MissingExtraError,
    ModelError,
    OptionError,
    WhisperBatchError,
    WriteError,
)
from whisperbatch.live.settings import REFUSED
from whisperbatch.options import DETECTION_OPTIONS, OPTION_NAMES
from whisperbatch.text import shown

USAGE_ERROR: Final[Any] = typer.BadParameter.__mro__[1]  # UsageError, which Typer does not export
SETTINGS: Final = setting_parameters()
INTERNAL_STATUS: Final = 6
STATUSES: Final[tuple[tuple[type[WhisperBatchError], int], ...]] = (
    (OptionError, 2),
    (ModelError, 3),
    (MissingExtraError, 4),
    (WriteError, 5),
    (InternalError, INTERNAL_STATUS),
)
READER_ENDED: Final = 128 + 13  # SIGPIPE, which Windows does not define
LOAD_KEYWORDS: Final = ("device", "engine", *SETTINGS)
"""Keywords of `load` that are flags."""
FOR_ARRAYS: Final = {"sampling_rate"}  # options for samples in memory, which have no flag
OPTIONS: Final = {*OPTION_NAMES} - FOR_ARRAYS
DETECTION: Final = set(DETECTION_OPTIONS) - FOR_ARRAYS
LIVE_FLAGS: Final = ("delay", "turn_silence")
"""Fields of `LiveSettings` that are flags."""
PASS_FLAGS: Final = {"allow_extra_args": True, "ignore_unknown_options": True}
"""`cli.doctor` parses the flags of `doctor`, which must run without Typer."""
SERVER_MODULES: Final = (
    *("fastapi", "uvicorn", "h11", "python_multipart", "pydantic_settings", "prometheus_client"),
    *("pydantic", "starlette", "websockets"),
)
"""Modules of the extra `server`."""
SERVER_FLAGS: Final = (
    *("model", "host", "port", "device", "engine", "api_key", "api_keys_file", "tls_cert"),
    *("max_upload", "max_duration", "max_requests"),
)
"""The settings of the server on its short page."""
EXAMPLES: Final = """\
  whisperbatch talk.mp3                  print the text
  whisperbatch talk.mp3 -o talk.srt      write subtitles
  whisperbatch talks -o texts -f all     transcribe a folder; can be resumed
"""
DEFAULT_COMMAND: Final = "transcribe"


class Program(TyperGroup):
    """The program: `whisperbatch talk.mp3` is `whisperbatch transcribe talk.mp3`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - as in Typer
        """See the base class; the arguments begin with a command."""
        ctx.meta[WHOLE_PAGE] = "--help" in args
        if args and args[0] not in self._own_flags(ctx):
            args = with_command(args, self.commands, strict=not ctx.resilient_parsing)
        return super().parse_args(ctx, args)

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:  # noqa: ANN401 - as in Typer
        """Return the commands and flags that begin so; also the flags of `transcribe`."""
        found = super().shell_complete(ctx, incomplete)
        if incomplete.startswith("-"):
            command: Any = self.commands[DEFAULT_COMMAND]
            context = command.make_context(DEFAULT_COMMAND, [], parent=ctx, resilient_parsing=True)
            found += command.shell_complete(context, incomplete)
        return found

    def format_help(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401, ARG002 - as in Typer
        """Print the page of `transcribe`, with the other commands."""
        brief = not ctx.meta.get(WHOLE_PAGE)
        command: Any = self.commands[DEFAULT_COMMAND]
        shown_flags = page_flags(command, ctx)
        others = [name for name in self.commands if name != DEFAULT_COMMAND]
        if brief:
            ending = (
                f"Commands: {' '.join(others)}\n{MORE} whisperbatch COMMAND -h explains a command."
            )
        else:
            ending = ""
            shown_flags += page_flags(self, ctx)
            shown_flags += [
                Flag(name, name, self.commands[name].get_short_help_str(MAX_WIDTH), "Commands")
                for name in self.commands
            ]
        usage = f"{ctx.command_path} RECORDING... [OPTIONS]"
        print_page(usage, EXAMPLES, shown_flags, brief=brief, ending=ending)
        raise typer.Exit

    def _own_flags(self, ctx: Any) -> set[str]:  # noqa: ANN401 - as in Typer
        return {name for parameter in self.get_params(ctx) for name in parameter.opts}


def with_command(
    arguments: Sequence[str], commands: Mapping[str, Any], *, strict: bool = True
) -> list[str]:
    """Return the arguments with the command first: `transcribe` if they name none.

    The first argument that is no flag, and no value of one, decides. It is a command, or it names a
    recording. A file with the name of a command needs `transcribe` before it.

    Args:
        arguments: of the program, at least one.
        commands: by their names.
        strict: refuse a word that is neither a command nor looks like a recording, if all flags
            before the word are known.

    Raises:
        OptionError: such a word is given.
    """
    takes_value = {
        name: not getattr(parameter, "is_flag", False)
        for parameter in commands[DEFAULT_COMMAND].params
        for name in (*parameter.opts, *parameter.secondary_opts)
    }
    place = 0
    while place < len(arguments) and arguments[place].startswith("-") and arguments[place] != "-":
        flag = arguments[place].partition("=")[0]
        if flag == "--":
            return [DEFAULT_COMMAND, *arguments]
        if flag not in takes_value and flag[:2] not in takes_value:
            strict = False  # whether it takes a value is unknown: the command refuses the flag
        place += 2 if takes_value.get(arguments[place]) else 1
    word = arguments[place] if place < len(arguments) else "-"
    if word in commands:
        return [word, *arguments[:place], *arguments[place + 1 :]]
    if strict and not looks_like_recording(word):
        near = get_close_matches(word.lower().replace("_", "-"), commands, n=1)
        hint = f"did you mean {near[0]}?" if near else "whisperbatch -h lists the commands"
        raise OptionError(f"No such command or file: {shown(word)}; {hint}")
    return [DEFAULT_COMMAND, *arguments]


def _show_version(requested: bool) -> None:
    if requested:
        print_result(version_line())
        raise typer.Exit


app = typer.Typer(
    name="whisperbatch",
    cls=Program,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.command("transcribe", cls=ListedCommand)
@flags.with_arguments(TranscribeArguments, load=LOAD_KEYWORDS, options=OPTIONS)
def transcribe(arguments: TranscribeArguments) -> None:
    """Transcribe recordings: print the text, or write files."""
    configure_logging(verbose=arguments.verbose)
    raise typer.Exit(transcribe_all(arguments))


@app.command("detect-language", cls=ListedCommand)
@flags.with_arguments(DetectionArguments, load=LOAD_KEYWORDS, options=DETECTION)
def detect_language(arguments: DetectionArguments) -> None:
    """Print the spoken language of recordings."""
    configure_logging(verbose=arguments.verbose)
    raise typer.Exit(detect_languages(arguments))


@app.command("live", cls=ListedCommand)
@flags.with_arguments(
    LiveArguments, load=LOAD_KEYWORDS, options=OPTIONS, hidden=REFUSED, live=LIVE_FLAGS
)
def live(arguments: LiveArguments) -> None:
    """Print text while people speak: microphone, stream, or file."""
    configure_logging(verbose=arguments.verbose)
    raise typer.Exit(transcribe_live(arguments))


@app.command("models", cls=ListedCommand)
def models(
    fetch: Annotated[
        str,
        typer.Option("--fetch", metavar="NAME", help="Download a model, to use it offline later."),
    ] = "",
    *,
    revision: Revision = None,
) -> None:
    """List the models, or download a model."""
    configure_logging(verbose=bool(fetch))
    if fetch:
        fetch_model(fetch, revision)
    elif revision is not None:
        raise OptionError("--revision has no effect without --fetch")
    else:
        show_models(Console())


@app.command("info", cls=ListedCommand)
def info(
    recording: Annotated[
        str,
        typer.Argument(metavar="[RECORDING]", help="List the audio tracks of this file instead."),
    ] = "",
    model: Model = DEFAULT_MODEL,
    *,
    revision: Revision = None,
) -> None:
    """Print versions and devices, or the tracks of a recording."""
    configure_logging(verbose=False)
    if recording:
        show_tracks(recording)
    else:
        show_info(model, revision)


@app.command("doctor", add_help_option=False, context_settings=PASS_FLAGS)
def doctor(context: typer.Context) -> None:
    """Check the installation and this machine."""
    run_doctor(context.args)


@app.command("serve", add_help_option=False, context_settings=PASS_FLAGS)
def serve(context: typer.Context) -> None:
    """Serve transcriptions over HTTP, with OpenAI's API."""
    configure_logging(verbose=True)
    try:
        from whisperbatch.server.serve import flag_texts  # noqa: PLC0415 - an extra
        from whisperbatch.server.serve import serve as run_server  # noqa: PLC0415
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in SERVER_MODULES:
            raise
        missing = f"the server needs {error.name}: pip install 'whisperbatch[server]'"
        note = interface_note(error)
        raise MissingExtraError(f"{error}{note}" if note else missing) from error
    if not {"-h", "--help"} & {*context.args}:
        run_server(context.args)
        return
    shown_flags = [
        Flag(
            "",
            f"{flags.flag_of(name)} {value}".strip(),
            text,
            UNGROUPED if name in SERVER_FLAGS else "More settings",
        )
        for name, (value, text) in flag_texts().items()
    ]
    print_page(
        f"{context.command_path} [OPTIONS]",
        "\nServe transcriptions over HTTP, with OpenAI's API. A variable can replace each flag: "
        "WHISPERBATCH_PORT=8080 is --port 8080.",
        shown_flags,
        brief="--help" not in context.args,
    )


@app.command("wyoming", cls=ListedCommand)
@flags.with_arguments(
    WyomingArguments, load=LOAD_KEYWORDS, options=OPTIONS, hidden=REFUSED, live=LIVE_FLAGS
)
def wyoming(arguments: WyomingArguments) -> None:
    """Serve Home Assistant, with the Wyoming protocol."""
    configure_logging(verbose=arguments.verbose)
    serve_wyoming(arguments)


app.registered_commands += plan_commands.registered_commands + check.app.registered_commands


@app.callback()
def start(
    _version: Annotated[
        bool,
        typer.Option(
            *("--version", "-V"),
            help="Print the version.",
            callback=_show_version,
            is_eager=True,
        ),
    ] = False,
) -> None:
    """Handle the flags before a command, and configure this process."""
    return_large_arrays_at_once()


def run() -> NoReturn:
    """Run the command line. An error prints one line, and the exit status shows its kind."""
    # without a handler, Python prints the traceback of an InternalError
    logging.getLogger("whisperbatch").addHandler(logging.NullHandler())
    try:
        command: Any = typer.main.get_command(app)  # a group, whose type Typer does not export
        switches = flags.find_switches(command.commands.values())
        typed = _without_same_values(sys.argv[1:] or ["-h"])
        arguments = flags.normalize(typed, switches)
        sys.exit(command(arguments, standalone_mode=False))
    except (KeyboardInterrupt, typer.Abort):
        exit_now(128 + signal.SIGINT)
    except BrokenPipeError:
        exit_now(READER_ENDED)
    except SystemExit as exit_:
        if isinstance(exit_.__context__, BrokenPipeError):  # Typer and Rich exit with status 1
            exit_now(READER_ENDED)
        raise
    except WhisperBatchError as error:
        _exit_with(
            message_of(error),
            next((status for kind, status in STATUSES if isinstance(error, kind)), 1),
        )
    except USAGE_ERROR as error:
        messages = usage_messages(error, command.commands.values(), typed)
        for message in messages[:-1]:
            _print_problem(message)
        _exit_with(messages[-1], 2)
    except OSError as error:  # a closed terminal or a full disk
        _exit_with(f"the output cannot be written: {reason_of(error)}", 5)
    except Exception as error:  # noqa: BLE001 - users never see a traceback by default
        _exit_with(str(as_error(error, None)), INTERNAL_STATUS)


def _without_same_values(arguments: Sequence[str]) -> list[str]:
    """Return the arguments without those that are not needed, and print why."""
    typed, notes = flags.without_same_values(arguments)
    for note in () if {"-q", "--quiet"} & {*typed} else notes:
        print_note(note)
    return typed


def _exit_with(message: str, status: int) -> NoReturn:
    _print_problem(message)
    exit_now(status)


def _print_problem(message: str) -> None:
    print_note(f"whisperbatch: {' '.join(message.splitlines())}")
