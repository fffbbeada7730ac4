"""How much faster do several workers transcribe one plan than one worker?

The workers are processes of `whisperbatch work`. Each has its own cores. The time is that from the
start of the first span to the end of the last one, without loading the model; the medians of
interleaved rounds are printed.

    1 worker, 1 core        the time to compare with
    1 worker, 2 cores       the cores share each batch
    2 workers, 1 core each  the cores share the tasks of the plan

python -m benchmarks.scaling --rounds 3
"""

import argparse
import functools
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median

import whisperbatch as wb
from benchmarks import recordings

TASK_SECONDS = 60.0


def settings(cores: Sequence[int]) -> Iterator[tuple[str, list[set[int]]]]:
    """Yield the name of each measurement, and the cores of each of its workers."""
    yield "1 worker, 1 core", [{cores[0]}]
    count = 2
    while count <= len(cores):
        yield f"1 worker, {count} cores", [set(cores[:count])]
        yield f"{count} workers, 1 core each", [{core} for core in cores[:count]]
        count *= 2


def work(plan: Path, workers: Sequence[set[int]], count: int) -> float:
    """Run the workers of a plan of `count` recordings, and return the seconds that they took."""
    command = [sys.executable, "-m", "whisperbatch", "work", str(plan), "--quiet"]
    processes = [
        subprocess.Popen(command, preexec_fn=functools.partial(os.sched_setaffinity, 0, cores))  # noqa: PLW1509 - no threads run
        for cores in workers
    ]
    try:
        for process in processes:
            if process.wait():
                raise RuntimeError(f"a worker ended with status {process.returncode}")
    finally:
        for process in processes:
            process.kill()
    files = Path(f"{plan}.work", "results").rglob("*.json")
    results = [json.loads(file.read_text(encoding="utf-8")) for file in files]
    if len(results) != count or any(item["failure"] for item in results):
        raise RuntimeError("a recording has no transcript")
    first = min(item["started"] for item in results)
    return float(max(item["finished"] for item in results) - first)


def table(times: dict[str, list[float]], minutes: float) -> Iterator[str]:
    """Yield the lines of the table."""
    first = median(next(iter(times.values())))
    for name, found in times.items():
        took = median(found)
        speed = 60 * minutes / took
        yield f"{name:26} {took:7.1f} s  {speed:6.1f} x real time  {first / took:5.2f}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scaling")
    parser.add_argument("--model", default="base")
    parser.add_argument("--beam", type=int, default=1)
    parser.add_argument("--recordings", type=int, default=40, help="of a minute each")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args(arguments)
    cores = sorted(os.sched_getaffinity(0))
    count = max(options.recordings, 20 * len(cores))  # enough tasks for all workers
    times: dict[str, list[float]] = {name: [] for name, _ in settings(cores)}
    with tempfile.TemporaryDirectory() as folder:
        names = [str(Path(folder, f"{number}.wav")) for number in range(count)]
        for number, name in enumerate(names):
            recordings.write(recordings.prompts("en", 60, number), Path(name))
        for number in range(options.rounds):
            for name, workers in settings(cores):
                plan = Path(folder, f"{number} {name}.plan")
                wb.jobs.plan(
                    names,
                    plan,
                    model=options.model,
                    beam_size=options.beam,
                    language="en",
                    task_duration=TASK_SECONDS,
                )
                times[name].append(work(plan, workers, count))
    print("\n".join(table(times, count)))


if __name__ == "__main__":
    main()
