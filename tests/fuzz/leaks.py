"""What a call may leave behind: threads, open files, temporary files, text on stderr, memory."""

import contextlib
import ctypes
import gc
import os
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.fuzz.cases import Failure
from whisperbatch.runtimes.openvino_cache import compiled_graphs_folder

SELF: Final = Path("/proc/self")
PAGE: Final = os.sysconf("SC_PAGESIZE") / 2**20  # MiB


@dataclass(frozen=True)
class State:
    """The threads and files of this process, and the bytes that it has printed."""

    threads: frozenset[str]
    native_threads: int
    files: frozenset[str]
    temporary: frozenset[str]
    printed: tuple[int, int]

    @classmethod
    def now(cls) -> "State":
        """Return the present state."""
        return cls(
            frozenset(f"{thread.name} {thread.ident}" for thread in threading.enumerate()),
            len(tuple((SELF / "task").iterdir())),
            frozenset(_open_files()),
            frozenset(path.name for path in Path(tempfile.gettempdir()).iterdir()),
            (os.fstat(1).st_size, os.fstat(2).st_size),
        )

    def added_since(self, before: "State") -> list[str]:
        """Return a line for each thing that was added."""
        lines = [
            f"{kind} left: {', '.join(sorted(now - then))[:300]}"
            for kind, now, then in (
                ("thread", self.threads, before.threads),
                ("open file", self.files, before.files),
                ("temporary file", self.temporary, before.temporary),
            )
            if now - then
        ]
        if not lines and self.native_threads > before.native_threads:
            lines.append(f"{self.native_threads - before.native_threads} native threads left")
        return lines


def slowness() -> float:
    """Return how many times as long everything takes, because other programs use the cores."""
    return max(os.getloadavg()[0] / (os.cpu_count() or 1), 1.0)


def _open_files() -> Iterator[str]:
    """Yield the open files, without compiled graphs, which stay mapped (`openvino_cache`)."""
    graphs = compiled_graphs_folder()
    for path in tuple((SELF / "fd").iterdir()):
        with contextlib.suppress(OSError):  # the descriptor that lists the folder is closed
            if (file := path.readlink()).parent != graphs:
                yield f"{path.name} {file}"


def check_leaks(before: State, patience: float) -> None:
    """Wait until the state is the state before the case, for `patience` seconds at most.

    Raises:
        Failure: a thread, an open file or a temporary file is left, or something was printed.
    """
    deadline = time.monotonic() + patience
    added = State.now().added_since(before)
    while added and time.monotonic() < deadline:
        gc.collect()
        time.sleep(0.02)
        added = State.now().added_since(before)
    printed = State.now().printed
    for descriptor, (old, new) in enumerate(zip(before.printed, printed, strict=True), start=1):
        if new > old:
            text = os.pread(descriptor, 4000, old).decode("utf-8", "replace")
            added.append(f"printed on {('stdout', 'stderr')[descriptor - 1]}: {text}")
    if added:
        raise Failure("; ".join(added))


def memory() -> float:
    """Return the resident memory in MiB, after the heap has returned its free pages."""
    with contextlib.suppress(AttributeError, OSError):  # another libc
        ctypes.CDLL(None).malloc_trim(0)
    return int((SELF / "statm").read_text().split()[1]) * PAGE


def reset_peak() -> None:
    """Forget the peak of the resident memory so far."""
    (SELF / "clear_refs").write_text("5")


def peak() -> float:
    """Return the peak of the resident memory in MiB since `reset_peak`."""
    for line in (SELF / "status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    return 0.0
