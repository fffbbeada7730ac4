"""Probes run in separate processes: a library that crashes or hangs ends only its probe.

doctor   ── name, arguments, sys.path ──►  probes.main in a new process
         ◄── a line of JSON ─────────────  the probe's result, or its exception
"""

import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import dataclass
from typing import Any, Final

PROGRAM: Final = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from whisperbatch.doctor.probes import main; main(*sys.argv[2:])"
)
STARTED: Final = "whisperbatch.doctor: probe"
"""First line that a probe writes to standard error; earlier lines are those of Python itself."""


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """The end of a probe.

    Attributes:
        values: the result of the probe; empty if it failed.
        failure: why there is no result, in one line; "" if there is a result.
        fix: the fix that the exception states, or "".
        details: the traceback, and everything that libraries printed.
    """

    values: dict[str, Any]
    failure: str = ""
    fix: str = ""
    details: str = ""


def run_probe(name: str, *, time_limit: float, **arguments: object) -> ProbeResult:
    """Run a function of `probes` in a new process, with this process's `sys.path`.

    Args:
        name: the function's name in `probes.PROBES`.
        time_limit: seconds after which the process is killed.
        **arguments: keyword arguments of the function; JSON can represent them.
    """
    command = [sys.executable, "-c", PROGRAM, json.dumps(sys.path), name, json.dumps(arguments)]
    try:
        process = subprocess.run(  # noqa: S603 - this interpreter
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=time_limit,
            check=False,
            env={**os.environ, "PYTHONIOENCODING": "utf-8:backslashreplace"},
        )
    except subprocess.TimeoutExpired as error:
        return ProbeResult({}, f"no result within {time_limit:g} s", details=_text(error.stderr))
    except OSError as error:
        return ProbeResult({}, f"no process can be started: {error.strerror or error}")
    printed = _text(process.stderr)
    try:
        result = json.loads(process.stdout)
    except ValueError:
        return ProbeResult({}, _end(process.returncode, printed), details=printed)
    if "failure" in result:
        details = f"{printed}\n{result['traceback']}".strip()
        return ProbeResult({}, result["failure"], result["fix"], details)
    return ProbeResult(result["values"], details=printed)


def _end(status: int, printed: str) -> str:
    """Return how a process ended that printed no result, with the last line that it printed."""
    end = f"its process ended with status {status}"
    if status < 0:
        try:
            end = f"its process was ended by {signal.Signals(-status).name}"
        except ValueError:
            end = f"its process was ended by signal {-status}"
    # faulthandler prints the stacks of the threads after the message of the library
    messages = re.split(r"^Fatal Python error", printed, flags=re.MULTILINE)[0].strip()
    last = messages.splitlines()[-1:] or [""]
    return f"{end}: {last[0].strip()}" if last[0] else end


def _text(output: bytes | None) -> str:
    """Return what a probe printed to standard error."""
    text = (output or b"").decode("utf-8", "replace")
    return text.split(f"{STARTED}\n", 1)[-1].strip()
