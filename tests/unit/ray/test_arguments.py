"""Wrong arguments fail before Ray starts; only the last test needs packages of Ray."""

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tests.unit.fakes import write_noise
from tests.unit.jobs.planned_jobs import write_plan
from whisperbatch import MissingExtraError, OptionError, Options
from whisperbatch.ray import transcribe
from whisperbatch.ray.datasets import Pool, tasks_per_call


class FakeDataset:
    """A dataset that has columns, and is never read."""

    def __init__(self, *columns: str) -> None:
        self._columns = columns

    def schema(self, *, fetch_if_missing: bool) -> Any:
        return SimpleNamespace(names=list(self._columns)) if self._columns else None


@pytest.fixture
def _no_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a module in place of `ray.data` that has nothing but a class."""
    data = ModuleType("ray.data")
    data.Dataset = FakeDataset  # type: ignore[attr-defined]
    data.from_arrow = None  # type: ignore[attr-defined]
    ray = ModuleType("ray")
    ray.data = data  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "ray", ray)
    monkeypatch.setitem(sys.modules, "ray.data", data)


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    write_plan(tmp_path / "talks.plan", [write_noise(tmp_path / "a.wav", 2.0)])
    return tmp_path / "talks.plan"


def test_ray_is_not_installed(monkeypatch: pytest.MonkeyPatch, plan: Path) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match=r'pip install "whisperbatch\[ray\]"'):
        transcribe(plan)


POOL_ERRORS: Any = [
    ({"min_actors": 0}, "min_actors"),
    ({"min_actors": 3, "max_actors": 2}, "max_actors"),
    ({"num_cpus": -1}, "num_cpus"),
    ({"num_gpus": "1"}, "num_gpus"),
    ({"memory": 0}, "memory"),
    ({"rows_per_call": 0}, "rows_per_call"),
    ({"remote_args": {"batch_size": 4}}, "remote_args: 'batch_size' is none of"),
    ({"remote_args": "worker"}, "remote_args"),
    ({"device": "cuda"}, "give num_gpus=1"),
    ({"device": "cpu", "num_gpus": 1}, "num_gpus has no effect"),
    ({"device": "tpu"}, "device"),
    ({"intra_threads": -1}, "intra_threads"),
    ({"batch_size": 0}, "batch_size"),
]


@pytest.mark.usefixtures("_no_start")
@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        *POOL_ERRORS,
        ({"model": "base"}, "model belongs to the plan"),
        ({"options": Options()}, "options belongs to the plan"),
        ({"beam_size": 1}, "beam_size changes the text"),
        ({"engine": "torch"}, "engine changes the text"),
    ],
)
def test_wrong_arguments_with_a_plan(plan: Path, keywords: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        transcribe(plan, **keywords)


@pytest.mark.usefixtures("_no_start")
@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        *POOL_ERRORS,
        ({"beam_sise": 1}, "beam_sise is not an option"),
        ({"beam_size": 0}, "beam_size"),
        ({"engine": "other"}, "engine"),
        ({"options": {}}, "options must be an Options value"),
        ({"engine": "torch", "inter_threads": 2}, "inter_threads"),
    ],
)
def test_wrong_arguments_with_a_dataset(keywords: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        transcribe(FakeDataset("uri"), **keywords)


@pytest.mark.usefixtures("_no_start")
def test_wrong_sources(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="there is no such plan"):
        transcribe(tmp_path / "other.plan")
    with pytest.raises(OptionError, match="has no column uri; its columns: path, language"):
        transcribe(FakeDataset("path", "language"))
    with pytest.raises(OptionError, match="neither a plan nor a dataset"):
        transcribe(["a.mp3"])


def test_an_actor_uses_the_device_and_the_threads_that_it_has() -> None:
    pool = Pool(num_cpus=4)
    assert pool.machine_keywords({}, "auto") == {"device": "cpu", "intra_threads": 4}
    given = {"inter_threads": 2}
    assert pool.machine_keywords(given, "openvino") == {
        **given,
        "device": "cpu",
        "intra_threads": 2,
    }
    assert pool.machine_keywords({"intra_threads": 3}, "auto")["intra_threads"] == 3
    assert pool.machine_keywords({}, "torch") == {"device": "cpu"}
    assert Pool(num_cpus=0.5).machine_keywords({}, "auto")["intra_threads"] == 1
    assert Pool(num_gpus=0.5).machine_keywords({}, "auto") == {"device": "cuda"}


@pytest.mark.parametrize(
    ("tasks", "with_gpu", "expected"),
    [(1, False, 1), (15, False, 1), (32, False, 4), (9999, False, 4), (9999, True, 16)],
)
def test_a_small_plan_has_work_for_several_actors(
    tasks: int, *, with_gpu: bool, expected: int
) -> None:
    assert tasks_per_call(tasks, with_gpu=with_gpu) == expected
