"""The command line: `whisperbatch`, or `python -m whisperbatch`. The extra `cli`."""

import sys


def main() -> None:
    """Run the command that was asked for, and exit with its status."""
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
    run()
