"""Measure the accuracy of transcripts, next to faster-whisper's, on your own or built recordings.

python -m benchmarks.accuracy --manifest corpus.jsonl       # your own: see benchmarks/manifest.py
python -m benchmarks.accuracy --recordings mixed:en:600:0   # built: see benchmarks/corpora.py
python -m benchmarks.accuracy --systems whisperbatch-1 faster-whisper-1 --model tiny.en
python -m benchmarks.accuracy --option max_silence=1.0 --json out.json --plot out.png

For each recording and system, and for all recordings together:

    WER, CER       errors per word or character of the truth, in %, with Whisper's normalizers
                   (benchmarks/scoring.py); sub, del, ins: number of words of each kind of error
    made up        words recognized more than 0.5 s from any utterance, per minute without speech
    missed         seconds of utterances without a recognized word
    <0.5 s, median of the utterances after a pause of 0.7 s: how many have a segment start within
                   0.5 s, and the median distance to the nearest segment start
    speed          times real time, in one run, including reading the file and word times

"made up", "missed", "<0.5 s" and "median" need the times of utterances; without them, the table has
a dash. All systems transcribe the same file, one after the other; see benchmarks/systems.py.
"""

import argparse
import ast
import json
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from functools import reduce
from importlib.metadata import version
from importlib.util import find_spec
from operator import add
from pathlib import Path
from typing import Any

from benchmarks import corpora, manifest, systems
from benchmarks.arguments import add_recordings, require_directories
from benchmarks.manifest import Entry
from benchmarks.measures import Accuracy, measure
from benchmarks.systems import SystemTranscript
from whisperbatch.errors import WhisperBatchError

SYSTEMS = (
    *("whisperbatch-5", "whisperbatch-1", "faster-whisper-5"),
    *("faster-whisper-batched-5", "faster-whisper-batched-1"),
)
LITERALS = {"true": "True", "false": "False", "none": "None"}
PACKAGES = ("whisperbatch", "faster-whisper", "ctranslate2")

COLUMNS = (  # title, figure, format
    ("WER %", "wer", "6.2f"),
    ("CER %", "cer", "6.2f"),
    ("sub", "substitutions", "4.0f"),
    ("del", "deletions", "4.0f"),
    ("ins", "insertions", "4.0f"),
    ("made up/min", "made_up_per_minute", "11.2f"),
    ("missed s", "missed_seconds", "8.1f"),
    ("<0.5 s %", "starts_within_half_a_second", "8.1f"),
    ("median s", "start_error_median", "8.3f"),
    ("speed", "speed", "6.1f"),
)


def line(recording: str, system: str, figures: Mapping[str, float | None] | None = None) -> str:
    """Return a line of the table; without figures, the line of titles."""
    cells = [f"{recording:24}", f"{system:24}"]
    for title, name, number_format in COLUMNS:
        width = max(len(title), int(number_format.split(".")[0]))
        value = figures[name] if figures else None
        text = title if figures is None else "-" if value is None else format(value, number_format)
        cells.append(f"{text:>{width}}")
    return " ".join(cells)


class Report:
    """The results so far: a table printed line by line, a JSON file, and a picture."""

    def __init__(self, about: Mapping[str, Any]) -> None:
        self._about = about
        self._recordings: list[dict[str, Any]] = []
        self._measured: dict[str, list[Accuracy]] = {}

    def start(self, entry: Entry, seconds: float) -> None:
        """Start the results of a recording."""
        about = {"name": entry.name, "language": entry.language, "seconds": seconds}
        self._recordings.append({**about, "systems": {}})

    def add(self, system: str, accuracy: Accuracy, transcript: SystemTranscript) -> None:
        """Add and print the result of a system for the current recording."""
        figures = accuracy.figures()
        current = self._recordings[-1]
        current["systems"][system] = {**figures, **transcript.counts, "text": transcript.text}
        self._measured.setdefault(system, []).append(accuracy)
        print(line(current["name"], system, figures), flush=True)

    def total(self) -> dict[str, dict[str, float | None]]:
        """Return the figures of each system over all recordings."""
        return {name: reduce(add, parts).figures() for name, parts in self._measured.items()}

    def save(self, path: Path) -> None:
        """Write all figures as JSON."""
        value = {**self._about, "recordings": self._recordings, "total": self.total()}
        path.write_text(json.dumps(value, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")

    def plot(self, path: Path) -> None:
        """Draw the word error rates: a group of bars for each recording."""
        from matplotlib.figure import Figure  # noqa: PLC0415 - only --plot needs it

        rows = [(recording["name"], recording["systems"]) for recording in self._recordings]
        if len(rows) > 1:
            rows.append(("total", self.total()))
        names = list(self._measured)
        figure = Figure(figsize=(max(6.0, 2 + len(rows) * (0.4 + 0.16 * len(names))), 5.0))
        axes = figure.add_subplot()
        width = 0.8 / len(names)
        for number, name in enumerate(names):
            places = [row + (number - (len(names) - 1) / 2) * width for row in range(len(rows))]
            axes.bar(places, [figures[name]["wer"] for _, figures in rows], width, label=name)
        axes.set_xticks(range(len(rows)), [name for name, _ in rows], rotation=30, ha="right")
        axes.set_ylabel("word error rate, %")
        axes.legend(fontsize="small")
        figure.tight_layout()
        figure.savefig(path, dpi=120)


def run(entry: Entry, opened: Mapping[str, systems.System], report: Report) -> None:
    """Run every system on a recording, one after the other."""
    seconds = manifest.duration(entry.audio)
    report.start(entry, seconds)
    for name, system in opened.items():
        started = time.perf_counter()
        transcript = system(entry.audio, entry.language)
        took = time.perf_counter() - started
        report.add(name, measure(entry, transcript, seconds, took), transcript)


def option(text: str) -> tuple[str, Any]:
    """Parse NAME=VALUE of --option; a value that is not a Python literal is text."""
    name, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text}: write name=value, for example max_silence=1.0")
    try:
        return name, ast.literal_eval(LITERALS.get(value, value))
    except (SyntaxError, ValueError):
        return name, value


def system_name(text: str) -> str:
    """Check a name of --systems."""
    if not systems.NAME.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text}: the systems are {', '.join(SYSTEMS)}")
    return text


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.accuracy",
        description="Word errors, made-up and missed words, segment starts and speed.",
        epilog="Without --manifest and --recordings: five minutes under each condition.",
    )
    parser.add_argument("--manifest", type=Path, metavar="corpus.jsonl")
    add_recordings(parser)
    parser.add_argument("--model", default="base")
    parser.add_argument("--systems", nargs="+", type=system_name, default=SYSTEMS, metavar="NAME")
    parser.add_argument(
        "--option", nargs="+", action="extend", type=option, default=[], metavar="NAME=VALUE"
    )
    parser.add_argument("--json", type=Path, metavar="out.json")
    parser.add_argument("--plot", type=Path, metavar="out.png")
    parsed = parser.parse_args(argv)
    if parsed.plot and not find_spec("matplotlib"):
        parser.error("--plot needs matplotlib: install the extra `eval`")
    if not parsed.manifest and not parsed.recordings:
        parsed.recordings = corpora.DEFAULT
    require_directories(parser, parsed.json, parsed.plot)
    return parsed


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print and write the results; return exit code 0, or 2 after an error."""
    parsed = arguments(argv)
    try:
        with tempfile.TemporaryDirectory() as directory:
            evaluate(parsed, Path(directory))
    except (corpora.CorpusError, WhisperBatchError) as error:
        print(f"accuracy: {error}", file=sys.stderr)
        return 2
    return 0


def evaluate(parsed: argparse.Namespace, directory: Path) -> None:
    """Measure, print and write the results; built recordings are written to `directory`."""
    values = dict(parsed.option)
    options = systems.check_options(values)
    entries = manifest.read_manifest(parsed.manifest) if parsed.manifest else []
    if parsed.recordings:
        built = manifest.write_manifest(map(corpora.build, parsed.recordings), directory)
        entries += manifest.read_manifest(built)
    report = Report(
        {
            "model": parsed.model,
            "options": values,
            "versions": {name: version(name) for name in PACKAGES},
        }
    )
    names = list(dict.fromkeys(parsed.systems))
    with systems.open_systems(names, parsed.model, options) as opened:
        print(line("recording", "system"))
        for entry in entries:
            run(entry, opened, report)
            if parsed.json:  # after each recording: a long run may be stopped
                report.save(parsed.json)
    if len(entries) > 1:
        for name, figures in report.total().items():
            print(line("total", name, figures))
    if parsed.plot:
        report.plot(parsed.plot)


if __name__ == "__main__":
    sys.exit(main())
