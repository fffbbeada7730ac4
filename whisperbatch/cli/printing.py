"""What commands print: lines, the log, and the status of a model that loads; and how they end.

Lines are printed without characters that control a terminal. Warnings, and with --verbose all
messages, go to standard error. Ctrl-C and other requests to terminate end the process at once.
"""

import errno
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, Final, NoReturn

from rich.console import Console
from rich.logging import RichHandler
from typing_extensions import Self

from whisperbatch.cli.messages import message_of
from whisperbatch.errors import WhisperBatchError, WriteError
from whisperbatch.text import escape_controls
from whisperbatch.types import Segment
from whisperbatch.writers import one_line, speaker_prefix

PROGRESS: Final = "progress"
"""Attribute of log records that are shown to users: `log.info(..., extra={"progress": True})`."""
SIGNALS: Final = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)


def print_result(line: str) -> None:
    """Print a line of the result to standard output, without delay.

    Raises:
        BrokenPipeError: the reader of the output has ended.
        WriteError: standard output is closed, or its disk is full.
    """
    print_text(f"{escape_controls(line)}\n")


def print_text(text: str) -> None:
    """Print a text to standard output as it is, without delay.

    Raises:
        BrokenPipeError: see `print_result`.
        WriteError: see `print_result`.
    """
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise WriteError(f"standard output cannot be written: {reason_of(error)}") from error


def print_segment(segment: Segment) -> None:
    """Print the text of a segment on one line, after the speaker if there is one.

    Raises:
        BrokenPipeError: see `print_result`.
        WriteError: see `print_result`.
    """
    print_result(f"{speaker_prefix(segment)}{one_line(segment.text)}")


def reason_of(error: OSError) -> str:
    """Return why a standard stream cannot be written."""
    return "it is closed" if error.errno == errno.EBADF else error.strerror or str(error)


def print_error(error: WhisperBatchError) -> None:
    """Print the error of a recording to standard error, on one line."""
    print_note(f"failed: {message_of(error)}")


def print_note(line: str) -> None:
    """Print a line to standard error, apart from the results.

    A line that cannot be printed is discarded, and the exit status still states the result.

    Raises:
        BrokenPipeError: the reader of the output has ended.
    """
    try:
        print(escape_controls(line), file=sys.stderr, flush=True)  # noqa: T201 - a message of the command line
    except BrokenPipeError:
        raise
    except OSError:
        pass


def print_note_on_terminal(line: str) -> None:
    """Print a line to standard error if it is a terminal; an empty line is not printed."""
    if line and sys.stderr.isatty():
        print_note(line)


def clock(seconds: float) -> str:
    """Format seconds as "1:02:03", or "2:03"."""
    minutes, second = divmod(int(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"


class _PrintableFormatter(logging.Formatter):
    """Formats a record so that file names in it cannot control the terminal.

    The message is on one line; a traceback keeps its lines.
    """

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - of the base class
        return escape_controls(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:  # noqa: ANN401, N802 - of the base class
        return "\n".join(map(escape_controls, super().formatException(ei).split("\n")))


def configure_logging(*, verbose: bool) -> None:
    """Print warnings to standard error; with `verbose`, print INFO and tracebacks, too."""
    handler: logging.Handler = logging.StreamHandler()
    if sys.stderr.isatty():  # RichHandler prints above the progress bars
        console = Console(stderr=True)
        handler = RichHandler(console=console, show_time=False, show_path=False, show_level=False)
    handler.setFormatter(_PrintableFormatter())
    handler.setLevel(logging.INFO if verbose else logging.WARNING)
    if not verbose:  # the line of the error is printed anyway
        handler.addFilter(lambda record: not record.exc_info)
    log = logging.getLogger("whisperbatch")
    log.addHandler(handler)
    log.setLevel(logging.INFO)  # `loading_status` reads INFO messages, printed or not


class _ProgressHandler(logging.Handler):
    """Shows the messages of log records with the attribute `PROGRESS`."""

    def __init__(self, show_status: Callable[[str], None]) -> None:
        super().__init__(logging.INFO)
        self._show_status = show_status

    def emit(self, record: logging.LogRecord) -> None:
        if getattr(record, PROGRESS, False):
            self._show_status(record.getMessage())


@contextmanager
def shown_progress(show_status: Callable[[str], None]) -> Iterator[None]:
    """Show the progress messages of the log: of an engine that compiles, and of a download.

    Args:
        show_status: shows a text in place of the previous text.
    """
    log = logging.getLogger("whisperbatch")
    handler = _ProgressHandler(show_status)
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)


@contextmanager
def loading_status(model: str, show_status: Callable[[str], None]) -> Iterator[None]:
    """Show that a model is loading, and the progress messages of its engine.

    Args:
        model: its name.
        show_status: shows a text in place of the previous text; "" removes the text.
    """
    show_status(f"loading model {model} ...")
    try:
        with shown_progress(show_status):
            yield
    finally:
        show_status("")


class ExitOnSignal:
    """A context in which Ctrl-C and requests to terminate end the process at once.

    The process does not wait for threads that decode, because this may take seconds. Their
    finished results are in the ledger, and output files are written completely or not at all.

    Args:
        say_goodbye: called before the exit; restores the terminal, prints what waits and says how
            to resume. This may take long if no program reads the output: a second signal ends the
            process.
        first: called at the first signal. It returns whether the process goes on.
    """

    def __init__(
        self, say_goodbye: Callable[[], None], *, first: Callable[[], bool] | None = None
    ) -> None:
        self._say_goodbye, self._first = say_goodbye, first
        self._previous: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        for number in SIGNALS:
            handler = signal.getsignal(number)
            if handler != signal.SIG_IGN:  # the parent process (nohup) wants it to be ignored
                self._previous[number] = handler
                signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        if self._first:
            first, self._first = self._first, None
            if first():
                return
        for each in self._previous:
            signal.signal(each, _end)
        with suppress(Exception):  # the terminal may be closed
            self._say_goodbye()
        exit_now(128 + number)


def _end(number: int, _frame: FrameType | None) -> None:
    os._exit(128 + number)


def exit_now(status: int) -> NoReturn:
    """End the process without waiting for threads."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):  # the stream may be closed
            stream.flush()
    os._exit(status)
