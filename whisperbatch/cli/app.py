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
from importlib.metadata import version
from typing import Annotated, Any, Final, NoReturn

import typer
from rich.console import Console

from whisperbatch.boundary import as_error
from whisperbatch.cli import flags
from whisperbatch.cli.doctor import run_doctor
from whisperbatch.cli.flags import DEFAULT_MODEL, ListedCommand, Model, Revision
from whisperbatch.cli.inventory import fetch_model, show_info, show_models, show_tracks
from whisperbatch.cli.messages import message_of, usage_message
from whisperbatch.cli.plans import app as plan_commands
from whisperbatch.cli.printing import (
    configure_logging,
    exit_now,
    print_note,
    print_result,
    reason_of,
)
from whisperbatch.cli.transcribe import (
    DetectionArguments,
    TranscribeArguments,
    detect_languages,
    transcribe_all,
)
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
from whisperbatch.options import DETECTION_OPTIONS, OPTION_NAMES

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
PASS_FLAGS: Final = {"allow_extra_args": True, "ignore_unknown_options": True}
"""`cli.doctor` parses the flags of `doctor`, which must run without Typer."""
SERVER_MODULES: Final = (
    *("fastapi", "uvicorn", "h11", "python_multipart", "pydantic_settings", "prometheus_client"),
    *("pydantic", "starlette"),
)
"""Modules of the extra `server`."""
INTRODUCTION: Final = """Transcribe long recordings with Whisper.

\b
whisperbatch transcribe talk.mp3                print the text
whisperbatch transcribe talk.mp3 --format srt   write subtitles to talk.srt
whisperbatch transcribe talks -o texts -f all   a directory; can be resumed
whisperbatch detect-language talk.mp3           print the spoken language
whisperbatch plan talks -o talks.plan           share a job: work, join
whisperbatch doctor                             check this machine
"""


def _show_version(requested: bool) -> None:
    if requested:
        print_result(f"whisperbatch {version('whisperbatch')}")
        raise typer.Exit


app = typer.Typer(
    name="whisperbatch",
    help=INTRODUCTION,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
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


@app.command("models")
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


@app.command("info")
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
        from whisperbatch.server.serve import serve as run_server  # noqa: PLC0415 - an extra
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in SERVER_MODULES:
            raise
        missing = f"the server needs {error.name}: pip install 'whisperbatch[server]'"
        note = interface_note(error)
        raise MissingExtraError(f"{error}{note}" if note else missing) from error
    run_server(context.args)


app.registered_commands += plan_commands.registered_commands


@app.callback()
def start(
    _version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version and exit.", callback=_show_version, is_eager=True
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
        arguments = flags.normalize(sys.argv[1:] or ["--help"], switches)
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
        _exit_with(usage_message(error, command.commands.values()), 2)
    except OSError as error:  # a closed terminal or a full disk
        _exit_with(f"the output cannot be written: {reason_of(error)}", 5)
    except Exception as error:  # noqa: BLE001 - users never see a traceback by default
        _exit_with(str(as_error(error, None)), INTERNAL_STATUS)


def _exit_with(message: str, status: int) -> NoReturn:
    print_note(f"whisperbatch: {' '.join(message.splitlines())}")
    exit_now(status)
