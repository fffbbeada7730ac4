"""The recipes that start `whisperbatch work`: the command of each shard."""

import os
import re
import runpy
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tests.unit.clusters.cluster_commands import (
    NAMES,
    RECIPES,
    command_of,
    recipe,
    write_programs,
)


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
