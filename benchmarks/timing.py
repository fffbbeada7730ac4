"""One system, timed over some files in a process of its own.

The model is loaded and warmed up on a second of silence; then the clock runs from the call to the
last segment. Reading the files, voice activity detection, features, encoder, decoder and the
placing of text are all in it.
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

from benchmarks import recordings, rivals


class Task(TypedDict):
    """What a process is asked for."""

    system: str
    beam: int
    model: str
    paths: list[str]


class Figures(TypedDict):
    """What it reports."""

    loaded: float  # seconds to load the model
    took: float  # seconds from the call to the last segment
    first: float  # to the first one
    cpu: float  # seconds of processor time
    peak: float  # MB
    text: str


def in_process(task: Task) -> Figures:
    """The task, done in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.timing", json.dumps(task)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    figures: Figures = json.loads(done.stdout.splitlines()[-1])
    return figures


def measured(task: Task) -> Figures:
    """The task, done in this process."""
    with ExitStack() as stack, tempfile.TemporaryDirectory() as directory:
        started = time.perf_counter()
        run = rivals.SYSTEMS[task["system"]].open(task["model"], task["beam"], stack)
        loaded = time.perf_counter() - started
        silence = recordings.Recording("silence", np.zeros(recordings.SAMPLING_RATE, np.int16), ())
        run([str(recordings.write(silence, Path(directory, "silence.wav")))], lambda _: None)
        texts: list[str] = []
        times: list[float] = []

        def hear(text: str) -> None:
            times.append(time.perf_counter())
            texts.append(text.strip())

        cpu, started = time.process_time(), time.perf_counter()
        run(task["paths"], hear)
        times.append(time.perf_counter())
        return Figures(
            loaded=loaded,
            took=times[-1] - started,
            first=times[0] - started,
            cpu=time.process_time() - cpu,
            peak=peak(),
            text=" ".join(texts),
        )


def peak() -> float:
    """The most memory that this process has held, in MB.

    Linux counts what the process that started this one has held in getrusage's figure: the one in
    /proc is this program's own.
    """
    status = Path("/proc/self/status")
    if status.exists() and (own := re.search(r"VmHWM:\s+(\d+) kB", status.read_text())):
        return int(own[1]) / 1024
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return size / (1024 * 1024 if sys.platform == "darwin" else 1024)


if __name__ == "__main__":
    print(json.dumps(measured(json.loads(sys.argv[1]))))
