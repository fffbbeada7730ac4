"""Compare speed, time to the first segment, memory and errors with other programs.

python -m benchmarks.speed                                       # ten minutes, beam 1
python -m benchmarks.speed --beams 1 5 --rounds 3 --json out.json --plot pictures
python -m benchmarks.speed --recordings prompts:en:600:0 dense:en:600:0
python -m benchmarks.speed --minutes 1 10 60 180                 # by length
python -m benchmarks.speed --files 1 10 100                      # by number of 5 s clips
python -m benchmarks.speed --minutes 60 --device cuda --batch-size 32

Every measurement runs in a separate process (`timing`). A round runs every system once, so that the
systems are interleaved; the table has the medians of the rounds.

    times       times real time: seconds of recording per second
    ratio       times real time, divided by that of the first system
    first       seconds to the first segment
    peak        peak memory of the process, in MB
    CPU         seconds of processor time per minute of recording

The systems are listed in `rivals`. By default, all installed systems are compared. `make rivals`
installs all of them in .venv-rivals; then run .venv-rivals/bin/python -m benchmarks.speed
"""

import argparse
import json
import statistics
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks import corpora, plots, recordings, rivals, scoring, timing
from benchmarks.arguments import add_recordings
from benchmarks.recordings import SAMPLING_RATE
from benchmarks.versions import about

CLIP = 5.0  # seconds, length of each file of --files


@dataclass(frozen=True, slots=True)
class Work:
    """The files of one measurement.

    Attributes:
        name: name in the table.
        kind: the command-line option that chose the files: "recordings", "minutes" or "files".
        size: number of minutes or files.
        seconds: total duration of the files.
        paths: paths of the files.
        truth: text of the files, if it is known.
    """

    name: str
    kind: str
    size: float
    seconds: float
    paths: list[str]
    truth: str | None


def works(options: argparse.Namespace, directory: Path) -> Iterator[Work]:
    """Write the recordings of the command line to files."""
    for minutes in options.minutes:
        path = directory / f"{minutes:g}min.wav"
        utterances = recordings.long_wav(path, minutes / 60)
        truth = " ".join(utterance.text for utterance in utterances) or None
        yield Work(f"{minutes:g} minutes", "minutes", minutes, minutes * 60, [str(path)], truth)
    for count in options.files:
        samples = corpora.build(f"dense:en:{count * CLIP:g}:0").samples
        size = int(CLIP * SAMPLING_RATE)
        paths = []
        for number in range(count):
            part = samples[number * size : (number + 1) * size]
            clip = recordings.Recording(f"clip-{number}", part, ())
            paths.append(str(recordings.write(clip, directory / f"{count}-{number}.wav")))
        yield Work(f"{count} clips", "files", count, count * CLIP, paths, None)
    for name in options.recordings:
        recording = corpora.build(name)
        path = recordings.write(recording, directory / f"{name.replace(':', '-')}.wav")
        yield Work(name, "recordings", 1, recording.duration, [str(path)], recording.text)


def compare(options: argparse.Namespace, work: Work) -> list[dict[str, Any]]:
    """Measure every system and beam; print each row of figures, and return all rows."""
    rows: list[dict[str, Any]] = []
    for beam in options.beams:
        figures: dict[str, list[timing.Figures]] = {name: [] for name in options.systems}
        for _ in range(options.rounds):
            for name, runs in figures.items():
                task = timing.Task(
                    system=name,
                    model=options.model,
                    beam=beam,
                    device=options.device,
                    batch_size=options.batch_size,
                    paths=work.paths,
                )
                runs.append(timing.in_process(task))
        speeds = {
            name: work.seconds / statistics.median(run["took"] for run in runs)
            for name, runs in figures.items()
        }
        for name, runs in figures.items():
            row = {
                "work": work.name,
                "kind": work.kind,
                "size": work.size,
                "system": name,
                "beam": beam,
                "times": speeds[name],
                "ratio": speeds[name] / speeds[options.systems[0]],
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


def arguments() -> argparse.Namespace:
    """Parse the command line; end the program after an error."""
    parser = argparse.ArgumentParser(description="Speed, memory and first segment.")
    parser.add_argument("--model", default="base")
    parser.add_argument(
        "--systems",
        nargs="+",
        choices=rivals.SYSTEMS,
        metavar="SYSTEM",
        help=f"one or more of {', '.join(rivals.SYSTEMS)} (default: all installed systems)",
    )
    parser.add_argument("--beams", nargs="+", type=int, default=[1])
    parser.add_argument("--device", choices=[rivals.CPU, rivals.CUDA], default=rivals.CPU)
    parser.add_argument(
        "--batch-size", type=int, default=8, help="of the other programs (default: 8)"
    )
    parser.add_argument("--rounds", type=int, default=3)
    add_recordings(parser)
    parser.add_argument(
        "--minutes", nargs="+", type=float, default=[], help="lengths of recordings, in minutes"
    )
    parser.add_argument("--files", nargs="+", type=int, default=[], help="numbers of 5 s clips")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument(
        "--plot", type=Path, metavar="DIRECTORY", help="write pictures to this directory"
    )
    options = parser.parse_args()
    if options.plot and not find_spec("matplotlib"):
        parser.error("--plot needs matplotlib: install the extra `eval`")
    for name in options.systems or ():
        if options.device not in rivals.SYSTEMS[name].devices:
            parser.error(f"{name} does not run on {options.device}")
    not_installed = rivals.missing(options.systems or rivals.SYSTEMS)
    if not_installed and options.systems:
        packages = ", ".join(dict.fromkeys(not_installed.values()))
        parser.error(
            f"not installed: {packages}; run `make rivals`, then use .venv-rivals/bin/python"
        )
    if not_installed:
        print(f"Not installed, left out: {', '.join(not_installed)} (make rivals)")
    options.systems = options.systems or [
        name
        for name, system in rivals.SYSTEMS.items()
        if name not in {*not_installed, *rivals.ONLY_IF_NAMED} and options.device in system.devices
    ]
    if not (options.recordings or options.minutes or options.files):
        options.recordings = ["prompts:en:600:0"]
    return options


def main() -> None:
    """Measure the systems and print the table."""
    options = arguments()
    for name in options.systems:
        if prepare := rivals.SYSTEMS[name].prepare:
            prepare(options.model)
    rows: list[dict[str, Any]] = []
    print(
        f"{'':20} {'system':25} {'beam':>4} {'times':>6} {'ratio':>6} {'first':>6} {'peak':>6} "
        f"{'CPU':>6} {'WER %':>6}"
    )
    with tempfile.TemporaryDirectory() as directory:
        for work in works(options, Path(directory)):
            rows += compare(options, work)
            if options.json:  # after each measurement: a long run may be stopped
                setup = {"model": options.model, "device": options.device}
                value = {**about(), **setup, "rows": rows}
                options.json.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")
    if options.plot:
        plots.draw(rows, options.plot)


if __name__ == "__main__":
    main()
