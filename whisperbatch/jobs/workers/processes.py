"""Names of processes, from which other processes see whether the named process has ended.

    host,boot,namespace-4711-183240-c0ffee
                        |    |      random
                        |    start time of the process; two processes may have the same id in turn
                        id of the process

The boot of the machine is in the name, because machines with the same name may share a folder, and
the namespace, because a container does not see the processes of other containers.
"""

import hashlib
import os
import secrets
import socket
import uuid
from pathlib import Path
from typing import Final

PROC: Final = Path("/proc")
STATE: Final = 0  # fields of /proc/PID/stat, after the name of the program
START: Final = 19
ENDED: Final = "ZX"  # states: the parent process has not noticed the end yet; ending


def process_name() -> str:
    """Return a name of this process. Each call returns another name."""
    pid = os.getpid()
    return f"{','.join(_machine())}-{pid}-{_start(pid) or ''}-{secrets.token_hex(3)}"


def has_ended(name: str) -> bool:
    """Return whether the process with this name has certainly ended.

    False for processes of other machines and containers, and from before a restart. Without /proc
    (macOS), a new process with the same id hides the end of the old one. On Windows, no end is
    seen.
    """
    machine, _, process = name.rpartition("-")[0].rpartition("-")[0].rpartition("-")
    started = name.rpartition("-")[0].rpartition("-")[2]
    if not process.isdigit() or os.name != "posix":
        return False
    return machine == ",".join(_machine()) and not _is_running(int(process), started)


def _is_running(pid: int, started: str) -> bool:
    """Return whether a process with this id and start time may be running."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):  # it belongs to another user
        pass
    start = _start(pid)
    return start is None or (start != "" and started in ("", start))


def _start(pid: int) -> str | None:
    """Return when a process started; "" if it has ended, None if this cannot be read."""
    try:
        text = (PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return "" if fields[STATE] in ENDED else fields[START]


def _machine() -> tuple[str, str, str]:
    """Return the name of this machine, a hash of its boot, and the namespace of its processes."""
    try:
        boot = (PROC / "sys/kernel/random/boot_id").read_bytes()
    except OSError:
        boot = uuid.getnode().to_bytes(8, "big")  # by chance, if the machine has no address
    try:
        namespace = str((PROC / "self/ns/pid").readlink())
    except OSError:
        namespace = ""
    host = socket.gethostname().replace(",", "_")
    return host, hashlib.blake2b(boot, digest_size=4).hexdigest(), namespace.strip("pid:[]")
