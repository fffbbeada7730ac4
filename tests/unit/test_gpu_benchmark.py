"""benchmarks.gpu: its stages, its table, its simulated engine, and the folder to bring."""

import json
import os
import sys
import time
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import whisperbatch as wb
from benchmarks import clips, recordings, stage_times
from benchmarks.gpu import __main__ as program
from benchmarks.gpu import (
    front_end,
    inputs,
    machine,
    pack,
    plan,
    running,
    simulation,
    wheels,
)
from benchmarks.gpu.report import report
from benchmarks.gpu.running import COMPLETE, Job, Result, Stage
from tests.unit.fakes import noise
from tests.unit.latency_engine import LatencyEngine, decoding, encoding

ROOT = Path(__file__).parents[2]
SPEECH = Path(wb.__file__).parent / "doctor" / "clip.opus"
ABOUT = {"machine": "x86_64", "cores": 2, "gpu": "", "versions": {"numpy": "2"}}
NO_GPU = {"gpu": "CTranslate2 finds no GPU", "8 cores": "the machine has 2 cores"}
DURATION = 120.0


def inline(stage: Stage, job: Job, limit: float, command: object) -> Result:
    running.run_stage(stage, job)
    name = f"{stage.name.replace(' ', '-')}.json"
    return Result(stage.name, COMPLETE, 0.0, json.loads((job.folder / name).read_text()))


@pytest.fixture
def without_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "_run", inline)
    monkeypatch.setattr(machine, "inspect", lambda _: (NO_GPU, ABOUT))
    monkeypatch.setattr(front_end, "ProcessPoolExecutor", lambda n, _: ThreadPoolExecutor(n))
    monkeypatch.setattr(front_end, "ROUNDS", 1)
    monkeypatch.setattr(plan, "FRONT_SECONDS", 5.0)


def check_simulated(row: running.Figures) -> None:
    assert row["decoded again"] == 0
    assert 0 < row["idle"] < 1
    assert row["calls"] * row["rows per call"] == pytest.approx(row["chunks"], rel=0.01)
    assert all(row[f"CPU {name}"] > 0 for name in simulation.COLUMNS)


@pytest.mark.usefixtures("without_processes")
def test_without_a_gpu_the_program_writes_a_complete_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stages = (plan.WITHOUT_GPU[0], *plan.WITHOUT_GPU[-3::2])  # one format, see below
    monkeypatch.setattr(plan, "WITHOUT_GPU", stages)
    output = tmp_path / "build" / "gpu.json"
    arguments = ["--seconds", f"{DURATION:g}", "--speech", str(SPEECH), "--output", str(output)]
    assert program.main(arguments) == 0
    written = {stage["name"]: stage for stage in json.loads(output.read_text())["stages"]}
    complete = [name for name, stage in written.items() if stage["state"] == COMPLETE]
    assert complete == [*(stage.name for stage in stages[:-1]), front_end.OUTLOOK]
    check_simulated(written["simulated engine, WAV"]["rows"]["wav"])
    assert written[front_end.OUTLOOK]["rows"]["wav"]["ends at"] > 0
    table = output.with_suffix(".md").read_text()
    assert "Missing: CTranslate2 finds no GPU." in table
    assert "many cores: left out: the machine has 2 cores" in table
    names = [line.split(" | ")[0] for line in table.splitlines()]
    assert {"| wav", "| reading and VAD", "| reading, VAD and chunks"} <= set(names)


@pytest.mark.parametrize("suffix", list(inputs.SUFFIXES.values())[1:])
def test_every_format_is_measured(tmp_path: Path, suffix: str) -> None:
    job = Job(tmp_path, 10.0, SPEECH)
    [(name, row), *_] = plan.simulated(suffix)(job)
    assert name == suffix[1:]
    check_simulated(row)


def test_spans_are_read_in_threads(tmp_path: Path) -> None:
    rows = dict(plan.spans(Job(tmp_path, 10.0, SPEECH)))
    assert list(rows) == [f"{count} threads" for count in front_end.THREADS]
    assert all(row["times real time"] > 1 for row in rows.values())


def test_the_same_stage_measures_another_version_of_the_package(tmp_path: Path) -> None:
    package, folder = tmp_path / "old", tmp_path / "job"
    (package / "whisperbatch").mkdir(parents=True)
    (package / "whisperbatch" / "__init__.py").write_text("raise SystemExit('of the old package')")
    folder.mkdir()
    some = plan.with_before(plan.WITHOUT_GPU, package)[:3]
    names = ["simulated engine, WAV", "simulated engine, WAV, before", "simulated engine, MP3"]
    assert [stage.name for stage in some] == names
    results = running.run_all(
        *(some[:2], Job(folder, 1.0), 1.0, tmp_path / "out.json"),
        missing={},
        about=ABOUT,
        command=[sys.executable, "-c", "import whisperbatch"],
    )
    assert [result.state for result in results] == [COMPLETE, "failed: of the old package"]


CHILD = """
import json, os, sys, time
values = dict(zip(sys.argv[1::2], sys.argv[2::2]))
name = values["--stage"]
with open(f"{values['--folder']}/{name}.json", "w") as file:
    json.dump({"first row": {"figure": 1.5}}, file)
if name == "fails":
    raise ValueError("no such kernel")
if name == "dies":
    os.abort()
if name == "hangs":
    time.sleep(60)
"""


def stages(*names: str, limit: float = 20.0, needs: tuple[str, ...] = ()) -> list[Stage]:
    return [Stage(name, limit, lambda _: iter(()), needs) for name in names]


def run(tmp_path: Path, all_stages: list[Stage], **keywords: Any) -> list[Result]:
    command = [sys.executable, "-c", CHILD]
    arguments = {"minutes": 1.0, "missing": {}, **keywords}
    output = tmp_path / "out.json"
    return running.run_all(
        *(all_stages, Job(tmp_path, 1.0)),
        output=output,
        about=ABOUT,
        command=command,
        **arguments,
    )


def test_a_stage_that_fails_or_hangs_or_dies_costs_only_itself(tmp_path: Path) -> None:
    some = [*stages("fails", "dies"), *stages("hangs", limit=0.7), *stages("works")]
    started = time.monotonic()
    results = run(tmp_path, some)
    assert time.monotonic() - started < 10
    assert [result.state for result in results] == [
        "failed: ValueError: no such kernel",
        "failed: the process ended with -6",
        "stopped after 0.7 s",
        COMPLETE,
    ]
    assert all(result.rows == {"first row": {"figure": 1.5}} for result in results)
    written = json.loads((tmp_path / "out.json").read_text())["stages"]
    assert [each["name"] for each in written] == ["fails", "dies", "hangs", "works"]
    table = report(results, ABOUT, {})
    assert table.count("| first row | 1.5 |") == 4
    assert "fails: failed: ValueError: no such kernel." in table


def test_figures_of_an_earlier_run_do_not_count(tmp_path: Path) -> None:
    (tmp_path / "absent.json").write_text('{"old": {"figure": 2}}')
    results = running.run_all(
        *(stages("absent"), Job(tmp_path, 1.0), 1.0, tmp_path / "out.json"),
        missing={},
        about=ABOUT,
        command=[sys.executable, "-c", "raise SystemExit(3)"],
    )
    assert results[0].rows == {}
    assert results[0].state == "failed: the process ended with 3"


def test_stages_without_time_or_without_their_parts_are_named(tmp_path: Path) -> None:
    missing = {"gpu": "libcublas.so.12 is not found"}
    some = [*stages("needs", needs=("gpu",)), *stages("works")]
    results = run(tmp_path, some, missing=missing)
    assert [result.state for result in results] == [f"left out: {missing['gpu']}", COMPLETE]
    assert f"Missing: {missing['gpu']}." in report(results, ABOUT, missing)
    assert run(tmp_path, stages("works"), minutes=0.0)[0].state == "left out: no time left"


def test_the_stages_of_a_gpu_fit_into_their_minutes() -> None:
    names = [stage.name for stage in (*plan.ON_GPU, *plan.WITHOUT_GPU)]
    assert len(set(names)) == len(names) - 4  # four are in both lists
    most_important = plan.ON_GPU[:4]
    assert sum(stage.limit for stage in most_important) <= 60 * 5
    assert all("gpu" in stage.needs for stage in plan.ON_GPU)


def test_missing_packages_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "find_spec", lambda _: None)
    monkeypatch.setattr(machine, "has_weights", lambda name: name == "base")
    monkeypatch.setattr(machine, "available_cpus", lambda: 8)
    assert machine.missing() == {
        "gpu": "the package ctranslate2 is not installed",
        "faster-whisper": "the package faster-whisper is not installed",
        "tiny.en": "the weights of tiny.en are not installed",
        "16 cores": "the machine has 8 cores",
    }


@pytest.mark.parametrize(
    "code", ["import os; os.abort()", "print('no JSON')", "import time; time.sleep(9)"]
)
def test_a_crash_while_looking_for_the_gpu_is_named(
    code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "INSPECTION", 0.5)
    missing, _ = machine.inspect([sys.executable, "-c", code])
    assert missing == {"gpu": "looking for the GPU ended the process"}


def test_cublas_13_is_linked_under_the_names_of_cublas_12(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "nvidia" / "cu13" / "lib"
    folder.mkdir(parents=True)
    monkeypatch.setenv("LD_LIBRARY_PATH", "/elsewhere")
    monkeypatch.setattr(machine, "package_folders", lambda: [tmp_path / "nvidia"])
    machine.link_cublas(tmp_path / "links")
    (folder / "libcublas.so.13").write_text("")
    machine.link_cublas(tmp_path / "links")
    assert not (tmp_path / "links").exists()
    for name in ("libcublas.so.13", "libcublasLt.so.13"):
        (folder / name).write_text(name)
    machine.link_cublas(tmp_path / "links")
    assert (tmp_path / "links" / "libcublas.so.12").read_text() == "libcublas.so.13"
    assert (tmp_path / "links" / "libcublasLt.so.12").read_text() == "libcublasLt.so.13"
    assert os.environ["LD_LIBRARY_PATH"] == f"{tmp_path / 'links'}:{folder}:/elsewhere"
    (folder / "libcublasLt.so.12").write_text("")
    machine.link_cublas(tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_the_use_of_the_gpu_is_sampled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    smi = tmp_path / "smi"
    smi.write_text("#!/bin/sh\necho '40, 1000'\necho '[N/A], 9'\necho '80, 3000'\nexec sleep 9\n")
    smi.chmod(0o755)
    monkeypatch.setattr(machine, "NVIDIA_SMI", str(smi))
    with machine.gpu_use() as use:
        end = time.monotonic() + 5
        while len(use.busy) < 2 and time.monotonic() < end:
            time.sleep(0.01)
    assert use.figures() == {"GPU %": 60.0, "GPU MB": 3000.0}
    monkeypatch.setattr(machine, "NVIDIA_SMI", str(tmp_path / "absent"))
    with machine.gpu_use() as use:
        pass
    assert use.figures() == {}


# ------------------------------------------------------------------------------ the folder to bring
def wheel(path: Path, content: str) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("package/data.txt", content)
        file.writestr("package/__init__.py", "")


def fake_download(size: int) -> Any:
    def download(target: Path, packages: object, python: object) -> None:
        wheel(target / "package-1-py3-none-any.whl", "word " * 1000)
        with (target / "large-1-py3-none-any.txt").open("wb") as file:
            file.truncate(size)

    return download


@pytest.fixture
def short_speech(monkeypatch: pytest.MonkeyPatch) -> None:
    speech = recordings.Recording("speech", np.zeros(16_000, np.int16), ())
    monkeypatch.setattr(recordings, "prompts", lambda *_: speech)


@pytest.mark.usefixtures("short_speech")
def test_a_folder_of_more_than_64_mib_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(pack, "download", fake_download(64 << 20))
    assert program.main(["--pack", str(tmp_path / "large")]) == 1
    error = capsys.readouterr().err
    assert "64.0 MiB, more than 64" in error
    assert "large-1-py3-none-any.txt" in error
    monkeypatch.setattr(pack, "download", fake_download(1 << 20))
    assert program.main(["--pack", str(tmp_path / "small")]) == 0
    assert program.main(["--pack", str(tmp_path / "small")]) == 1
    assert "is not empty" in capsys.readouterr().err


@pytest.mark.usefixtures("short_speech")
def test_what_is_packed_can_be_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pack, "download", fake_download(0))
    pack.pack(tmp_path / "folder")
    wheels.unpack(tmp_path / "folder", tmp_path / "site")
    assert (tmp_path / "site" / "package" / "data.txt").read_text() == "word " * 1000
    speech = wheels.speech_of(tmp_path / "folder")
    assert speech is not None
    assert len(clips.decode(speech)) == 16_000


@pytest.mark.usefixtures("short_speech")
def test_the_program_runs_again_with_the_packages_of_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pack, "download", fake_download(0))
    pack.pack(tmp_path / "folder")
    show = "import sys, os; from pathlib import Path; import package; "
    show += "Path(sys.argv[-1]).write_text(' '.join(sys.argv)); assert os.path.exists('Makefile')"
    monkeypatch.setattr(running, "PROGRAM", (sys.executable, "-c", show))
    speech = tmp_path / "folder" / "speech.flac"
    monkeypatch.chdir(ROOT)
    assert program.main(["--wheels", str(tmp_path / "folder"), "--minutes", "4"]) == 0
    found = speech.read_text()  # the last argument
    assert found == f"-c --minutes 4 --output build/gpu.json --seconds 3600 --speech {speech}"


def test_a_folder_without_wheels_or_with_damaged_ones_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert program.main(["--wheels", str(tmp_path)]) == 1
    assert "has no wheels" in capsys.readouterr().err
    (tmp_path / "wheels").mkdir()
    (tmp_path / "wheels" / "package-1-py3-none-any.whl").write_bytes(b"no zip")
    assert program.main(["--wheels", str(tmp_path)]) == 1
    assert "package-1-py3-none-any.whl" in capsys.readouterr().err


# ---------------------------------------------------------------------------- the simulated engine
def test_the_simulated_engine_takes_its_time_and_decodes_each_row_once() -> None:
    engine = LatencyEngine()
    with wb.Transcriber(engine) as asr:
        started = time.perf_counter()
        transcript = asr.transcribe(noise(60.0), vad=False, language="en")
        took = time.perf_counter() - started
    assert transcript.redecoded == 0
    assert sum(engine.batches) == transcript.chunks
    assert transcript.segments[-1].end > 58
    expected = sum(map(encoding, engine.batch_sizes["encode"])) + sum(map(decoding, engine.batches))
    assert expected <= engine.busy
    assert engine.idle_share(took) == pytest.approx(1 - engine.busy / (2 * took))


# -------------------------------------------------------------------------------------- the numbers
def test_the_share_under_the_lock_follows_from_the_speed_up() -> None:
    for serial in (0.0, 0.2, 0.7, 1.0):
        threads = front_end.speed_up(serial, 2)
        assert front_end.lock_share(threads, 2.0) == pytest.approx(serial)
    assert front_end.lock_share(0.9, 2.0) == 1.0  # two threads are slower than one
    assert front_end.lock_share(1.5, 1.4) == 0.0
    assert front_end.lock_share(1.0, 0.9) == 1.0  # another program has the second core


def test_the_lowest_limit_decides() -> None:
    simulated = {f"CPU {name}": 1.0 for name in simulation.COLUMNS}
    slow = front_end.outlook(simulated, {"share under the lock": 0.8})
    assert slow["one reader"] == 900
    assert slow["8 readers in threads"] == pytest.approx(900 / (0.8 + 0.2 / 8))
    assert slow["stage"] == "interpreter lock"
    assert slow["ends at"] == pytest.approx(3600 / (0.8 * 4 + 2))
    free = front_end.outlook(
        {**simulated, "CPU texts": 0.01, "CPU rest": 0.01}, {"share under the lock": 0.0}
    )
    assert free["stage"] == "engine with full calls"


class Worker:
    """Stages that run inside each other; one is a generator."""

    def inner(self) -> int:
        return spend(0.03)

    def outer(self) -> int:
        return self.inner() + spend(0.03)

    def items(self) -> Iterator[int]:
        yield self.inner()
        yield spend(0.03)


def spend(seconds: float) -> int:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass
    return 1


def test_the_time_of_inner_stages_counts_once() -> None:
    methods: list[stage_times.Method] = [
        (name, Worker, name, None) for name in ("inner", "outer", "items")
    ]
    with stage_times.timed_methods(methods) as times, ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda _: Worker().outer(), range(2)))
        assert sum(Worker().items()) == 2
    assert {name: found.calls for name, found in times.items()} == {
        "outer": 2,
        "inner": 3,
        "items": 1,
    }
    assert times["outer"].cpu == pytest.approx(0.12, abs=0.03)
    assert times["outer"].own == pytest.approx(0.06, abs=0.02)
    assert times["inner"].own == pytest.approx(0.09, abs=0.02)
    assert times["items"].own == pytest.approx(0.03, abs=0.02)
    assert Worker.inner.__name__ == "inner"
    assert not hasattr(Worker.inner, "__wrapped__")
