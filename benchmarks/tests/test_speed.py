"""The speed benchmark: timing, the command line and plots."""

import json
import re
import subprocess
import sys
import wave
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import plots, recordings, rivals, speed, timing


def rows(kind: str, sizes: tuple[float, ...]) -> Iterator[dict[str, Any]]:
    for size in sizes:
        for number, system in enumerate(("first", "second"), 1):
            yield {
                "work": f"{kind}:en:{60 * size:g}:0",
                "kind": kind,
                "size": size,
                "system": system,
                "beam": 1,
                "times": 10.0 * number,
                "peak": 800.0,
                "first": 1.5 * size,
            }


def test_peak_memory_excludes_the_parent_process() -> None:
    parent_memory = np.ones(60_000_000)  # 480 MB
    program = "from benchmarks import timing; print(timing.peak())"
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    assert timing.peak() > parent_memory.nbytes / 1024 / 1024
    assert 10 < float(done.stdout) < parent_memory.nbytes / 1024 / 1024


def test_each_segment_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(paths: list[str], on_segment: rivals.OnSegment) -> None:
        for path in paths:
            on_segment(f" {Path(path).suffix}")

    fake = rivals.System(lambda *_: run, "whisperbatch")
    monkeypatch.setitem(rivals.SYSTEMS, "fake", fake)
    task = timing.Task(
        system="fake", model="base", beam=1, device="cpu", batch_size=8, paths=["a.b", "c.d"]
    )
    figures = timing.measure(task)
    assert figures["text"] == ".b .d"
    assert 0 < figures["first"] <= figures["took"]
    task["paths"] = []
    figures = timing.measure(task)
    assert figures["first"] == figures["took"]  # without segments, the time to the end


def test_samples_are_read_from_wav(tmp_path: Path) -> None:
    samples = np.array([0, 16384, -32768], np.int16)
    path = recordings.write(recordings.Recording("three", samples, ()), tmp_path / "three.wav")
    assert rivals.read(str(path)).tolist() == [0.0, 0.5, -1.0]
    with wave.open(str(path), "rb") as file:
        assert file.getframerate() == 16_000


def uninstall(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    def installed(system: rivals.System) -> bool:
        return system.package != package

    monkeypatch.setattr(rivals.System, "installed", property(installed))


def test_programs_that_are_not_installed_are_left_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    uninstall(monkeypatch, "transformers")
    monkeypatch.setattr(sys, "argv", ["speed"])
    arguments = speed.arguments()
    left_out = {"transformers-bfloat16", "transformers-float32", *rivals.ONLY_IF_NAMED}
    assert arguments.systems == [name for name in rivals.SYSTEMS if name not in left_out]
    assert "left out: transformers-bfloat16, transformers-float32" in capsys.readouterr().out


def test_programs_that_are_not_installed_cannot_be_chosen(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    uninstall(monkeypatch, "pywhispercpp")
    monkeypatch.setattr(sys, "argv", ["speed", "--systems", "whisperbatch", "whisper.cpp-q8_0"])
    with pytest.raises(SystemExit):
        speed.arguments()
    assert "not installed: pywhispercpp; run `make rivals`" in capsys.readouterr().err


def test_a_plot_is_drawn_for_each_kind_of_work(tmp_path: Path) -> None:
    assert plots.draw([], tmp_path) == []
    paths = plots.draw([*rows("minutes", (1, 60)), *rows("files", (1, 100))], tmp_path / "new")
    assert [path.name for path in paths] == ["lengths.png", "files.png"]
    (bars,) = plots.draw(list(rows("recordings", (1,))), tmp_path)
    for path in [*paths, bars]:
        assert path.read_bytes().startswith(b"\x89PNG")


def test_a_recording_is_named_in_words() -> None:
    assert plots.describe("prompts:en:600:0") == "telephone prompts, 10 min"
    assert plots.describe("noise_under:fr:90:3") == "noise under (fr), 1.5 min"


def test_every_system_has_its_own_colour() -> None:
    assert set(plots.COLOURS) == set(rivals.SYSTEMS)
    assert len(set(plots.COLOURS.values())) == len(rivals.SYSTEMS)


def test_the_published_pictures_show_the_figures_of_the_tables() -> None:
    pages = Path(__file__).parents[2] / "docs/reference"
    drawn = json.loads((pages / "figures.json").read_text())["rows"]
    cells = {
        cell.strip().replace(",", "").removesuffix(" MB").removesuffix(" s")
        for line in (pages / "benchmarks.md").read_text().splitlines()
        for cell in re.split(r"[|,] ", line)
    }
    words = (pages / "benchmarks.md").read_text()
    for row in drawn:
        figures = {str(row[key]) for key in ("times", "peak", "first") if key in row}
        missing = {f for f in figures if f not in cells and f" {f}" not in words}
        assert not missing, row


def test_the_last_of_several_runs_is_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number, size in enumerate((1, 60, 60)):
        value = {"rows": [{**row, "first": number} for row in rows("minutes", (size,))]}
        (tmp_path / f"{number}.json").write_text(json.dumps(value))
    drawn: list[dict[str, Any]] = []

    def draw(rows: list[dict[str, Any]], directory: Path) -> list[Path]:
        drawn.extend(rows)
        return []

    monkeypatch.setattr(plots, "draw", draw)
    files = [str(tmp_path / f"{number}.json") for number in range(3)]
    monkeypatch.setattr(sys, "argv", ["plots", *files, "--to", str(tmp_path)])
    plots.main()
    assert [(row["size"], row["first"]) for row in drawn] == [(1, 0), (1, 0), (60, 2), (60, 2)]
