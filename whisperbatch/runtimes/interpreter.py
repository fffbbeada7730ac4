"""Commands that start a Python interpreter. Needs no library."""

import signal
import sys
from typing import Final

PROGRAM: Final = (
    "import sys; sys.path[:] = sys.argv[1].split(chr(10)); "
    "from importlib import import_module; "
    "getattr(import_module(sys.argv[2]), sys.argv[3])(*sys.argv[4:])"
)


def python_command(module: str, function: str, *arguments: str) -> list[str]:
    """Return a command that calls a function in a new interpreter, with this `sys.path`.

    Args:
        module: dotted name of the module.
        function: its name in the module.
        *arguments: its arguments.
    """
    path = "\n".join(map(str, sys.path))
    return [sys.executable, "-c", PROGRAM, path, module, function, *arguments]


def how_ended(status: int) -> str:
    """Return how a process ended, from the status that `subprocess` gives."""
    if status >= 0:
        return f"ended with status {status}"
    try:
        return f"was ended by {signal.Signals(-status).name}"
    except ValueError:
        return f"was ended by signal {-status}"
