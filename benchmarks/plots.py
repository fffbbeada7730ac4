"""Draw the results of `benchmarks.speed`, from its own run or from its JSON files.

python -m benchmarks.plots docs/reference/figures.json --to docs/reference
python -m benchmarks.plots one.json two.json --to pictures

    speed.png     recordings: bars of times real time, a group for each recording and beam
    lengths.png   minutes: times real time, peak memory and time to the first segment, by length
    files.png     files: times real time by number of files

If several files have the same measurement, the last file counts. figures.json has the measurements
of the tables in docs/reference/benchmarks.md.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.rivals import SYSTEMS

NAMES: Final = {
    "whisperbatch": "whisperbatch",
    "faster-whisper-batched": "faster-whisper, batched",
    "faster-whisper": "faster-whisper, sequential",
    "openai-whisper": "openai-whisper",
    "transformers-bfloat16": "transformers, bfloat16",
    "transformers-float32": "transformers, float32",
    "whisper.cpp-float16": "whisper.cpp, float16",
    "whisper.cpp-q8_0": "whisper.cpp, 8 bits",
}
"""Names of systems in legends; another system has its own name."""
COLOURS: Final = {
    "whisperbatch": "#4477aa",
    "faster-whisper-batched": "#ee6677",
    "faster-whisper": "#ccbb44",
    "openai-whisper": "#228833",
    "transformers-bfloat16": "#aa3377",
    "transformers-float32": "#882255",
    "whisper.cpp-float16": "#117733",
    "whisper.cpp-q8_0": "#66ccee",
}
"""The same colour in every picture: Paul Tol's schemes, which colour-blind people can distinguish.
Variants of whisperbatch have greys."""
GREYS: Final = ("#222222", "#444444", "#666666", "#888888", "#aaaaaa", "#cccccc")
COLOURS.update(zip((name for name in SYSTEMS if name not in COLOURS), GREYS, strict=True))
KINDS: Final = {"prompts": "telephone prompts", "read": "read speech", "dense": "prompts, dense"}
"""Kinds of recordings under the bars; another kind has its own name."""
TIMES: Final = ("times", "seconds of recording in one second")
PANELS: Final = (
    (*TIMES, "Speed"),
    ("peak", "MB", "Peak memory"),
    ("first", "seconds", "Time to the first segment"),
)


def draw(rows: Sequence[dict[str, Any]], directory: Path) -> list[Path]:
    """Draw a picture for each kind of work in the rows; return the paths."""
    directory.mkdir(parents=True, exist_ok=True)
    kinds = {
        kind: [row for row in rows if row["kind"] == kind]
        for kind in ("recordings", "minutes", "files")
    }
    paths = []
    if kinds["recordings"]:
        paths.append(_bars(kinds["recordings"], directory / "speed.png"))
    if kinds["minutes"]:
        label = "minutes of the recording"
        paths.append(_lines(kinds["minutes"], PANELS, label, directory / "lengths.png"))
    if kinds["files"]:
        label = "number of files, 5 s each"
        panels = ((*TIMES, "Speed with short files"),)
        paths.append(_lines(kinds["files"], panels, label, directory / "files.png"))
    return paths


def describe(work: str) -> str:
    """Return what a recording is, in words: "read:en:600:0" is read speech, 10 min."""
    kind, _, numbers = work.partition(":")
    language, seconds, _ = numbers.split(":")
    english = "" if language == "en" else f" ({language})"
    return f"{KINDS.get(kind, kind.replace('_', ' '))}{english}, {float(seconds) / 60:g} min"


def _bars(rows: Sequence[dict[str, Any]], path: Path) -> Path:
    from matplotlib.figure import Figure  # noqa: PLC0415 - an optional extra

    groups = list(dict.fromkeys((row["work"], row["beam"]) for row in rows))
    names = list(dict.fromkeys(row["system"] for row in rows))
    figure = Figure(figsize=(2 + (0.6 + 0.35 * len(names)) * len(groups), 4.5))
    axes = figure.add_subplot()
    width = 0.8 / len(names)
    times = {((row["work"], row["beam"]), row["system"]): row["times"] for row in rows}
    systems = [[name for name in names if (group, name) in times] for group in groups]
    for name in names:
        bar_groups = [(n, group) for n, group in enumerate(groups) if name in systems[n]]
        places = [
            n + (systems[n].index(name) - (len(systems[n]) - 1) / 2) * width for n, _ in bar_groups
        ]
        heights = [times[group, name] for _, group in bar_groups]
        label = NAMES.get(name, name)
        bars = axes.bar(places, heights, width, label=label, color=COLOURS.get(name))
        axes.bar_label(bars, fmt="%.2g", fontsize="small")
    labels = [f"{describe(work)}\nbeam {beam}" for work, beam in groups]
    axes.set_xticks(range(len(groups)), labels)
    axes.set_ylabel(TIMES[1])
    axes.set_title("Speed")
    axes.spines[["top", "right"]].set_visible(False)
    return _save(figure, path)


def _lines(
    rows: Sequence[dict[str, Any]], panels: Sequence[tuple[str, str, str]], label: str, path: Path
) -> Path:
    """Draw a panel for each figure, and a line for each system and beam."""
    from matplotlib.figure import Figure  # noqa: PLC0415 - an optional extra
    from matplotlib.ticker import NullLocator  # noqa: PLC0415

    lines = list(dict.fromkeys((row["system"], row["beam"]) for row in rows))
    beams = list(dict.fromkeys(beam for _, beam in lines))
    sizes = sorted({row["size"] for row in rows})
    figure = Figure(figsize=(1 + 4 * len(panels), 4))
    for number, (key, unit, title) in enumerate(panels):
        axes = figure.add_subplot(1, len(panels), number + 1)
        for name, beam in lines:
            points = sorted(
                (row["size"], row[key])
                for row in rows
                if (row["system"], row["beam"]) == (name, beam)
            )
            axes.plot(
                *zip(*points, strict=True),
                marker="o",
                color=COLOURS.get(name),
                linestyle=("-", "--", ":", "-.")[beams.index(beam) % 4],
                label=f"{NAMES.get(name, name)}, beam {beam}",
            )
        axes.set_xscale("log")
        axes.set_xticks(sizes, [f"{size:g}" for size in sizes])
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_ylim(bottom=0)
        axes.grid(alpha=0.3)
        axes.set_xlabel(label)
        axes.set_ylabel(unit)
        axes.set_title(title)
        axes.spines[["top", "right"]].set_visible(False)
    return _save(figure, path)


def _save(figure: Any, path: Path) -> Path:  # noqa: ANN401 - from an optional extra
    """Write a picture, with one legend below its panels."""
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.tight_layout()
    columns = 3 if len(figure.axes) > 1 or len(labels) > 3 else 1
    figure.legend(
        handles, labels, loc="upper center", bbox_to_anchor=(0.5, 0), ncols=columns, frameon=False
    )
    figure.savefig(path, dpi=120, bbox_inches="tight")
    return path


def main() -> None:
    """Draw the results in JSON files."""
    parser = argparse.ArgumentParser(description="Draw the results of benchmarks.speed.")
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--to", type=Path, required=True, metavar="DIRECTORY")
    arguments = parser.parse_args()
    rows = {
        (row["work"], row["system"], row["beam"]): row
        for path in arguments.files
        for row in json.loads(path.read_text(encoding="utf-8"))["rows"]
    }
    for path in draw(list(rows.values()), arguments.to):
        print(path)


if __name__ == "__main__":
    main()
