"""Measure whisperbatch on this machine's GPU; without a GPU, on a simulated engine.

python -m benchmarks.gpu --minutes 8                         # also: make gpu MINUTES=8
python -m benchmarks.gpu --before CHECKOUT                   # beside the package of a checkout
python -m benchmarks.gpu --pack FOLDER                       # what a machine without network needs
python3 -m benchmarks.gpu --wheels FOLDER --minutes 8        # on that machine, in a checkout

The most important stages come first (`plan`). Each has a limit, and one that fails costs only
itself. Figures are written after each stage to `build/gpu.json`, and the table to `build/gpu.md`.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

OUTPUT: Final = Path("build", "gpu.json")
DURATION: Final = 3600.0  # seconds of the recording


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Return the arguments; end the program after an error."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gpu", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--minutes", type=float, default=8.0, help="for all stages (default: 8)")
    parser.add_argument("--output", type=Path, default=OUTPUT, help=f"(default: {OUTPUT})")
    parser.add_argument("--speech", type=Path, help="recording that is repeated to an hour")
    parser.add_argument("--seconds", type=float, default=DURATION, help="of the recording")
    parser.add_argument(
        "--before", type=Path, metavar="CHECKOUT", help="also simulate with its whisperbatch"
    )
    parser.add_argument("--pack", type=Path, metavar="FOLDER", help="write a folder to bring")
    parser.add_argument("--wheels", type=Path, metavar="FOLDER", help="run from such a folder")
    parser.add_argument("--inspect", action="store_true", help=argparse.SUPPRESS)
    for name in ("--stage", "--folder", "--limit"):  # of a stage's own process
        parser.add_argument(name, help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program; return 1 if nothing could be measured."""
    options = parse(arguments)
    if options.pack:
        return _pack(options.pack)
    if options.wheels:
        return _from_wheels(options)
    if options.inspect:
        return _inspect()
    if options.stage:
        return _stage(options)
    return measure(options)


def _pack(folder: Path) -> int:
    from benchmarks.gpu.pack import PackError, pack  # noqa: PLC0415 - not on the other machine

    try:
        size = pack(folder)
    except PackError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"{folder}: {size / (1 << 20):.1f} MiB; bring it with a checkout of this repository")
    return 0


def _from_wheels(options: argparse.Namespace) -> int:
    """Unpack the wheels, and run this program again with them."""
    from benchmarks.gpu import running  # noqa: PLC0415 - needs no package
    from benchmarks.gpu.wheels import WheelsError, speech_of, unpack  # noqa: PLC0415 - as above

    with tempfile.TemporaryDirectory() as target:
        try:
            unpack(options.wheels, Path(target))
        except WheelsError as error:
            print(f"error: {error}", file=sys.stderr)
            return 1
        speech = options.speech or speech_of(options.wheels)
        paths = [target, str(running.ROOT), os.environ.get("PYTHONPATH", "")]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
        command = [*running.PROGRAM, "--minutes", f"{options.minutes:g}"]
        command += ["--output", str(options.output), "--seconds", f"{options.seconds:g}"]
        command += ["--speech", str(speech)] if speech else []
        return subprocess.run(command, env=environment, check=False).returncode


def _inspect() -> int:
    from benchmarks.gpu import machine  # noqa: PLC0415 - after the arguments

    print(json.dumps([machine.missing(), machine.describe()]))
    return 0


def _stage(options: argparse.Namespace) -> int:
    from benchmarks.gpu import plan, running  # noqa: PLC0415 - after the arguments

    stages = {stage.name: stage for stage in plan.with_before((*plan.WITHOUT_GPU, *plan.ON_GPU))}
    job = running.Job(
        Path(options.folder), options.seconds, options.speech, float(options.limit or 0)
    )
    running.run_stage(stages[options.stage], job)
    return 0


def measure(options: argparse.Namespace) -> int:
    """Run all stages, and write the figures and the table."""
    from benchmarks.gpu import machine, plan, running  # noqa: PLC0415 - packages may be missing
    from benchmarks.gpu.report import add_outlook, report  # noqa: PLC0415

    options.output.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        machine.link_cublas(folder / "cublas")
        missing, about = machine.inspect([*running.PROGRAM, "--inspect"])
        print(report([], about, missing), flush=True)
        stages = plan.WITHOUT_GPU if "gpu" in missing else plan.ON_GPU
        if options.before:
            (folder / "before").mkdir()
            (folder / "before" / "whisperbatch").symlink_to(
                options.before.resolve() / "whisperbatch"
            )
            stages = plan.with_before(stages, folder / "before")
        speech = options.speech and options.speech.resolve()
        job = running.Job(folder, options.seconds, speech)
        results = running.run_all(
            stages, job, options.minutes, options.output, missing=missing, about=about
        )
    results = add_outlook(results)
    running.write(options.output, results, about)
    text = report(results, about, missing)
    options.output.with_suffix(".md").write_text(text + "\n", encoding="utf-8")
    print(text)
    return int(not any(result.rows for result in results))


if __name__ == "__main__":
    sys.exit(main())
