"""The recipes for Spark and Daft, with a fake of these engines and a fake model."""

import runpy
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import whisperbatch as wb
from tests.unit.clusters.cluster_commands import RECIPES
from tests.unit.fakes import FakeEngine, noise
from tests.unit.jobs.planned_jobs import write_plan
from tests.unit.media_files import encode


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
