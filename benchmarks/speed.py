"""Speed, first segment, memory and errors beside other programs, interleaved.

python -m benchmarks.speed                                       # ten minutes, beam 1
python -m benchmarks.speed --beams 1 5 --rounds 3 --json out.json --plot pictures
python -m benchmarks.speed --recordings prompts:en:600:0 dense:en:600:0
python -m benchmarks.speed --minutes 1 10 60 180                 # by length
python -m benchmarks.speed --files 1 10 100                      # by number, clips of 5 s

Every measurement has a process of its own (`timing`). Each round has every system once; the table
gives medians.

    times       seconds of recording for each second
    ratio       of that to the first system's
    first       seconds to the first segment
    peak        MB that the process has ever held
    CPU         seconds of processor time for each minute of recording

The systems are those of `rivals`: all that are installed, unless some are named. `make rivals`
makes an environment that has them all: .venv-rivals/bin/python -m benchmarks.speed
"""

import argparse
import json
import os
import platform
import statistics
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks import corpora, plots, recordings, rivals, scoring, timing
from benchmarks.recordings import SAMPLING_RATE

PACKAGES = (
    *("whisperbatch", "faster-whisper", "ctranslate2", "openvino", "numpy", "av"),
    *("openai-whisper", "transformers", "torch", "pywhispercpp"),
)
CLIP = 5.0  # seconds


@dataclass(frozen=True, slots=True)
class Work:
    """What is transcribed.

    Attributes:
        name: for the table.
        kind: the option that asked for it: "recordings", "minutes" or "files".
        size: that many minutes or files.
        seconds: of sound.
        paths: of the files.
        truth: what is said, where it is known.
    """

    name: str
    kind: str
    size: float
    seconds: float
    paths: list[str]
    truth: str | None


def works(chosen: argparse.Namespace, directory: Path) -> Iterator[Work]:
    """What was asked for, written to files."""
    for minutes in chosen.minutes:
        path = directory / f"{minutes:g}min.wav"
        said = recordings.long_wav(path, minutes / 60)
        truth = " ".join(spoken.text for spoken in said) or None
        yield Work(f"{minutes:g} minutes", "minutes", minutes, minutes * 60, [str(path)], truth)
    for count in chosen.files:
        whole = corpora.build(f"dense:en:{count * CLIP:g}:0").samples
        size = int(CLIP * SAMPLING_RATE)
        paths = []
        for number in range(count):
            part = whole[number * size : (number + 1) * size]
            clip = recordings.Recording(f"clip-{number}", part, ())
            paths.append(str(recordings.write(clip, directory / f"{count}-{number}.wav")))
        yield Work(f"{count} clips", "files", count, count * CLIP, paths, None)
    for name in chosen.recordings:
        recording = corpora.build(name)
        path = recordings.write(recording, directory / f"{name.replace(':', '-')}.wav")
        yield Work(name, "recordings", 1, recording.duration, [str(path)], recording.text)


def compare(chosen: argparse.Namespace, work: Work) -> list[dict[str, Any]]:
    """A row of figures for each system and beam, printed as they come."""
    rows: list[dict[str, Any]] = []
    for beam in chosen.beams:
        found: dict[str, list[timing.Figures]] = {name: [] for name in chosen.systems}
        for _ in range(chosen.rounds):
            for name, runs in found.items():
                task = timing.Task(system=name, beam=beam, model=chosen.model, paths=work.paths)
                runs.append(timing.in_process(task))
        speeds = {
            name: work.seconds / statistics.median(run["took"] for run in runs)
            for name, runs in found.items()
        }
        for name, runs in found.items():
            row = {
                "work": work.name,
                "kind": work.kind,
                "size": work.size,
                "system": name,
                "beam": beam,
                "times": speeds[name],
                "ratio": speeds[name] / speeds[chosen.systems[0]],
                "first": statistics.median(run["first"] for run in runs),
                "peak": statistics.median(run["peak"] for run in runs),
                "cpu": statistics.median(run["cpu"] for run in runs) / work.seconds * 60,
                "wer": work.truth
                and 100 * scoring.word_error_rate(work.truth, runs[0]["text"]).rate,
            }
            rows.append(row)
            errors = f"{row['wer']:6.2f}" if row["wer"] is not None else "     -"
            print(
                f"{work.name:20} {name:25} {beam:4} {row['times']:6.1f} {row['ratio']:6.2f} "
                f"{row['first']:6.2f} {row['peak']:6.0f} {row['cpu']:6.2f} {errors}",
                flush=True,
            )
    return rows


def about() -> dict[str, Any]:
    """The machine and the versions."""
    versions = {}
    for name in PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {"machine": platform.machine(), "cores": cores, "versions": versions}


def arguments() -> argparse.Namespace:
    """What is asked for; ends the program where that cannot be done."""
    parser = argparse.ArgumentParser(description="Speed, memory and first segment.")
    parser.add_argument("--model", default="base")
    parser.add_argument(
        "--systems",
        nargs="+",
        choices=rivals.SYSTEMS,
        metavar="SYSTEM",
        help=f"of {', '.join(rivals.SYSTEMS)} (default: all that are installed)",
    )
    parser.add_argument("--beams", nargs="+", type=int, default=[1])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--recordings", nargs="+", type=corpora.argument, metavar="KIND:LANG:S:SEED", default=[]
    )
    parser.add_argument(
        "--minutes", nargs="+", type=float, default=[], help="recordings of such lengths"
    )
    parser.add_argument("--files", nargs="+", type=int, default=[], help="so many clips of 5 s")
    parser.add_argument("--json", type=Path, help="write the figures there")
    parser.add_argument("--plot", type=Path, metavar="DIRECTORY", help="write pictures there")
    chosen = parser.parse_args()
    if chosen.plot and not find_spec("matplotlib"):
        parser.error("--plot needs matplotlib: install the extra `eval`")
    absent = rivals.missing(chosen.systems or rivals.SYSTEMS)
    if absent and chosen.systems:
        packages = ", ".join(dict.fromkeys(absent.values()))
        parser.error(f"not installed: {packages}; `make rivals`, then .venv-rivals/bin/python")
    if absent:
        print(f"Not installed, left out: {', '.join(absent)} (make rivals)")
    chosen.systems = chosen.systems or [name for name in rivals.SYSTEMS if name not in absent]
    if not (chosen.recordings or chosen.minutes or chosen.files):
        chosen.recordings = ["prompts:en:600:0"]
    return chosen


def main() -> None:
    """Measure and print."""
    chosen = arguments()
    for name in chosen.systems:
        if prepare := rivals.SYSTEMS[name].prepare:
            prepare(chosen.model)
    rows: list[dict[str, Any]] = []
    print(
        f"{'':20} {'system':25} {'beam':>4} {'times':>6} {'ratio':>6} {'first':>6} {'peak':>6} "
        f"{'CPU':>6} {'WER %':>6}"
    )
    with tempfile.TemporaryDirectory() as directory:
        for work in works(chosen, Path(directory)):
            rows += compare(chosen, work)
            if chosen.json:  # after each: a run over hours may be stopped
                value = {**about(), "model": chosen.model, "rows": rows}
                chosen.json.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")
    if chosen.plot:
        plots.draw(rows, chosen.plot)


if __name__ == "__main__":
    main()
