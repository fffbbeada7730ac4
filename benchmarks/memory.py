"""Peak memory and time to the first segment, of a short and a long recording.

python -m benchmarks.memory                                 # 10 minutes and 3 hours, base
python -m benchmarks.memory --model tiny.en --hours 1

Each is transcribed in a process of its own, from a wav file on disk.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TypedDict

import whisperbatch as wb
from benchmarks import recordings


class Figures(TypedDict):
    """What one process reports of itself."""

    duration: float  # seconds of recording read
    segments: int
    first: float  # seconds from the call to the first segment, the model being loaded
    took: float  # seconds for all of it
    peak: float  # MB, the most the process ever held
    loaded: float  # MB, the most it held once the model was loaded


def peak() -> float:
    """The most memory this process has held, in MB."""
    kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return kilobytes / (1024 * 1024 if sys.platform == "darwin" else 1024)


def transcribe(path: str, model: str, beam_size: int) -> Figures:
    """Stream a recording in this process."""
    with wb.load(model) as asr:
        loaded = peak()
        started = time.perf_counter()
        first, segments = 0.0, 0
        with asr.stream(path, language="en", beam_size=beam_size) as stream:
            for _ in stream:
                segments += 1
                first = first or time.perf_counter() - started
            took = time.perf_counter() - started
            return Figures(
                duration=stream.duration or 0.0,
                segments=segments,
                first=first,
                took=took,
                peak=peak(),
                loaded=loaded,
            )


def in_process(path: Path, model: str, beam_size: int) -> Figures:
    """The same in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.memory", "--one", str(path)]
    command += ["--model", model, "--beam-size", str(beam_size)]
    run = subprocess.run(command, check=True, capture_output=True, text=True)
    figures: Figures = json.loads(run.stdout.splitlines()[-1])
    return figures


def main() -> None:
    """Print a line for each recording, and the ratio of their peaks."""
    parser = argparse.ArgumentParser(description="Peak memory of a short and a long recording.")
    parser.add_argument("--model", default="base")
    parser.add_argument("--beam-size", type=int, default=5)
    parser.add_argument("--hours", type=float, default=3.0, help="length of the long recording")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        figures = transcribe(arguments.one, arguments.model, arguments.beam_size)
        print(json.dumps(figures))
        return
    peaks = []
    with tempfile.TemporaryDirectory() as directory:
        for hours in (1 / 6, arguments.hours):
            path = Path(directory, f"{hours:.2f}h.wav")
            recordings.long_wav(path, hours)
            figures = in_process(path, arguments.model, arguments.beam_size)
            peaks.append(figures["peak"])
            print(
                f"{figures['duration'] / 60:6.1f} min: peak {figures['peak']:6.0f} MB "
                f"({figures['loaded']:.0f} MB of it to load), first segment after "
                f"{figures['first']:.2f} s, {figures['duration'] / figures['took']:.0f} times real "
                f"time, {figures['segments']} segments",
                flush=True,
            )
    print(f"ratio of the peaks: {peaks[1] / peaks[0]:.3f}")


if __name__ == "__main__":
    main()
