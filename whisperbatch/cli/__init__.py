"""The command line: `whisperbatch`, or `python -m whisperbatch`. The extra `cli`."""

import os
import signal
import sys
from contextlib import suppress


def main() -> None:
    """Run the command that was asked for, and exit with its status."""
    before = signal.getsignal(signal.SIGINT)
    if before == signal.default_int_handler:  # while things are imported
        signal.signal(signal.SIGINT, lambda *_: os._exit(130))
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # it was closed
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115 - to stay open
        with suppress(AttributeError):  # not a stream of its own
            getattr(sys, name).reconfigure(errors="backslashreplace")
    try:
        from whisperbatch.cli.app import run  # noqa: PLC0415 - an extra
    except ImportError as error:
        if error.name not in ("typer", "rich"):
            raise
        print(  # noqa: T201 - a program's output
            f"the command line needs {error.name}: pip install 'whisperbatch[cli]'",
            file=sys.stderr,
        )
        sys.exit(4)
    signal.signal(signal.SIGINT, before)
    run()
