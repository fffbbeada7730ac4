"""Time one system on some files, in a separate process.

The model is loaded and warmed up with a second of silence. The time is measured from the call to
the last segment. It includes reading the files, voice activity detection, features, encoder,
decoder and alignment.
"""

import json
import re
import resource
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TypedDict

import numpy as np
from typing_extensions import NotRequired

from benchmarks import recordings, rivals
from whisperbatch.engines.settings import Device


class Task(TypedDict):
    """The task of a process: a system, how it is run (`rivals.Setup`), and files."""

    system: str
    model: str
    beam: int
    device: Device
    batch_size: int
    paths: list[str]
    decodes_once: NotRequired[bool]


class Figures(TypedDict):
    """The measurements that a process reports."""

    loaded: float  # seconds to load the model
    took: float  # seconds from the call to the last segment
    first: float  # seconds from the call to the first segment
    cpu: float  # seconds of processor time
    peak: float  # peak memory in MB
    memory: list[float]  # memory in MB at each segment
    text: str


def in_process(task: Task) -> Figures:
    """Run a task in a separate process and return its measurements."""
    command = [sys.executable, "-m", "benchmarks.timing", json.dumps(task)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    figures: Figures = json.loads(done.stdout.splitlines()[-1])
    return figures


def measure(task: Task) -> Figures:
    """Run a task in this process and return its measurements."""
    with ExitStack() as stack, tempfile.TemporaryDirectory() as directory:
        started = time.perf_counter()
        setup = rivals.Setup(
            *(task["model"], task["beam"], task["device"], task["batch_size"]),
            decodes_once=task.get("decodes_once", False),
        )
        run = rivals.SYSTEMS[task["system"]].open(setup, stack)
        loaded = time.perf_counter() - started
        silence = recordings.Recording("silence", np.zeros(recordings.SAMPLING_RATE, np.int16), ())
        run([str(recordings.write(silence, Path(directory, "silence.wav")))], lambda _: None)
        texts: list[str] = []
        times: list[float] = []
        memory: list[float] = []

        def on_segment(text: str) -> None:
            times.append(time.perf_counter())
            texts.append(text.strip())
            memory.append(resident())

        cpu, started = time.process_time(), time.perf_counter()
        run(task["paths"], on_segment)
        times.append(time.perf_counter())
        return Figures(
            loaded=loaded,
            took=times[-1] - started,
            first=times[0] - started,
            cpu=time.process_time() - cpu,
            peak=peak(),
            memory=memory,
            text=" ".join(texts),
        )


def peak() -> float:
    """Return the peak memory of this process, in MB.

    On Linux, the figure of getrusage includes the peak of the parent process, so the figure in
    /proc is used, which is about this program alone.
    """
    status = Path("/proc/self/status")
    if status.exists() and (match := re.search(r"VmHWM:\s+(\d+) kB", status.read_text())):
        return int(match[1]) / 1024
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return size / (1024 * 1024 if sys.platform == "darwin" else 1024)


def resident() -> float:
    """Return the present memory of this process, in MB; where /proc is missing, the peak."""
    file = Path("/proc/self/statm")
    if not file.exists():
        return peak()
    return int(file.read_text().split()[1]) * resource.getpagesize() / (1024 * 1024)


if __name__ == "__main__":
    print(json.dumps(measure(json.loads(sys.argv[1]))))
