"""The command line: `whisperbatch`, or `python -m whisperbatch`. Needs the extra `cli`."""

import os
import signal
import sys
from contextlib import suppress
from importlib.metadata import version
from io import TextIOWrapper


def main() -> None:
    """Run the command line, and exit with its status."""
    handler = signal.getsignal(signal.SIGINT)
    if handler == signal.default_int_handler:  # Ctrl-C during imports: no traceback
        signal.signal(signal.SIGINT, lambda *_: os._exit(130))
    _open_closed_streams()
    for name in ("stdout", "stderr"):
        with suppress(AttributeError):  # a stream that was replaced, for example by a test
            _set_encoding(getattr(sys, name))
    if sys.argv[1:] in (["--version"], ["-V"]):  # needs no extra
        print(version_line())  # noqa: T201 - the result of the command line
        sys.exit()
    if sys.argv[1:2] == ["doctor"]:  # this command runs even if a library does not import
        from whisperbatch.cli.doctor import run_doctor  # noqa: PLC0415 - rarely used

        signal.signal(signal.SIGINT, handler)
        run_doctor(sys.argv[2:])
    try:
        from whisperbatch.cli.app import run  # noqa: PLC0415 - an extra
    except ImportError as error:
        from whisperbatch.dependencies import interface_note  # noqa: PLC0415 - rarely used

        note = interface_note(error)
        if error.name not in ("typer", "rich") and not note:
            raise
        message = f"the command line needs {error.name}: pip install 'whisperbatch[cli]'"
        print(f"{error}{note}" if note else message, file=sys.stderr)  # noqa: T201 - a message of the command line
        sys.exit(4)
    signal.signal(signal.SIGINT, handler)
    run()


def version_line() -> str:
    """Return the program and its version."""
    return f"whisperbatch {version('whisperbatch')}"


def _set_encoding(stream: TextIOWrapper) -> None:
    """Write UTF-8 to pipes and files on every system, unless PYTHONIOENCODING names an encoding."""
    if stream.isatty() or os.environ.get("PYTHONIOENCODING"):
        stream.reconfigure(errors="backslashreplace")
    else:
        stream.reconfigure(encoding="utf-8", errors="backslashreplace")


def _open_closed_streams() -> None:
    """Replace standard streams that the parent process has closed.

    Otherwise the next file that is opened, such as a ledger, would get the descriptor, and
    messages of libraries would be written into this file. The replaced standard input cannot be
    read, and the replaced standard output cannot be written. Messages to a closed standard error
    are discarded.
    """
    for descriptor, mode in ((0, os.O_WRONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, mode)  # the lowest free descriptor: this one
    for name, descriptor in (("stdout", 1), ("stderr", 2)):
        if getattr(sys, name) is None:
            setattr(sys, name, open(descriptor, "w", encoding="utf-8"))  # noqa: PTH123, SIM115 - stays open
