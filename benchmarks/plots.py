"""Pictures of what `benchmarks.speed` has measured, from its own run or from the files of several.

python -m benchmarks.plots one.json two.json --to docs/reference

    speed.png     recordings: bars of times real time, a group for each recording and beam
    lengths.png   minutes: times real time, most memory and time to the first segment, by length
    files.png     files: times real time by number of files

What is measured twice is drawn as in the last file.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.rivals import SYSTEMS

COLORS = {name: f"C{number}" for number, name in enumerate(SYSTEMS)}  # the same in every picture
TIMES = ("times", "times real time")
PANELS = (TIMES, ("peak", "most memory, MB"), ("first", "first segment after, s"))


def draw(rows: Sequence[dict[str, Any]], directory: Path) -> list[Path]:
    """A picture of each kind of work that was measured; returns where they are."""
    directory.mkdir(parents=True, exist_ok=True)
    kinds = {
        kind: [row for row in rows if row["kind"] == kind]
        for kind in ("recordings", "minutes", "files")
    }
    drawn = []
    if kinds["recordings"]:
        drawn.append(_bars(kinds["recordings"], directory / "speed.png"))
    if kinds["minutes"]:
        label = "length of the recording, minutes"
        drawn.append(_lines(kinds["minutes"], PANELS, label, directory / "lengths.png"))
    if kinds["files"]:
        label = "number of files, 5 s each"
        drawn.append(_lines(kinds["files"], (TIMES,), label, directory / "files.png"))
    return drawn


def _bars(rows: Sequence[dict[str, Any]], path: Path) -> Path:
    from matplotlib.figure import Figure  # noqa: PLC0415 - an extra

    groups = list(dict.fromkeys((row["work"], row["beam"]) for row in rows))
    names = list(dict.fromkeys(row["system"] for row in rows))
    figure = Figure(figsize=(2 + (0.6 + 0.35 * len(names)) * len(groups), 4.5))
    axes = figure.add_subplot()
    width = 0.8 / len(names)
    times = {(row["work"], row["beam"], row["system"]): row["times"] for row in rows}
    present = [[name for name in names if (*group, name) in times] for group in groups]
    for name in names:
        own = [(n, group) for n, group in enumerate(groups) if name in present[n]]
        places = [n + (present[n].index(name) - (len(present[n]) - 1) / 2) * width for n, _ in own]
        heights = [times[*group, name] for _, group in own]
        bars = axes.bar(places, heights, width, label=name, color=COLORS.get(name))
        axes.bar_label(bars, fmt="%.3g", fontsize="x-small")
    axes.set_xticks(range(len(groups)), [f"{work}\nbeam {beam}" for work, beam in groups])
    axes.set_ylabel(TIMES[1])
    return _save(figure, path)


def _lines(
    rows: Sequence[dict[str, Any]], panels: Sequence[tuple[str, str]], label: str, path: Path
) -> Path:
    """A panel for each figure, a line for each system and beam; both axes are logarithmic."""
    from matplotlib.figure import Figure  # noqa: PLC0415 - an extra
    from matplotlib.ticker import LogLocator, NullLocator, StrMethodFormatter  # noqa: PLC0415

    lines = list(dict.fromkeys((row["system"], row["beam"]) for row in rows))
    beams = list(dict.fromkeys(beam for _, beam in lines))
    sizes = sorted({row["size"] for row in rows})
    figure = Figure(figsize=(1 + 4.2 * len(panels), 4.5))
    for number, (key, unit) in enumerate(panels):
        axes = figure.add_subplot(1, len(panels), number + 1)
        for name, beam in lines:
            own = sorted(
                (row["size"], row[key])
                for row in rows
                if (row["system"], row["beam"]) == (name, beam)
            )
            axes.plot(
                *zip(*own, strict=True),
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


def _save(figure: Any, path: Path) -> Path:  # noqa: ANN401 - of an extra
    """Write a picture, with one legend for all its panels beside them."""
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.tight_layout()
    figure.legend(handles, labels, fontsize="small", loc="center left", bbox_to_anchor=(1, 0.5))
    figure.savefig(path, dpi=120, bbox_inches="tight")
    return path


def main() -> None:
    """Draw what files hold."""
    parser = argparse.ArgumentParser(description="Pictures of what benchmarks.speed has measured.")
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--to", type=Path, required=True, metavar="DIRECTORY")
    chosen = parser.parse_args()
    rows = {
        (row["work"], row["system"], row["beam"]): row
        for path in chosen.files
        for row in json.loads(path.read_text(encoding="utf-8"))["rows"]
    }
    for path in draw(list(rows.values()), chosen.to):
        print(path)


if __name__ == "__main__":
    main()
