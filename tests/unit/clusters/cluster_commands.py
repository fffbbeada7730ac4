"""The commands of the recipes for clusters, with the environment that the cluster gives them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml  # huggingface-hub needs it

RECIPES = Path(__file__).parents[3] / "examples/clusters"
NAMES = ("slurm", "kubernetes", "skypilot")


@dataclass(frozen=True)
class ClusterCommand:
    """What a cluster runs for one shard.

    Attributes:
        arguments: of the process.
        environment: variables that the cluster sets, and those of the recipe.
    """

    arguments: list[str]
    environment: dict[str, str]


def recipe(name: str) -> Any:
    """Return the content of a YAML file."""
    return yaml.safe_load((RECIPES / f"{name}.yaml").read_text())


def command_of(cluster: str, plan: str, shard: int, shards: int) -> ClusterCommand:
    """Return what a cluster runs for a shard of a plan."""
    if cluster == "slurm":
        variables = {
            "SLURM_ARRAY_TASK_ID": str(shard),
            "SLURM_CPUS_PER_TASK": "4",
            "SHARDS": str(shards),
        }
        return ClusterCommand(["bash", str(RECIPES / "slurm.sh"), plan], variables)
    if cluster == "kubernetes":
        container = recipe("kubernetes")["spec"]["template"]["spec"]["containers"][0]
        given = {item["name"]: item["value"] for item in container["env"]}
        variables = {"PLAN": plan, "SHARDS": str(shards), "JOB_COMPLETION_INDEX": str(shard)}
        assert set(given) <= set(variables)
        return ClusterCommand(container["command"], variables)
    ranks = {"SKYPILOT_JOB_RANK": str(shard), "SKYPILOT_NUM_JOBS": str(shards)}
    task = recipe("skypilot")
    assert set(task["envs"]) == {"PLAN"}
    return ClusterCommand(["bash", "-c", task["run"]], {"PLAN": plan, **ranks})


def write_programs(folder: Path, whisperbatch: str) -> None:
    """Write the programs that the commands start.

    Args:
        folder: of the programs.
        whisperbatch: the command that stands for `whisperbatch`.
    """
    folder.mkdir()
    # srun does not take the CPUs from sbatch
    srun = '[ "$1" = --cpus-per-task=4 ] || exit 9; shift; exec "$@"'
    for name, line in {"srun": srun, "whisperbatch": f'exec {whisperbatch} "$@"'}.items():
        program = folder / name
        program.write_text(f"#!/bin/sh\n{line}\n")
        program.chmod(0o755)
