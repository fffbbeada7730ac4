"""What runs on the cluster. Ray makes one object of an actor class in each actor process.

TaskActor           rows of tasks        loads the model; results go to the work folder of the plan
RecordingActor      rows of recordings   loads the model; results are only in the output
stored_tables       rows of tasks        reads results that exist; needs no model

The result has a row for each span of a plan, or for each recording of a dataset.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from os import PathLike
from typing import Any, Final, get_args, get_origin, get_type_hints

import pyarrow as pa

from whisperbatch import OptionError, Options, Transcriber, load
from whisperbatch.addresses import without_secrets
from whisperbatch.jobs import (
    Header,
    Recording,
    RecordingWorker,
    SpanOutcome,
    TaskWorker,
    load_model,
    read_outcomes,
    task_from_line,
)
from whisperbatch.types import Segment, to_values

_TYPES: Final = {int: pa.int64(), float: pa.float64(), str: pa.string(), bool: pa.bool_()}

GROUP: Final = "ray"
"""The group of the leases: Ray gives a task to one actor, and to another after the first died."""

TASK: Final = "task"
"""The column with the line of a task, as in the plan."""


URI: Final = "uri"
"""The column with the path or URL of a recording."""


def arrow_type(hint: Any) -> pa.DataType:  # noqa: ANN401 - a type, or a form of `typing`
    """Return Arrow's type for a dataclass, a tuple of one type, or a plain type, or None."""
    if is_dataclass(hint):
        hints = get_type_hints(hint)
        return pa.struct([(field.name, arrow_type(hints[field.name])) for field in fields(hint)])
    if inner := [each for each in get_args(hint) if each not in (type(None), Ellipsis)]:
        found = arrow_type(inner[0])
        return pa.list_(found) if get_origin(hint) is tuple else found
    return _TYPES[hint]


SCHEMA: Final = pa.schema(
    {
        "id": pa.string(),
        "uri": pa.string(),
        "start": pa.float64(),
        "end": pa.float64(),
        "text": pa.string(),
        "segments": pa.list_(arrow_type(Segment)),
        "language": pa.string(),
        "error": pa.string(),
    }.items()
)
"""Arrow cannot infer these types from rows without segments, words or errors."""


def span_row(outcome: SpanOutcome) -> dict[str, Any]:
    """Return the row of a span of a plan."""
    return {**_row(outcome), "start": outcome.start, "end": outcome.end}


def recording_row(outcome: SpanOutcome) -> dict[str, Any]:
    """Return the row of a whole recording, whose duration is known after it was read."""
    end = outcome.end if outcome.transcript else None
    return {**_row(outcome), "start": 0.0, "end": end}


def unreadable_row(recording: Recording) -> dict[str, Any]:
    """Return the row of a recording that could not be probed when the plan was made."""
    failure = recording.failure
    error = failure and f"{failure.kind}: {failure.message}"
    return {"id": recording.id, "uri": recording.name, "error": error}


def table(*rows: Mapping[str, Any]) -> pa.Table:
    """Return rows as a table; values that are missing are null."""
    return pa.Table.from_pylist(list(rows), schema=SCHEMA)


def _row(outcome: SpanOutcome) -> dict[str, Any]:
    transcript, failure = outcome.transcript, outcome.failure
    return {
        "id": outcome.span.id,
        "uri": outcome.span.name,
        "text": transcript and transcript.text,
        "segments": transcript and to_values(transcript.segments),
        "language": transcript and transcript.language,
        "error": failure and f"{failure.kind}: {failure.message}",
    }


@dataclass(frozen=True, slots=True)
class TaskSettings:
    """What an actor must know of a plan.

    Attributes:
        plan: absolute path or URL.
        header: of the plan.
        batch_size: number of chunks decoded at a time; None chooses it for the device.
        load: keywords of `load` that do not change the text.
    """

    plan: str
    header: Header
    batch_size: int | None
    load: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class RecordingSettings:
    """What an actor must know to transcribe whole recordings.

    Attributes:
        model: as in `load`.
        options: of the transcription.
        load: keywords of `load`.
    """

    model: str | PathLike[str]
    options: Options
    load: Mapping[str, Any]


class TaskActor:
    """Transcribes tasks of a plan.

    Args:
        settings: of the plan.
    """

    def __init__(self, settings: TaskSettings) -> None:
        self._asr = self.load_model(settings)
        self._worker = TaskWorker(
            settings.plan,
            settings.header,
            self._asr,
            group=GROUP,
            batch_size=settings.batch_size,
        )

    def load_model(self, settings: TaskSettings) -> Transcriber:
        """Return the model of the plan. Tests replace this method."""
        return load_model(settings.header, **settings.load)

    def __call__(self, batch: pa.Table) -> Iterator[pa.Table]:
        """Yield a table with a row for each span, always in the same order.

        If the actor dies, Ray calls another one, and skips as many tables as it has received.
        """
        tasks = [task_from_line(line) for line in batch[TASK].to_pylist()]
        for outcome in self._worker.outcomes(tasks):
            yield table(span_row(outcome))

    def __del__(self) -> None:  # called by Ray when the actor ends; a model has threads
        if asr := getattr(self, "_asr", None):
            asr.close()


class RecordingActor:
    """Transcribes whole recordings.

    Args:
        settings: model and options.
    """

    def __init__(self, settings: RecordingSettings) -> None:
        self._asr = self.load_model(settings)
        self._worker = RecordingWorker(self._asr, settings.options)

    def load_model(self, settings: RecordingSettings) -> Transcriber:
        """Return the model. Tests replace this method."""
        return load(settings.model, **settings.load)

    def __call__(self, batch: pa.Table) -> Iterator[pa.Table]:
        """Yield a table with a row for each recording, always in the same order."""
        if URI not in batch.column_names:
            raise OptionError(f"the dataset has no column {URI}")
        recordings = (
            (
                str(row.get("id") or without_secrets(str(row[URI]), whole=True)),
                row[URI],
                row.get("language"),
            )
            for row in batch.to_pylist()
        )
        for outcome in self._worker.outcomes(recordings):
            yield table(recording_row(outcome))

    def __del__(self) -> None:  # called by Ray when the actor ends; a model has threads
        if asr := getattr(self, "_asr", None):
            asr.close()


def stored_tables(batch: pa.Table, *, plan: str) -> Iterator[pa.Table]:
    """Yield a table with a row for each span of tasks that are complete."""
    tasks = [task_from_line(line) for line in batch[TASK].to_pylist()]
    for outcome in read_outcomes(plan, tasks):
        yield table(span_row(outcome))
