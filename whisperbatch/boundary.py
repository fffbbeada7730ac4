"""The boundary between exceptions and the errors of whisperbatch.

Whatever happens while a recording is opened, read, decoded or written ends this recording only:

    WhisperBatchError               unchanged: the cause is known
    MemoryError                     EngineError
    any other Exception             InternalError; the traceback is logged
    KeyboardInterrupt, SystemExit   not caught: Ctrl-C stops all recordings

All other files that isolate recordings from each other call `as_error` or `boundary`.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

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
    except WhisperBatchError:
        raise
    except Exception as error:
        raise as_error(error, source) from error


def as_error(error: Exception, source: str | None) -> WhisperBatchError:
    """Return the error of whisperbatch for an exception; log the traceback if it is unexpected.

    Args:
        error: the exception; it is the cause of the returned error.
        source: name of the recording; None if there is no recording.
    """
    if isinstance(error, WhisperBatchError):
        return error
    place = f"{' '.join(source.splitlines())}: " if source else ""
    result: WhisperBatchError
    if isinstance(error, MemoryError):
        result = EngineError(
            f"{place}there is not enough memory; use a smaller batch_size or a smaller model"
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
        text = " ".join(str(getattr(error, "strerror", None) or error).split())
    except Exception:  # noqa: BLE001 - the exception may come from the caller's own class
        text = ""
    if len(text) > MAX_REASON:
        text = f"{text[:MAX_REASON]}..."
    return (text or type(error).__name__) + interface_note(error)
