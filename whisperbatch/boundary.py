"""The boundary between exceptions and the errors of whisperbatch.

Whatever happens while a recording is opened, read, decoded or written ends this recording only:

    WhisperBatchError               unchanged: the cause is known
    MemoryError                     EngineError
    any other Exception             InternalError; the traceback is logged
    KeyboardInterrupt, SystemExit   not caught: Ctrl-C stops all recordings
    of a signal handler             unchanged: the caller's time limit, for example

All other files that isolate recordings from each other call `as_error` or `boundary`.
"""

import logging
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from traceback import walk_tb
from typing import Final

from whisperbatch.addresses import without_secrets
from whisperbatch.dependencies import interface_note
from whisperbatch.errors import EngineError, InternalError, WhisperBatchError

log = logging.getLogger(__name__)

MAX_REASON: Final = 300  # characters of an exception's text in a message


@contextmanager
def boundary(source: str | None) -> Iterator[None]:
    """Raise every exception of a `with` block as an error of whisperbatch.

    Args:
        source: name of the recording that the block reads; None if there is no recording.
    """
    try:
        yield
    except WhisperBatchError as error:
        hide_secrets(error)
        raise
    except Exception as error:
        raise as_error(error, source) from error


def as_error(error: Exception, source: str | None) -> WhisperBatchError:
    """Return the error of whisperbatch for an exception; log the traceback if it is unexpected.

    Args:
        error: the exception; it is the cause of the returned error. See `hide_secrets`.
        source: name of the recording; None if there is no recording.
    """
    hide_secrets(error)
    source = source and without_secrets(source, whole=True)
    if isinstance(error, WhisperBatchError):
        return error
    if _is_of_signal_handler(error):
        raise error
    place = f"{' '.join(source.splitlines())}: " if source else ""
    result: WhisperBatchError
    if isinstance(error, MemoryError):
        result = EngineError(
            f"{place}there is not enough memory; use a smaller `batch_size` or a smaller model"
        )
    else:
        report = (
            "; this is a bug in whisperbatch: please report it with the logged traceback "
            "(on the command line: --verbose)"
        )
        note = "" if interface_note(error) else report  # with_type ends with the former
        result = InternalError(f"{place}unexpected {with_type(error)}{note}")
        log.error("%sunexpected %s", place, type(error).__name__, exc_info=error)
    result.__cause__ = error
    result.source = source
    return result


def hide_secrets(error: BaseException) -> None:
    """Remove the passwords and signatures of URLs from an exception and all that it is chained to.

    Their texts then show none, in a traceback or a log. The exceptions stay the same objects.
    """
    seen: set[int] = set()
    pending: list[BaseException | None] = [error]
    while pending:
        link = pending.pop()
        if link is not None and id(link) not in seen:
            seen.add(id(link))
            _hide(link)
            pending += [link.__cause__, link.__context__, *getattr(link, "exceptions", ())]


def _hide(error: BaseException) -> None:
    """Remove secrets from the texts of one exception: its arguments, or what its class makes."""
    if not _shows_secrets(error):
        return
    with suppress(Exception):  # of the caller's own class
        error.args = tuple(without_secrets(a) if isinstance(a, str) else a for a in error.args)
        for name in ("filename", "filename2", "strerror", "reason", "msg"):
            if isinstance(value := getattr(error, name, None), str):
                setattr(error, name, without_secrets(value, whole=name.startswith("file")))
        notes: list[str] = getattr(error, "__notes__", [])
        notes[:] = map(without_secrets, notes)
    if not _shows_secrets(error):
        return
    text, kind = without_secrets(str(error)), type(error)
    shown = f"{kind.__name__}({text!r})"
    names = {
        "__module__": kind.__module__,
        "__str__": lambda _: text,
        "__repr__": lambda _: shown,
        "__reduce__": lambda _: (Exception, (shown,)),
    }
    try:  # aiohttp, for example, makes the text from an attribute that is not to be changed
        error.__class__ = type(kind.__name__, (kind,), names)
    except Exception:  # noqa: BLE001 - the class of a C extension
        error.args = (text,)


def _shows_secrets(error: BaseException) -> bool:
    try:
        text = f"{error} {error!r} {getattr(error, '__notes__', '')}"
    except Exception:  # noqa: BLE001 - of the caller's own class; no log can show it
        return False
    return without_secrets(text) != text


def _is_of_signal_handler(error: Exception) -> bool:
    """Return whether a signal handler raised an exception, which then is none of our work.

    Python calls handlers in the main thread, between any two instructions. The work on recordings
    has its own threads (`apart`); the main thread only writes files, for example.
    """
    if threading.current_thread() is not threading.main_thread():
        return False
    codes = {_code(signal.getsignal(number)) for number in signal.valid_signals()} - {None}
    return any(frame.f_code in codes for frame, _ in walk_tb(error.__traceback__))


def _code(handler: object) -> object:
    while isinstance(handler, partial):
        handler = handler.func
    for function in (handler, vars(type(handler)).get("__call__")):
        if code := getattr(function, "__code__", None):
            return code
    return None


def with_type(error: BaseException) -> str:
    """Return the type of an exception and its text, on one line."""
    kind, text = type(error).__name__, describe(error)
    return text if text == kind or text.startswith(f"{kind};") else f"{kind}: {text}"


def describe(error: BaseException) -> str:
    """Return the text of an exception on one line; its type's name if it has no text.

    If the exception shows that a package has another interface than expected, the text ends with
    the package and the versions that work.
    """
    try:
        text = str(getattr(error, "strerror", None) or error)
        text = " ".join(without_secrets(text).split())
    except Exception:  # noqa: BLE001 - the exception may come from the caller's own class
        text = ""
    if len(text) > MAX_REASON:
        text = f"{text[:MAX_REASON]}..."
    return (text or type(error).__name__) + interface_note(error)
