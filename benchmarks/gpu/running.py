"""Stages that run in processes of their own, each with a limit in seconds.

    program      -> stage 1 -> stage 2 -> ...          as many as the minutes allow
                       |  figures, one file              written after each figure
    results.json <-----'                               written after each stage

A stage that fails, takes too long or ends its process (cuDNN does) costs only itself: the figures
that it had found are kept.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

Figures: TypeAlias = dict[str, Any]
Rows: TypeAlias = Iterator[tuple[str, Figures]]

COMPLETE: Final = "complete"
ROOT: Final = Path(__file__).parents[2]
PROGRAM: Final = (sys.executable, "-m", "benchmarks.gpu")
SHORTEST: Final = 10.0  # seconds; a stage does not begin with less
GRACE: Final = 2.0  # seconds of a process to end after its limit
MAX_ERROR: Final = 300  # characters


@dataclass(frozen=True, slots=True)
class Job:
    """What a stage gets.

    Attributes:
        folder: folder of inputs and figures, the same for all stages.
        seconds: duration of the recordings.
        speech: recording that is repeated; None to build one.
        limit: seconds that the stage may take.
    """

    folder: Path
    seconds: float
    speech: Path | None = None
    limit: float = 60.0


@dataclass(frozen=True, slots=True)
class Stage:
    """A part of the measurement.

    Attributes:
        name: in the table.
        limit: seconds that it may take.
        run: yields rows of figures, each with its name.
        needs: parts that the machine must have; see `machine.missing`.
        package: folder with another version of whisperbatch, which the stage then measures.
    """

    name: str
    limit: float
    run: Callable[[Job], Rows]
    needs: tuple[str, ...] = ()
    package: Path | None = None

    @property
    def file(self) -> str:
        """Name of the file of its figures."""
        return f"{self.name.replace(' ', '-')}.json"

    def environment(self) -> dict[str, str]:
        """Return the environment of its process."""
        paths = [str(self.package or ""), os.environ.get("PYTHONPATH", ""), str(ROOT)]
        return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}


@dataclass(slots=True)
class Result:
    """The outcome of a stage.

    Attributes:
        name: of the stage.
        state: `COMPLETE`, or why rows are missing.
        seconds: that it took.
        rows: the figures, by name.
    """

    name: str
    state: str
    seconds: float = 0.0
    rows: dict[str, Figures] = field(default_factory=dict)


def run_all(
    stages: Sequence[Stage],
    job: Job,
    minutes: float,
    output: Path,
    *,
    missing: Mapping[str, str],
    about: Figures,
    command: Sequence[str] = PROGRAM,
) -> list[Result]:
    """Run the stages in order, and write all figures after each of them.

    Args:
        stages: the most important first.
        job: what the stages get.
        minutes: for all stages together.
        output: JSON file to be written.
        missing: parts that the machine lacks, with the reason.
        about: the machine and its packages.
        command: runs one stage; the arguments are added.
    """
    end = time.monotonic() + 60 * minutes
    results: list[Result] = []
    for stage in stages:
        left = round(end - time.monotonic(), 1)
        lacking = [missing[need] for need in stage.needs if need in missing]
        if lacking:
            result = Result(stage.name, f"left out: {'; '.join(lacking)}")
        elif left < min(SHORTEST, stage.limit):
            result = Result(stage.name, "left out: no time left")
        else:
            result = _run(stage, job, min(stage.limit, left), command)
        results.append(result)
        write(output, results, about)
        print(f"{stage.name}: {result.state}, {result.seconds:.0f} s", flush=True)
    return results


def write(output: Path, results: Sequence[Result], about: Figures) -> None:
    """Write all figures so far, in one step: a program that is stopped leaves a whole file."""
    text = json.dumps({"machine": about, "stages": list(map(asdict, results))}, indent=1)
    part = output.with_name(f"{output.name}.part")
    part.write_text(text + "\n", encoding="utf-8")
    part.replace(output)


def _run(stage: Stage, job: Job, limit: float, command: Sequence[str]) -> Result:
    """Run a stage in a process, and return the figures that it wrote, complete or not."""
    figures = job.folder / stage.file
    figures.unlink(missing_ok=True)
    arguments = ["--stage", stage.name, "--folder", str(job.folder), "--limit", f"{limit:g}"]
    arguments += ["--seconds", f"{job.seconds:g}"]
    arguments += ["--speech", str(job.speech)] if job.speech else []
    started = time.monotonic()
    process = subprocess.Popen(
        [*command, *arguments],
        cwd=job.folder,  # Python looks for packages in the current folder first
        env=stage.environment(),
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        _, errors = process.communicate(timeout=limit)
        state = COMPLETE if process.returncode == 0 else f"failed: {_reason(process, errors)}"
    except subprocess.TimeoutExpired:
        state = f"stopped after {limit:g} s"
    finally:
        _end(process)
    rows = json.loads(figures.read_text(encoding="utf-8")) if figures.exists() else {}
    return Result(stage.name, state, time.monotonic() - started, rows)


def _end(process: "subprocess.Popen[str]") -> None:
    """End a process and the processes that it started."""
    if process.poll() is None:
        os.killpg(process.pid, 15)
        try:
            process.communicate(timeout=GRACE)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            process.communicate()


def _reason(process: "subprocess.Popen[str]", errors: str) -> str:
    lines = [line for line in errors.splitlines() if line.strip()]
    return lines[-1][:MAX_ERROR] if lines else f"the process ended with {process.returncode}"


def run_stage(stage: Stage, job: Job) -> None:
    """Run a stage in this process, and write its rows to its file, each at once."""
    rows: dict[str, Figures] = {}
    figures = job.folder / stage.file
    for name, row in stage.run(job):
        rows[name] = {key: _rounded(value) for key, value in row.items()}
        print(f"  {name}: {json.dumps(rows[name])}", flush=True)
        part = figures.with_suffix(".part")
        part.write_text(json.dumps(rows), encoding="utf-8")
        part.replace(figures)


def _rounded(value: object) -> object:
    """Round to four significant digits."""
    return float(f"{value:.4g}") if isinstance(value, float) else value
