"""The plan as a file: a line of JSON for the settings, for each recording, and for each task.

    {"type": "plan", "version": 1, "model": "base", ...}
    {"type": "recording", "id": "8c1e...", "uri": "s3://talks/a.mp3", "spans": ["04d2..."], ...}
    {"type": "task", "id": "77aa...", "spans": [{"id": "04d2...", "first": 0, "last": null, ...}]}

docs/reference/plans.md describes every key.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Final, TypeVar

from whisperbatch.addresses import has_secrets, without_secrets
from whisperbatch.errors import OptionError

T = TypeVar("T")

VERSION: Final = 1
ID_BYTES: Final = 16


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a recording or a span has no transcript.

    Attributes:
        kind: "audio", "storage", "option", "engine", "internal" or "crash".
        message: one line.
    """

    kind: str
    message: str


@dataclass(frozen=True, slots=True)
class Recording:
    """A recording of a plan.

    Attributes:
        id: derives from the URI without its signature, the version and the fingerprint of the plan.
        uri: an absolute path or a URL.
        version: its ETag, or its size and time.
        duration: in seconds, as its header states it.
        language: if it was given; None if it is to be detected.
        output: path of its transcript in the output folder, without a suffix.
        spans: ids of its spans, in order.
        language_task: id of the task that detects the language; None if no task does.
        failure: why the recording has no spans; None if it has.
    """

    id: str
    uri: str
    version: str
    duration: float
    language: str | None
    output: str
    spans: tuple[str, ...] = ()
    language_task: str | None = None
    failure: Failure | None = None

    @property
    def name(self) -> str:
        """The URI without passwords and signatures, for messages and results."""
        return without_secrets(self.uri, whole=True)


@dataclass(frozen=True, slots=True)
class PlannedSpan:
    """The part of a recording between two nominal points: a unit of work with one result.

    Attributes:
        id: derives from the recording's id and the points.
        recording: id of the recording.
        uri: of the recording.
        version: of the recording.
        first: number of the first point.
        last: number of the point after the span; None for the end of the recording.
        duration: in seconds.
        language: of the recording, if it was given.
        language_task: id of the task that detects the language; None if no task does.
    """

    id: str
    recording: str
    uri: str
    version: str
    first: int
    last: int | None
    duration: float
    language: str | None = None
    language_task: str | None = None

    @property
    def name(self) -> str:
        """The URI without passwords and signatures, for messages and results."""
        return without_secrets(self.uri, whole=True)

    @property
    def is_whole(self) -> bool:
        """Whether the span is the whole recording."""
        return self.first == 0 and self.last is None


@dataclass(frozen=True, slots=True)
class Task:
    """Spans that a worker takes together.

    Attributes:
        id: derives from the spans.
        spans: at least one.
    """

    id: str
    spans: tuple[PlannedSpan, ...]

    @property
    def duration(self) -> float:
        """Seconds of audio."""
        return sum(span.duration for span in self.spans)


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """The first line of a plan: the settings of all of its tasks.

    Attributes:
        model: name or absolute path.
        weights: fingerprint of the model's weights.
        speech_detector: fingerprint of the voice activity detector.
        references: fingerprint of the recordings of known speakers.
        load: keywords of `load` that change the text.
        options: keywords of `transcribe` that are not at their defaults.
        task_duration: seconds of audio of a task.
        fingerprint: hash of everything in this line that changes the text.
        chunk_rules: version of the rules by which audio becomes chunks (`CHUNK_RULES`); 0 in plans
            that do not state it.
        revision: commit of the model on the Hugging Face hub; None if it came from somewhere else.
            Workers load this commit, unless they have the model as a package.
        recordings: number of recordings.
        tasks: number of tasks.
        duration: seconds of audio of all recordings.
    """

    model: str
    weights: str
    speech_detector: str
    references: str
    load: Mapping[str, Any]
    options: Mapping[str, Any]
    task_duration: float
    fingerprint: str
    chunk_rules: int = 0
    revision: str | None = None
    recordings: int = 0
    tasks: int = 0
    duration: float = 0.0


@dataclass(frozen=True, slots=True)
class Plan:
    """The recordings to transcribe, and the tasks that transcribe them.

    Attributes:
        header: the settings.
        recordings: in the order of the sources.
        tasks: the longest first.
    """

    header: Header
    recordings: tuple[Recording, ...]
    tasks: tuple[Task, ...]

    @property
    def with_secrets(self) -> int:
        """Number of recordings whose URLs contain passwords or signatures, which reading needs."""
        return sum(has_secrets(recording.uri) for recording in self.recordings)

    @property
    def failures(self) -> tuple[Recording, ...]:
        """The recordings that could not be probed."""
        return tuple(recording for recording in self.recordings if recording.failure)


def hashed(*parts: object) -> str:
    """Return an id: a hash of the parts."""
    return hashlib.blake2b(repr(parts).encode(), digest_size=ID_BYTES).hexdigest()


def to_lines(plan: Plan) -> Iterator[str]:
    """Yield the lines of a plan, each with its line feed."""
    yield _line({"type": "plan", "version": VERSION, **asdict(plan.header)})
    for recording in plan.recordings:
        yield _line({"type": "recording", **asdict(recording)})
    for task in plan.tasks:
        yield task_to_line(task)


def from_lines(lines: Iterable[str], name: str, *, recordings: bool = True) -> Plan:
    """Return the plan in these lines.

    Args:
        lines: of the file.
        name: of the file, for messages.
        recordings: whether to keep the recordings. Workers need only the tasks.

    Raises:
        OptionError: the file is not a plan, is incomplete, or has an unknown version.
    """
    header: Header | None = None
    found: list[Recording] = []
    tasks: list[Task] = []
    counted = 0
    for number, line in enumerate(lines, 1):
        value = _parsed(line, name, number)
        kind = value.get("type")
        if header is None:
            if kind != "plan":
                raise OptionError(f"{name}: is not a plan; make one with: whisperbatch plan")
            if value.get("version") != VERSION:
                raise OptionError(
                    f"{name}: was made by another version of whisperbatch; make the plan again"
                )
            header = _built(Header, value, name, number)
        elif kind == "recording":
            counted += 1
            if recordings:
                failure = value.get("failure")
                value["failure"] = failure and _built(Failure, failure, name, number)
                value["spans"] = tuple(value.get("spans", ()))
                found.append(_built(Recording, value, name, number))
        elif kind == "task":
            tasks.append(_task(value, name, number))
    if header is None:
        raise OptionError(f"{name}: is empty; make the plan again")
    if (header.recordings, header.tasks) != (counted, len(tasks)):
        raise OptionError(f"{name}: lines are missing; make the plan again")
    return Plan(header, tuple(found), tuple(tasks))


def task_to_line(task: Task) -> str:
    """Return the line of a task."""
    return _line({"type": "task", "duration": task.duration, **asdict(task)})


def task_from_line(line: str) -> Task:
    """Return the task of a line.

    Raises:
        OptionError: the line is not that of a task.
    """
    return _task(_parsed(line, "task", 1), "task", 1)


def _task(value: dict[str, Any], name: str, number: int) -> Task:
    spans = tuple(_built(PlannedSpan, span, name, number) for span in value.get("spans", ()))
    return _built(Task, {**value, "spans": spans}, name, number)


def _line(value: Mapping[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=True) + "\n"


def _parsed(line: str, name: str, number: int) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except ValueError as error:
        raise OptionError(f"{name}: line {number} is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise OptionError(f"{name}: line {number} is not a JSON object")
    return value


def _built(cls: type[T], value: Mapping[str, Any], name: str, number: int) -> T:
    """Return a dataclass from the keys that are its fields; other keys are ignored."""
    names = {field.name for field in fields(cls)}  # type: ignore[arg-type]  # a dataclass
    try:
        return cls(**{key: item for key, item in value.items() if key in names})
    except TypeError as error:
        raise OptionError(f"{name}: line {number} lacks a key: {error}") from error
