"""Draw the results of `benchmarks.speed`, from its own run or from its JSON files.

python -m benchmarks.plots one.json two.json --to docs/reference

    speed.png     recordings: bars of times real time, a group for each recording and beam
    lengths.png   minutes: times real time, peak memory and time to the first segment, by length
    files.png     files: times real time by number of files

If several files have the same measurement, the last file counts.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.rivals import SYSTEMS

PALETTE = (
    *(f"C{number}" for number in range(10)),  # "C10" is "C0"
    *("black", "navy", "gold", "lime"),
)
COLORS = dict(zip(SYSTEMS, PALETTE, strict=True))  # the same color in every picture
TIMES = ("times", "times real time")
PANELS = (TIMES, ("peak", "peak memory, MB"), ("first", "first segment after, s"))


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
        label = "length of the recording, minutes"
        paths.append(_lines(kinds["minutes"], PANELS, label, directory / "lengths.png"))
    if kinds["files"]:
        label = "number of files, 5 s each"
        paths.append(_lines(kinds["files"], (TIMES,), label, directory / "files.png"))
    return paths


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
        bars = axes.bar(places, heights, width, label=name, color=COLORS.get(name))
        axes.bar_label(bars, fmt="%.3g", fontsize="x-small")
    axes.set_xticks(range(len(groups)), [f"{work}\nbeam {beam}" for work, beam in groups])
    axes.set_ylabel(TIMES[1])
    return _save(figure, path)


def _lines(
    rows: Sequence[dict[str, Any]], panels: Sequence[tuple[str, str]], label: str, path: Path
) -> Path:
    """Draw a panel for each figure, a line for each system and beam, on logarithmic axes."""
    from matplotlib.figure import Figure  # noqa: PLC0415 - an optional extra
    from matplotlib.ticker import LogLocator, NullLocator, StrMethodFormatter  # noqa: PLC0415

    lines = list(dict.fromkeys((row["system"], row["beam"]) for row in rows))
    beams = list(dict.fromkeys(beam for _, beam in lines))
    sizes = sorted({row["size"] for row in rows})
    figure = Figure(figsize=(1 + 4.2 * len(panels), 4.5))
    for number, (key, unit) in enumerate(panels):
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
                color=COLORS.get(name),
                linestyle=("-", "--", ":", "-.")[beams.index(beam) % 4],
                label=f"{name}, beam {beam}",
            )
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xticks(sizes, [f"{size:g}" for size in sizes])
        axes.xaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 3, 5)))
        axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
        axes.yaxis.set_minor_locator(NullLocator())
        axes.grid(alpha=0.3)
        axes.set_xlabel(label)
        axes.set_ylabel(unit)
    return _save(figure, path)


def _save(figure: Any, path: Path) -> Path:  # noqa: ANN401 - from an optional extra
    """Write a picture, with one legend beside its panels."""
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.tight_layout()
    figure.legend(handles, labels, fontsize="small", loc="center left", bbox_to_anchor=(1, 0.5))
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
