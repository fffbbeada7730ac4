"""`transcribe`: a plan, or a dataset with URIs, becomes a dataset with text."""

import inspect
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, Final, cast

from whisperbatch import load
from whisperbatch.engines.settings import settings_of
from whisperbatch.errors import MissingExtraError, OptionError
from whisperbatch.jobs import (
    PlanFiles,
    Results,
    Task,
    absolute,
    check_machine_keywords,
    options_of,
    task_to_line,
)
from whisperbatch.options import Options, checks, plain, resolve
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

if TYPE_CHECKING:
    import pyarrow as pa
    from ray.data import Dataset

    from whisperbatch.ray.actors import TaskSettings

LOAD: Final = inspect.signature(load).parameters
TASKS_PER_CALL: Final = 4
TASKS_PER_READ: Final = 16  # of tasks that are complete
RECORDINGS_PER_CALL: Final = 16
GPU_FACTOR: Final = 4  # a GPU needs more audio at a time to be busy
MIN_CALLS: Final = 8  # of a small plan, so that several actors have work


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


def transcribe(
    source: "str | PathLike[str] | Dataset",
    *,
    model: str | PathLike[str] | None = None,
    options: Options | None = None,
    batch_size: int | None = None,
    rows_per_call: int | None = None,
    min_actors: int = 1,
    max_actors: int | None = None,
    num_cpus: float = 1,
    num_gpus: float = 0,
    memory: float = MEMORY,
    remote_args: Mapping[str, Any] | None = None,
    **keywords: Any,  # noqa: ANN401 - options, and keywords of `load`
) -> "Dataset":
    """Return a dataset that is transcribed by a pool of Ray actors when it is read or written.

    Args:
        source: path or URL of a plan, which all machines can read and write beside; or a dataset
            with a column `uri` (absolute paths and URLs), and optionally `id` and `language`. A
            plan gives a row for each of its spans, and for each recording that could not be probed;
            spans with a result are not transcribed again. A dataset gives a row for each recording.
        model: for a dataset: as in `load`; None for "base". A plan has its model.
        options: for a dataset: all options in one value. A plan has its options.
        batch_size: number of chunks decoded at a time; None chooses it for the device.
        rows_per_call: number of tasks of the plan, or of recordings, that an actor gets at a time.
            More rows keep a GPU busier; fewer rows share the work better at the end. None chooses
            up to 4 tasks (fewer for a small plan), or 16 recordings; four times as many with a GPU.
        min_actors: number of actors from the start.
        max_actors: None for as many as the cluster has room for.
        num_cpus: CPUs of each actor. Without a GPU, the model computes with this many threads.
        num_gpus: GPUs of each actor; a fraction shares a GPU.
        memory: bytes of memory of each actor, which Ray reserves on its machine.
        remote_args: further keywords of `map_batches`: `resources`, `label_selector`, ...
        **keywords: for a plan, the keywords of `load` that do not change the text; for a dataset,
            any keyword of `load` and any field of `Options`.

    Returns:
        A dataset with the columns `id`, `uri`, `start`, `end` (seconds), `text`, `segments`,
        `language` and `error`. A recording or span that fails is a row with an `error`.

    Raises:
        OptionError: there is no such plan, or an argument is wrong.
        MissingExtraError: Ray, or the package for a kind of URL, is not installed.
        WriteError: the store of the plan cannot be read.
    """
    is_dataset = isinstance(source, _dataset_class())
    pool = Pool(
        min_actors=min_actors,
        max_actors=max_actors,
        num_cpus=num_cpus,
        num_gpus=num_gpus,
        memory=memory,
        rows_per_call=rows_per_call,
        remote_args={} if remote_args is None else remote_args,
    )
    if is_dataset:
        keywords |= {} if batch_size is None else {"batch_size": batch_size}
        return _from_dataset(cast("Dataset", source), pool, model, options, keywords)
    return _from_plan(_plan_of(source, model=model, options=options), pool, batch_size, keywords)


def _plan_of(source: object, **not_of_plans: object) -> str:
    """Return the path or URL of a plan, whose settings cannot be given again."""
    if not isinstance(source, str | PathLike):
        raise OptionError(f"{shown(source)} is neither a plan nor a dataset of Ray")
    for name, value in not_of_plans.items():
        if value is not None:
            raise OptionError(f"{name} belongs to the plan; leave it out")
    return absolute(fspath(source))


def _dataset_class() -> type:
    """Return Ray's class of datasets.

    Raises:
        MissingExtraError: Ray is not installed, or lacks packages of `ray[data]`.
    """
    try:
        from ray.data import Dataset  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise MissingExtraError(
            f'Ray needs {error.name or "a package"}: pip install "whisperbatch[ray]"'
        ) from error
    found: type = Dataset
    return found


def _from_plan(
    plan: str, pool: Pool, batch_size: int | None, keywords: Mapping[str, Any]
) -> "Dataset":
    """Return the dataset of a plan: spans to transcribe, results to read, and failed recordings."""
    check_machine_keywords(keywords)
    files = PlanFiles.at(plan)
    read = files.read()
    header = read.header
    machine = pool.machine_keywords(keywords, header.load.get("engine", "auto"))
    settings_of({**header.load, **machine}).check(options_of(header, batch_size).search)
    from ray.data import from_arrow  # noqa: PLC0415 - an extra

    from whisperbatch.ray.actors import (  # noqa: PLC0415 - need the extra
        TaskSettings,
        table,
        unreadable_row,
    )

    done = Results(files.work).ids()
    complete: list[Task] = []
    remaining: list[Task] = []
    for task in read.tasks:
        is_done = all(span.id in done for span in task.spans)
        (complete if is_done else remaining).append(task)
    parts = []
    if remaining:
        settings = TaskSettings(plan, header, batch_size, machine)
        parts.append(_transcribed(remaining, settings, pool))
    if complete:
        parts.append(_stored(complete, plan))
    if read.failures:
        parts.append(from_arrow(table(*map(unreadable_row, read.failures))))
    return parts[0].union(*parts[1:]) if len(parts) > 1 else parts[0]


def _transcribed(tasks: Sequence[Task], settings: "TaskSettings", pool: Pool) -> "Dataset":
    """Return the rows of tasks that actors transcribe."""
    from ray.data import from_arrow  # noqa: PLC0415 - an extra

    from whisperbatch.ray.actors import TaskActor  # noqa: PLC0415 - needs the extra

    rows = pool.rows_per_call or tasks_per_call(len(tasks), with_gpu=bool(pool.num_gpus))
    return from_arrow(_blocks(tasks, rows)).map_batches(
        TaskActor, fn_constructor_args=(settings,), **pool.arguments(rows)
    )


def _stored(tasks: Sequence[Task], plan: str) -> "Dataset":
    """Return the rows of tasks whose spans all have results; no model is loaded."""
    from ray.data import from_arrow  # noqa: PLC0415 - an extra

    from whisperbatch.ray.actors import stored_tables  # noqa: PLC0415 - needs the extra

    return from_arrow(_blocks(tasks, TASKS_PER_READ)).map_batches(
        stored_tables,
        fn_kwargs={"plan": plan},
        batch_size=TASKS_PER_READ,
        batch_format="pyarrow",
    )


def _from_dataset(
    dataset: "Dataset",
    pool: Pool,
    model: str | PathLike[str] | None,
    options: Options | None,
    keywords: Mapping[str, Any],
) -> "Dataset":
    given = {name: value for name, value in keywords.items() if name in LOAD}
    own = {name: value for name, value in keywords.items() if name not in LOAD}
    resolved = resolve(options, **own)
    settings = pool.machine_keywords(given, given.get("engine", "auto"))
    settings_of(settings).check(resolved.search)
    schema = dataset.schema(fetch_if_missing=False)
    if schema and "uri" not in schema.names:
        raise OptionError(f"the dataset has no column uri; its columns: {', '.join(schema.names)}")
    from whisperbatch.ray.actors import (  # noqa: PLC0415 - need the extra
        RecordingActor,
        RecordingSettings,
    )

    rows = pool.rows_per_call or RECORDINGS_PER_CALL * (GPU_FACTOR if pool.num_gpus else 1)
    name = LOAD["model"].default if model is None else model
    return dataset.repartition(target_num_rows_per_block=rows, strict=True).map_batches(
        RecordingActor,
        fn_constructor_args=(RecordingSettings(name, resolved, settings),),
        **pool.arguments(rows),
    )


def tasks_per_call(tasks: int, *, with_gpu: bool) -> int:
    """Return how many tasks an actor gets at a time, of a plan with this many tasks."""
    limit = TASKS_PER_CALL * (GPU_FACTOR if with_gpu else 1)
    return max(min(limit, tasks // MIN_CALLS), 1)


def _blocks(tasks: Sequence[Task], rows: int) -> "list[pa.Table]":
    """Return tables with the lines of this many tasks: Ray gives each to an actor."""
    import pyarrow as pa  # noqa: PLC0415 - an extra

    lines = [task_to_line(task) for task in tasks]
    return [
        pa.table({"task": pa.array(lines[start : start + rows], pa.string())})
        for start in range(0, len(lines), rows)
    ]
