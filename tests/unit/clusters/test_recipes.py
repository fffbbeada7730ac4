"""The recipes for clusters: their commands, and the engines that run them."""

import os
import re
import runpy
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import whisperbatch as wb
from tests.unit.clusters.cluster_commands import NAMES, RECIPES, command_of, recipe, write_programs
from tests.unit.fakes import FakeEngine, noise
from tests.unit.jobs.planned_jobs import write_plan
from tests.unit.media_files import encode


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A folder of programs; `whisperbatch` prints its arguments."""
    folder = tmp_path / "bin"
    write_programs(folder, "printf '%s\\n'")
    return folder


def run(
    arguments: list[str], environment: dict[str, str], programs: Path
) -> subprocess.CompletedProcess[str]:
    path = f"{programs}:{os.environ['PATH']}"
    return subprocess.run(
        arguments, env={"PATH": path, **environment}, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("plan", ["s3://jobs/talks.plan", "/data/my talks.plan"])
@pytest.mark.parametrize("cluster", NAMES)
def test_each_shard_has_its_number(cluster: str, plan: str, programs: Path) -> None:
    command = command_of(cluster, plan, 7, 20)
    done = run(command.arguments, command.environment, programs)
    assert done.stdout.splitlines() == ["work", plan, "--shard", "7/20"]
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("cluster", NAMES)
def test_the_status_of_the_worker_is_that_of_the_command(cluster: str, tmp_path: Path) -> None:
    write_programs(tmp_path / "failing", "false")
    command = command_of(cluster, "a.plan", 0, 1)
    assert run(command.arguments, command.environment, tmp_path / "failing").returncode == 1


def test_slurm_has_a_shard_for_each_task_of_the_array(programs: Path) -> None:
    script = (RECIPES / "slurm.sh").read_text()
    match = re.search(r"^#SBATCH --array=0-(\d+)%\d+$", script, re.MULTILINE)
    assert match
    command = command_of("slurm", "a.plan", int(match[1]), 0)
    environment = {"SLURM_ARRAY_TASK_ID": match[1], "SLURM_CPUS_PER_TASK": "4"}
    done = run(command.arguments, environment, programs)
    number, _, count = done.stdout.splitlines()[-1].partition("/")
    assert int(number) == int(count) - 1


def test_slurm_needs_a_plan(programs: Path) -> None:
    done = run(["bash", str(RECIPES / "slurm.sh")], {"SLURM_ARRAY_TASK_ID": "0"}, programs)
    assert done.returncode != 0
    assert "give the plan: sbatch slurm.sh PLAN" in done.stderr
    assert done.stdout == ""


def test_kubernetes_has_a_shard_for_each_index_and_runs_none_twice() -> None:
    job = recipe("kubernetes")
    assert (job["apiVersion"], job["kind"]) == ("batch/v1", "Job")
    spec = job["spec"]
    assert spec["completionMode"] == "Indexed"
    (container,) = spec["template"]["spec"]["containers"]
    variables = {item["name"]: item["value"] for item in container["env"]}
    assert int(variables["SHARDS"]) == spec["completions"] > spec["parallelism"]
    # the API server refuses backoffLimitPerIndex with another restart policy
    assert spec["template"]["spec"]["restartPolicy"] == "Never"
    assert spec["podReplacementPolicy"] == "Failed"
    # without a limit, a worker starts a thread for each core of the machine
    resources = container["resources"]
    assert resources["limits"]["cpu"] == resources["requests"]["cpu"]


class FakeApp:
    """An app of Modal that runs its function here, one call after the other."""

    def __init__(self, name: str, image: object) -> None:
        self.options: dict[str, Any] = {}

    def function(self, **options: Any) -> Any:
        self.options = options

        def decorated(function: Any) -> Any:
            def starmap(calls: Iterable[tuple[Any, ...]], *, return_exceptions: bool) -> Any:
                assert return_exceptions
                for call in calls:
                    try:
                        yield function(*call)
                    except subprocess.CalledProcessError as error:
                        yield error

            return SimpleNamespace(starmap=starmap)

        return decorated

    def local_entrypoint(self) -> Any:
        return lambda function: function


class FakeImage:
    """An image of Modal: each step returns an image."""

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: self


def test_modal_runs_all_shards_and_names_those_that_fail(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    modal = ModuleType("modal")
    modal.__dict__.update(App=FakeApp, Image=FakeImage(), Secret=FakeImage())
    monkeypatch.setitem(sys.modules, "modal", modal)
    commands: list[list[str]] = []

    def fake_run(command: list[str], *, check: bool) -> None:
        commands.append(command)
        if command[-1] == "2/4" and check:
            raise subprocess.CalledProcessError(1, command)

    program = runpy.run_path(str(RECIPES / "modal_app.py"))
    monkeypatch.setattr(subprocess, "run", fake_run)
    program["main"]("s3://jobs/talks.plan", 4)
    assert [command[-1] for command in commands] == ["0/4", "1/4", "2/4", "3/4"]
    assert commands[0][:-1] == ["whisperbatch", "work", "s3://jobs/talks.plan", "--shard"]
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("shard 2: ")
    assert program["app"].options["retries"] > 0


PAGES = {
    "slurm.sh": "slurm.md",
    "kubernetes.yaml": "kubernetes.md",
    "skypilot.yaml": "skypilot.md",
    "modal_app.py": "modal.md",
    "spark_plan.py": "spark.md",
    "daft_files.py": "daft.md",
}


def test_the_pages_show_the_recipes() -> None:
    assert {path.name for path in RECIPES.iterdir() if path.is_file()} == set(PAGES)
    for name, page in PAGES.items():
        text = (RECIPES.parents[1] / "docs/how-to" / page).read_text()
        assert f"\n{(RECIPES / name).read_text()}```\n" in text, f"{page} has another {name}"


@pytest.fixture
def talks(tmp_path: Path) -> Path:
    """Four recordings."""
    folder = tmp_path / "talks"
    folder.mkdir()
    for number in range(4):
        data = encode([noise(6, seed=number)], "wav", "pcm_s16le", rate=16000)
        (folder / f"{number}.wav").write_bytes(data)
    return folder


@pytest.fixture(autouse=True)
def loaded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The models that were loaded; all of them are fakes."""
    names: list[str] = []

    def load(model: str) -> wb.Transcriber:
        names.append(model)
        return wb.Transcriber(FakeEngine())

    monkeypatch.setattr(wb, "load", load)
    return names


def install(monkeypatch: pytest.MonkeyPatch, **modules: dict[str, Any]) -> None:
    for name, content in modules.items():
        module = ModuleType(name)
        module.__dict__.update(content)
        monkeypatch.setitem(sys.modules, name.replace("__", "."), module)


class FakeSpark:
    """A session that runs `mapInPandas` here. A data frame of pandas is a list of rows."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self.settings: dict[str, str] = {}
        self.schema = ""

    def config(self, name: str, value: str) -> "FakeSpark":
        self.settings[name] = value
        return self

    def getOrCreate(self) -> "FakeSpark":  # noqa: N802 - Spark's name
        return self

    def range(self, start: int, end: int, step: int, *, numPartitions: int) -> Any:  # noqa: N803
        assert numPartitions == end

        def map_in_pandas(function: Callable[..., Iterator[Any]], schema: str) -> Any:
            self.schema = schema
            for number in range(start, end, step):
                for frame in function(iter([{"id": [number]}])):
                    self.rows += frame
            return SimpleNamespace(collect=lambda: [SimpleNamespace(**row) for row in self.rows])

        return SimpleNamespace(mapInPandas=map_in_pandas)


def run_spark(monkeypatch: pytest.MonkeyPatch, plan: Path, shards: int) -> FakeSpark:
    spark = FakeSpark()
    install(
        monkeypatch,
        pandas={"DataFrame": list},
        pyspark={},
        pyspark__sql={"SparkSession": SimpleNamespace(builder=spark)},
    )
    monkeypatch.setattr(sys, "argv", ["spark_plan.py", str(plan), "fake", str(shards)])
    runpy.run_path(str(RECIPES / "spark_plan.py"))
    return spark


def test_spark_transcribes_every_shard(
    talks: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    loaded: list[str],
) -> None:
    plan = tmp_path / "talks.plan"
    write_plan(plan, [talks], 6.0)
    spark = run_spark(monkeypatch, plan, 2)
    assert [(row["shard"], row["transcribed"], row["error"]) for row in spark.rows] == [
        (0, 2, ""),
        (1, 2, ""),
    ]
    assert [name.split()[0] for name in spark.schema.split(", ")] == list(spark.rows[0])
    assert spark.settings["spark.speculation"] == "false"
    assert wb.jobs.status(plan).transcribed == 4
    assert loaded == ["fake", "fake"]
    assert capsys.readouterr().out == ""


def test_an_error_of_a_shard_is_a_row_of_spark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    spark = run_spark(monkeypatch, tmp_path / "no.plan", 2)
    assert ["there is no such plan" in row["error"] for row in spark.rows] == [True, True]
    assert capsys.readouterr().out.count("there is no such plan") == 2


class Column(list[Any]):
    """A column of rows."""

    def alias(self, _: str) -> "Column":
        return self

    def unnest(self) -> "Column":
        return self


class FakeDaft:
    """A frame of files, and the functions of Daft that the recipe calls."""

    def __init__(self, files: list[Path]) -> None:
        self.files = files
        self.rows = Column()
        self.output = ""
        self.module = {
            "DataType": SimpleNamespace(struct=lambda fields: fields, string=lambda: "string"),
            "Series": object,
            "cls": lambda **_: lambda kind: kind,
            "method": SimpleNamespace(batch=self.batch),
            "from_glob_path": lambda _: self,
            "functions": SimpleNamespace(file=lambda _: self),
        }

    def batch(self, *, return_dtype: dict[str, str], batch_size: int) -> Any:
        def decorated(function: Any) -> Any:
            return lambda model, files: Column(function(model, files))

        self.fields = set(return_dtype)
        return decorated

    def to_pylist(self) -> list[Any]:
        return [SimpleNamespace(open=lambda file=file: file.open("rb")) for file in self.files]

    def __getitem__(self, name: str) -> "FakeDaft":
        return self

    def select(self, _: str, *columns: Column) -> "FakeDaft":
        self.rows = columns[0] if columns else self.rows
        return self

    def write_parquet(self, output: str) -> None:
        self.output = output


def test_daft_has_a_row_for_each_file_and_error(
    talks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (talks / "broken.wav").write_bytes(b"no media")
    daft = FakeDaft([talks / "0-deleted.wav", *sorted(talks.iterdir())])
    install(monkeypatch, daft=daft.module)
    monkeypatch.setattr(sys, "argv", ["daft_files.py", "*.wav", "fake", "out.parquet"])
    runpy.run_path(str(RECIPES / "daft_files.py"))
    assert daft.output == "out.parquet"
    assert [row["error"] is None for row in daft.rows] == [False, True, True, True, True, False]
    assert "No such file" in daft.rows[0]["error"]
    assert "is not media" in daft.rows[-1]["error"]
    assert [set(row) for row in daft.rows] == [daft.fields] * 6
