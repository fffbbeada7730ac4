"""The command line: `whisperbatch`, or `python -m whisperbatch`. Needs the extra `cli`."""

import os
import signal
import sys
from contextlib import suppress


def main() -> None:
    """Run the command line, and exit with its status."""
    handler = signal.getsignal(signal.SIGINT)
    if handler == signal.default_int_handler:  # Ctrl-C during imports: no traceback
        signal.signal(signal.SIGINT, lambda *_: os._exit(130))
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # the parent process has closed the stream
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115 - stays open
        with suppress(AttributeError):  # a stream that was replaced, for example by a test
            getattr(sys, name).reconfigure(errors="backslashreplace")
    try:
        from whisperbatch.cli.app import run  # noqa: PLC0415 - an extra
    except ImportError as error:
        if error.name not in ("typer", "rich"):
            raise
        print(  # noqa: T201 - a message of the command line
            f"the command line needs {error.name}: pip install 'whisperbatch[cli]'",
            file=sys.stderr,
        )
        sys.exit(4)
    signal.signal(signal.SIGINT, handler)
    run()
