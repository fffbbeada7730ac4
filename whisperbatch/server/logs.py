"""The log of the server: one line for each request, as text or JSON.

    2026-11-28T23:12:56.123+00:00 INFO request request_id=req_1 client=alice method=POST ...
    {"time": "2026-11-28T23:12:56.123+00:00", "level": "INFO", "message": "request", ...}

Lines that are logged while a request runs have its id and its client. No line has a key, the query
of an address, a field of a request, or the text of a recording.
"""

import json
import logging
from datetime import datetime, timezone
from typing import Any, Final, Literal

from whisperbatch.boundary import hide_secrets
from whisperbatch.server.records import current
from whisperbatch.text import escape_controls

LogFormat = Literal["text", "json"]
LogLevel = Literal["debug", "info", "warning", "error"]

NAMES: Final = ("whisperbatch", "uvicorn")
"""Loggers whose level is that of the server; other loggers only print warnings."""


def configure_logging(form: LogFormat, level: LogLevel) -> None:
    """Print the log, and Python's warnings, to standard error, in place of all other handlers.

    Args:
        form: of the lines.
        level: lowest level of the lines.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(_Json() if form == "json" else _Text())
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(max(logging.WARNING, _number(level)))
    logging.captureWarnings(capture=True)
    for name in NAMES:
        log = logging.getLogger(name)
        log.handlers = []
        log.propagate = True
        log.setLevel(_number(level))


def _number(level: LogLevel) -> int:
    return int(getattr(logging, level.upper()))


class _Text(logging.Formatter):
    """Formats a record as a line of text; a traceback follows on its own lines."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        head = f"{_time(record)} {record.levelname} {escape_controls(record.getMessage())}"
        pairs = [f"{name}={_word(value)}" for name, value in _values(record).items()]
        trace = _traceback(self, record)
        return " ".join((head, *pairs)) + (f"\n{trace}" if trace else "")


class _Json(logging.Formatter):
    """Formats a record as a line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        line: dict[str, Any] = {
            "time": _time(record),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **_values(record),
        }
        if trace := _traceback(self, record):
            line["exception"] = trace
        return json.dumps(line, default=str)


def _time(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, timezone.utc)
    return moment.isoformat(timespec="milliseconds")


def _values(record: logging.LogRecord) -> dict[str, Any]:
    """Return the values of a line: its own, or those that say which request runs."""
    values: dict[str, Any] | None = getattr(record, "values", None)
    if values is None:
        request = current()
        known = {"request_id": request.id, "client": request.client.name} if request else {}
        values = {name: value for name, value in known.items() if value}
    return values


def _traceback(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    if not record.exc_info or record.exc_info[1] is None:
        return ""
    hide_secrets(record.exc_info[1])
    lines = formatter.formatException(record.exc_info).splitlines()
    return "\n".join(map(escape_controls, lines))


def _word(value: object) -> str:
    """Return a value without spaces, or in quotation marks."""
    text = str(value)
    simple = text.isprintable() and not set(text) & set(' "=')
    return text if simple else json.dumps(text)
