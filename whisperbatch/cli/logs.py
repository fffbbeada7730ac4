"""The log of the command line: warnings, and with --verbose all messages, on standard error."""

import logging
import sys
from typing import Any

from rich.console import Console
from rich.logging import RichHandler

from whisperbatch.text import escape_controls


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
    log.setLevel(logging.INFO)  # `cli.loading` reads INFO messages, printed or not
