"""The commands. What they do is elsewhere: here it is said what they take, and what they exit with.

0    all done
1    some recordings failed: a line for each says why
2    a flag or option that cannot be honoured
3    the model cannot be had
4    something that is needed is not installed
5    outputs cannot be written
130  stopped by Ctrl-C
"""

import inspect
import logging
import signal
import sys
from contextlib import suppress
from importlib.metadata import version
from typing import Annotated, Any, Final, NoReturn

import typer
from rich.console import Console
from rich.logging import RichHandler

import whisperbatch as wb
from whisperbatch.cli import flags
from whisperbatch.cli.detecting import detect_languages
from whisperbatch.cli.inventory import fetch_model, show_info, show_models
from whisperbatch.cli.listing import Listed
from whisperbatch.cli.screen import put
from whisperbatch.cli.stopping import leave
from whisperbatch.cli.transcribing import Wanted, transcribe_all
from whisperbatch.errors import (
    MissingExtraError,
    ModelError,
    OptionError,
    WhisperBatchError,
    WriteError,
)
from whisperbatch.options import DetectionKeywords, OptionKeywords, Options
from whisperbatch.writers import FORMATS, SubtitleOptions

USAGE: Final[Any] = typer.BadParameter.__mro__[1]  # of the errors of usage typer names but this
SWITCHES: Final = {
    **flags.switches(Options, SubtitleOptions),
    "compile": True,
    "resume": True,
    "verbose": False,
    "quiet": False,
    "json_lines": False,
}
STATUSES: Final[tuple[tuple[type[WhisperBatchError], int], ...]] = (
    (OptionError, 2),
    (ModelError, 3),
    (MissingExtraError, 4),
    (WriteError, 5),
)
LOADING: Final = (
    *("engine", "device", "compute_type", "encoder", "decoder", "inter_threads", "intra_threads"),
    *("quantization", "group_size", "draft_model", "compile"),
)
ARRAYS: Final = {"sampling_rate"}  # what is for samples in memory alone
OPTIONS: Final = OptionKeywords.__annotations__.keys() - ARRAYS
DETECTION: Final = DetectionKeywords.__annotations__.keys() - ARRAYS
DEFAULT_MODEL: Final[str] = inspect.signature(wb.load).parameters["model"].default
START: Final = """Text from long recordings, by Whisper: in batches, with nothing lost.

\b
whisperbatch transcribe talk.mp3                the text, here
whisperbatch transcribe talk.mp3 --format srt   subtitles, in talk.srt
whisperbatch transcribe talks -o texts -f all   a directory; again to go on
whisperbatch detect-language talk.mp3           what is spoken
whisperbatch models                             which there are, and where
"""


def _show_version(wanted: bool) -> None:
    if wanted:
        put(f"whisperbatch {version('whisperbatch')}")
        raise typer.Exit


app = typer.Typer(
    name="whisperbatch",
    help=START,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Inputs = Annotated[
    list[str],
    typer.Argument(
        metavar="RECORDING",
        help="Files, directories, patterns, URLs; - is standard input.",
        show_default=False,
    ),
]
Model = Annotated[
    str,
    typer.Option(
        "--model", "-m", help="A name, a directory of CTranslate2 weights, or a hub repository."
    ),
]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Say what is chosen and why.")]


@app.command("transcribe", cls=Listed)
@flags.takes(
    *flags.of_class(SubtitleOptions, "Subtitles"),
    *flags.of_function(wb.load, LOADING, "Model"),
    *flags.of_options(OPTIONS),
)
def transcribe(
    inputs: Inputs,
    *,
    model: Model = DEFAULT_MODEL,
    formats: Annotated[
        str,
        typer.Option(
            "--format",
            "-f",
            help=f"Write files: {', '.join(FORMATS)}; several with commas, or all. "
            "Of several recordings txt is written.",
            show_default=False,
        ),
    ] = "",
    output_dir: Annotated[
        str,
        typer.Option(
            "--output-dir",
            "-o",
            help="Where to write them, instead of beside each recording.",
            show_default=False,
        ),
    ] = "",
    resume: Annotated[
        bool | None,
        typer.Option(
            "--resume/--no-resume",
            help="Pass over what was done before with the same model and options, and go on with "
            "what was begun. On for directories.",
        ),
    ] = None,
    plot: Annotated[
        str,
        typer.Option(
            "--plot",
            help="Also draw what was heard and what became of it: png or html.",
            show_default=False,
        ),
    ] = "",
    json_lines: Annotated[
        bool, typer.Option("--json-lines", help="Write each segment as a line of JSON.")
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="No bars: only text and errors.")
    ] = False,
    verbose: Verbose = False,
    **keywords: Any,  # noqa: ANN401 - the flags
) -> None:
    """Transcribe recordings: to the terminal, or to files."""
    _log(verbose=verbose)
    given = flags.given(keywords)
    wanted = Wanted(
        inputs=tuple(inputs),
        model=model,
        formats=formats,
        output_dir=output_dir,
        resume=resume,
        plot=plot,
        json_lines=json_lines,
        quiet=quiet,
        layout=flags.taken_out(given, SubtitleOptions),
        loading=flags.taken(given, LOADING),
        options=given,
    )
    raise typer.Exit(transcribe_all(wanted))


@app.command("detect-language", cls=Listed)
@flags.takes(
    *flags.of_function(wb.load, LOADING, "Model"),
    *flags.of_options(DETECTION),
)
def detect_language(
    inputs: Inputs,
    *,
    model: Model = DEFAULT_MODEL,
    json_lines: Annotated[
        bool, typer.Option("--json-lines", help="Write a line of JSON for each recording.")
    ] = False,
    verbose: Verbose = False,
    **keywords: Any,  # noqa: ANN401 - the flags
) -> None:
    """Say what languages recordings are in, by listening here and there in all of each."""
    _log(verbose=verbose)
    given = flags.given(keywords)
    loading = flags.taken(given, LOADING)
    raise typer.Exit(detect_languages(inputs, model, loading, given, json_lines=json_lines))


@app.command("models")
def models(
    fetch: Annotated[
        str, typer.Option("--fetch", metavar="NAME", help="Fetch one, to use it without a network.")
    ] = "",
) -> None:
    """List the models: installed, cached, or to be downloaded; or fetch one."""
    _log(verbose=bool(fetch))
    if fetch:
        fetch_model(fetch)
    else:
        show_models(Console())


@app.command("info")
def info(model: Model = DEFAULT_MODEL) -> None:
    """Versions, devices, and what "auto" takes: for a bug report."""
    show_info(model)


@app.callback()
def start(
    _version: Annotated[
        bool,
        typer.Option(
            "--version", help="Show the version and exit.", callback=_show_version, is_eager=True
        ),
    ] = False,
) -> None:
    """What comes before a command."""


def run() -> NoReturn:
    """Run the command line; errors are one line, and the exit status says what failed."""
    try:
        arguments = flags.spelled_out(sys.argv[1:] or ["--help"], SWITCHES)
        sys.exit(app(arguments, standalone_mode=False))
    except (KeyboardInterrupt, typer.Abort):
        leave(128 + signal.SIGINT)
    except BrokenPipeError:  # whoever read has had enough
        leave(128 + getattr(signal, "SIGPIPE", 13))
    except WhisperBatchError as error:
        _end(str(error), next((status for kind, status in STATUSES if isinstance(error, kind)), 1))
    except USAGE as error:
        _end(error.format_message(), 2)
    except OSError as error:  # a terminal or a disk that is gone
        _end(str(error), 5)


def _end(message: str, status: int) -> NoReturn:
    with suppress(OSError):
        print(f"whisperbatch: {' '.join(message.split())}", file=sys.stderr)  # noqa: T201 - a program's output
        sys.stdout.flush()
    leave(status)


def _log(*, verbose: bool) -> None:
    handler: logging.Handler = logging.StreamHandler()
    if sys.stderr.isatty():  # beside the bars
        console = Console(stderr=True)
        handler = RichHandler(console=console, show_time=False, show_path=False, show_level=False)
    log = logging.getLogger("whisperbatch")
    log.addHandler(handler)
    log.setLevel(logging.INFO if verbose else logging.WARNING)
