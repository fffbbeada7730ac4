"""Show what the program does while a model loads, which takes from one to many seconds."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

PROGRESS: Final = "progress"
"""Attribute of log records that are shown to users: `log.info(..., extra={"progress": True})`."""


class _ProgressHandler(logging.Handler):
    """Shows the messages of log records with the attribute `PROGRESS`."""

    def __init__(self, show_status: Callable[[str], None]) -> None:
        super().__init__(logging.INFO)
        self._show_status = show_status

    def emit(self, record: logging.LogRecord) -> None:
        if getattr(record, PROGRESS, False):
            self._show_status(record.getMessage())


@contextmanager
def loading_status(model: str, show_status: Callable[[str], None]) -> Iterator[None]:
    """Show that a model is loading, and the progress messages of its engine.

    Args:
        model: its name.
        show_status: shows a text in place of the previous text; "" removes the text.
    """
    log = logging.getLogger("whisperbatch")
    handler = _ProgressHandler(show_status)
    log.addHandler(handler)
    show_status(f"loading model {model} ...")
    try:
        yield
    finally:
        log.removeHandler(handler)
        show_status("")
