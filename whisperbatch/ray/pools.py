"""The actors that transcribe: how many there are, and what each of them needs."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from whisperbatch.errors import OptionError
from whisperbatch.options import checks, plain
from whisperbatch.text import shown

MEMORY: Final = 4 * 2**30  # bytes: base takes below 2 GiB; large models need more
TASKS_IN_FLIGHT: Final = 2  # calls of an actor: one that runs, and one that waits
MAX_ACTORS: Final = 100_000
MAX_ROWS: Final = 10_000
MAX_MEMORY: Final = 2**50

REMOTE_ARGS: Final = (
    *("accelerator_type", "fallback_strategy", "label_selector", "max_restarts"),
    *("max_task_retries", "resources", "runtime_env", "scheduling_strategy"),
)
"""The keywords of `map_batches` that a caller may give; the others are arguments or fixed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """An autoscaling pool of actors.

    Attributes:
        min_actors: number of actors from the start.
        max_actors: None for as many as the cluster has room for.
        num_cpus: CPUs of each actor.
        num_gpus: GPUs of each actor; a fraction shares a GPU.
        memory: bytes of each actor, which Ray reserves.
        rows_per_call: number of input rows that an actor gets at a time; None chooses it.
        remote_args: further keywords of `map_batches`.

    Raises:
        OptionError: a value is wrong.
    """

    min_actors: int = 1
    max_actors: int | None = None
    num_cpus: float = 1
    num_gpus: float = 0
    memory: float = MEMORY
    rows_per_call: int | None = None
    remote_args: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        checks.integer("min_actors", plain(self.min_actors), minimum=1, maximum=MAX_ACTORS)
        if self.max_actors is not None:
            checks.integer(
                "max_actors", plain(self.max_actors), minimum=self.min_actors, maximum=MAX_ACTORS
            )
        checks.number("num_cpus", plain(self.num_cpus), minimum=0, maximum=1024)
        checks.number("num_gpus", plain(self.num_gpus), minimum=0, maximum=1024)
        checks.number("memory", plain(self.memory), minimum=1, maximum=MAX_MEMORY)
        if self.rows_per_call is not None:
            checks.integer("rows_per_call", plain(self.rows_per_call), minimum=1, maximum=MAX_ROWS)
        if not isinstance(self.remote_args, Mapping):
            raise OptionError(f"remote_args={shown(self.remote_args)} must be a mapping")
        for name in self.remote_args:
            if name not in REMOTE_ARGS:
                raise OptionError(f"remote_args: {shown(name)} is none of {', '.join(REMOTE_ARGS)}")

    def machine_keywords(self, load: Mapping[str, Any], engine: object) -> dict[str, Any]:
        """Return the keywords of `load`, with the device and the threads that an actor may use.

        Without these, an actor on a machine with 16 cores starts 16 threads, whatever Ray has
        given to it, and the actors of the machine hinder each other.

        Args:
            load: keywords that the caller has given.
            engine: of the model: a name, or a settings object, which has all settings.

        Raises:
            OptionError: the device is not what `num_gpus` says.
        """
        keywords = dict(load)
        device = keywords.get("device", "auto")
        if device == "cuda" and not self.num_gpus:
            raise OptionError("device='cuda' needs a GPU for each actor; give num_gpus=1")
        if device == "cpu" and self.num_gpus:
            raise OptionError("num_gpus has no effect with device='cpu'; leave it out")
        if self.num_gpus:
            return {**keywords, "device": "cuda"}
        if device == "auto":
            keywords["device"] = "cpu"
        if (
            engine in {"auto", "ctranslate2", "onnxruntime", "openvino"}
            and "intra_threads" not in keywords
        ):
            batches = keywords.get("inter_threads") or 1
            keywords["intra_threads"] = max(math.floor(self.num_cpus) // batches, 1)
        return keywords

    def arguments(self, rows_per_call: int) -> dict[str, Any]:
        """Return the keywords of `map_batches`."""
        from ray.data import ActorPoolStrategy  # noqa: PLC0415 - an extra

        return {
            "batch_size": rows_per_call,
            "batch_format": "pyarrow",
            "compute": ActorPoolStrategy(
                min_size=self.min_actors,
                max_size=self.max_actors,
                max_tasks_in_flight_per_actor=TASKS_IN_FLIGHT,
            ),
            "num_cpus": self.num_cpus,
            "num_gpus": self.num_gpus or None,
            "memory": self.memory,
            **self.remote_args,
        }
