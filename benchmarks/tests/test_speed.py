import json
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
        for number, system in enumerate(("one", "two"), 1):
            yield {
                "work": f"{size:g} {kind}",
                "kind": kind,
                "size": size,
                "system": system,
                "beam": 1,
                "times": 10.0 * number,
                "peak": 800.0,
                "first": 1.5 * size,
            }


def test_peak_is_of_this_program_and_not_of_the_one_that_started_it() -> None:
    held = np.ones(60_000_000)  # 480 MB
    program = "from benchmarks import timing; print(timing.peak())"
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    assert timing.peak() > held.nbytes / 1024 / 1024
    assert 10 < float(done.stdout) < held.nbytes / 1024 / 1024


def test_each_segment_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(paths: list[str], hear: rivals.Hear) -> None:
        for path in paths:
            hear(f" {Path(path).suffix}")

    opened = rivals.System(lambda *_: run, "whisperbatch")
    monkeypatch.setitem(rivals.SYSTEMS, "fake", opened)
    task = timing.Task(system="fake", beam=1, model="base", paths=["a.b", "c.d"])
    figures = timing.measured(task)
    assert figures["text"] == ".b .d"
    assert 0 < figures["first"] <= figures["took"]
    task["paths"] = []
    figures = timing.measured(task)
    assert figures["first"] == figures["took"]  # nothing was heard until the end


def test_rivals_are_given_samples(tmp_path: Path) -> None:
    samples = np.array([0, 16384, -32768], np.int16)
    path = recordings.write(recordings.Recording("three", samples, ()), tmp_path / "three.wav")
    assert rivals.read(str(path)).tolist() == [0.0, 0.5, -1.0]
    with wave.open(str(path), "rb") as file:
        assert file.getframerate() == 16_000


def absent(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    def installed(system: rivals.System) -> bool:
        return system.package != package

    monkeypatch.setattr(rivals.System, "installed", property(installed))


def test_what_is_not_installed_is_left_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    absent(monkeypatch, "transformers")
    monkeypatch.setattr(sys, "argv", ["speed"])
    chosen = speed.arguments()
    assert chosen.systems == [name for name in rivals.SYSTEMS if "transformers" not in name]
    assert "left out: transformers-bfloat16, transformers-float32" in capsys.readouterr().out


def test_what_is_not_installed_cannot_be_asked_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    absent(monkeypatch, "pywhispercpp")
    monkeypatch.setattr(sys, "argv", ["speed", "--systems", "whisperbatch", "whisper.cpp-q8_0"])
    with pytest.raises(SystemExit):
        speed.arguments()
    assert "not installed: pywhispercpp; `make rivals`" in capsys.readouterr().err


def test_pictures_of_what_was_measured(tmp_path: Path) -> None:
    assert plots.draw([], tmp_path) == []
    drawn = plots.draw([*rows("minutes", (1, 60)), *rows("files", (1, 100))], tmp_path / "new")
    assert [path.name for path in drawn] == ["lengths.png", "files.png"]
    (bars,) = plots.draw(list(rows("recordings", (1,))), tmp_path)
    for path in [*drawn, bars]:
        assert path.read_bytes().startswith(b"\x89PNG")


def test_pictures_of_several_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number, size in enumerate((1, 60, 60)):
        value = {"rows": [{**row, "first": number} for row in rows("minutes", (size,))]}
        (tmp_path / f"{number}.json").write_text(json.dumps(value))
    given: list[dict[str, Any]] = []

    def draw(rows: list[dict[str, Any]], directory: Path) -> list[Path]:
        given.extend(rows)
        return []

    monkeypatch.setattr(plots, "draw", draw)
    files = [str(tmp_path / f"{number}.json") for number in range(3)]
    monkeypatch.setattr(sys, "argv", ["plots", *files, "--to", str(tmp_path)])
    plots.main()
    assert [(row["size"], row["first"]) for row in given] == [(1, 0), (1, 0), (60, 2), (60, 2)]
