"""Print lines to the standard streams, without characters that control a terminal."""

import errno
import sys

from whisperbatch.errors import WhisperBatchError, WriteError
from whisperbatch.text import escape_controls
from whisperbatch.types import Segment
from whisperbatch.writers import one_line, speaker_prefix


def print_result(line: str) -> None:
    """Print a line of the result to standard output, without delay.

    Raises:
        BrokenPipeError: the reader of the output has ended.
        WriteError: standard output is closed, or its disk is full.
    """
    try:
        sys.stdout.write(f"{escape_controls(line)}\n")
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


def is_output_closed() -> bool:
    """Return whether the parent process has closed standard output."""
    return sys.__stdout__ is None


def reason_of(error: OSError) -> str:
    """Return why a standard stream cannot be written."""
    return "it is closed" if error.errno == errno.EBADF else error.strerror or str(error)


def print_error(error: WhisperBatchError) -> None:
    """Print the error of a recording to standard error, on one line."""
    print_note(f"failed: {error}")


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
