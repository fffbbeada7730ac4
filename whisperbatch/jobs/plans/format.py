"""The plan as a file: a line of JSON for the settings, for each recording, and for each task.

    {"type": "plan", "version": 1, "model": "base", ...}
    {"type": "recording", "id": "8c1e...", "uri": "s3://talks/a.mp3", "spans": ["04d2..."], ...}
    {"type": "task", "id": "77aa...", "spans": [{"id": "04d2...", "first": 0, "last": null, ...}]}

docs/reference/plans.md describes every key. Beside the plan (`PlanFiles`):

    talks.plan.work/          leases, languages and results
    talks.plan.report.json    the report of the last `join`
"""

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path, PurePath
from typing import Any, Final

from whisperbatch.addresses import has_secrets, without_secrets
from whisperbatch.errors import OptionError
from whisperbatch.jobs.inputs import absolute
from whisperbatch.jobs.plans.stores import Store
from whisperbatch.types import build, parse_json

VERSION: Final = 1
NAME: Final = re.compile(r"[0-9A-Za-z_-]{1,100}")  # of an object, from an id
MAX_SECTIONS: Final = 10_000_000  # of a recording: 95 years


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
    """The part of a recording between two nominal boundaries: a unit of work with one result.

    Attributes:
        id: derives from the recording's id and the boundaries.
        recording: id of the recording.
        uri: of the recording.
        version: of the recording.
        first: number of the first boundary.
        last: number of the boundary after the span; None for the end of the recording.
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
        with _place(name, number):
            value = _object(line)
        if header is None:
            _check_is_plan(value, name)
        with _place(name, number):
            kind = value.get("type")
            if header is None:
                header = build(Header, value)
            elif kind == "recording":
                counted += 1
                if recordings:
                    found.append(_recording(value))
            elif kind == "task":
                tasks.append(_task(value))
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
    with _place("task", 1):
        return _task(_object(line))


def _object(line: str) -> dict[str, Any]:
    if not isinstance(value := parse_json(line), dict):
        raise OptionError("is not a JSON object")
    return value


def _check_is_plan(value: dict[str, Any], name: str) -> None:
    if value.get("type") != "plan":
        raise OptionError(f"{name}: is not a plan; make one with: whisperbatch plan")
    if value.get("version") != VERSION:
        raise OptionError(
            f"{name}: was made by another version of whisperbatch; make the plan again"
        )


def _recording(value: dict[str, Any]) -> Recording:
    """Return a recording whose transcripts lie inside the output folder."""
    recording = build(Recording, value)
    steps = re.split(r"[/\\]" if os.name == "nt" else "/", recording.output)
    if not {"", ".", ".."}.isdisjoint(steps) or PurePath(recording.output).drive:
        raise OptionError("output must be a path in the output folder")
    _check_names("spans", *recording.spans)
    if not recording.spans and not recording.failure:
        raise OptionError("the recording has no spans")
    return recording


def _task(value: dict[str, Any]) -> Task:
    task = build(Task, value)
    _check_names("id", task.id, *(span.id for span in task.spans))
    _check_names("language_task", *(span.language_task or "none" for span in task.spans))
    if not task.spans:
        raise OptionError("the task has no spans")
    for span in task.spans:
        if not 0 <= span.first < (MAX_SECTIONS if span.last is None else span.last):
            raise OptionError("first and last must be numbers of boundaries, in order")
    return task


def _check_names(key: str, *names: str) -> None:
    """Check that ids can be parts of names of objects, and are no paths."""
    if not all(map(NAME.fullmatch, names)):
        raise OptionError(f"{key} must be letters and digits")


def _line(value: Mapping[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=True) + "\n"


@contextmanager
def _place(name: str, number: int) -> Iterator[None]:
    """Name the file and the line of a value that is wrong."""
    try:
        yield
    except OptionError as error:
        raise OptionError(f"{name}: line {number}: {error}") from error


WORK: Final = ".work"
REPORT: Final = ".report.json"


@dataclass(frozen=True, slots=True)
class PlanFiles:
    """The plan file and the objects beside it.

    Attributes:
        uri: of the plan.
        folder: the store that contains the plan.
        name: of the plan in this store.
        work: the store of leases, languages and results.
    """

    uri: str
    folder: Store
    name: str
    work: Store

    @classmethod
    def at(cls, uri: str) -> "PlanFiles":
        """Return the files of a plan.

        Raises:
            OptionError: the name is empty, or is that of a folder.
            MissingExtraError: the package for this kind of URL is not installed.
        """
        place = absolute(uri).replace("\\", "/")  # of Windows
        folder, _, name = place.rpartition("/")
        if not uri or not name or ("://" not in place and Path(place).is_dir()):
            raise OptionError(f"{uri or '(empty)'} is not the name of a plan; give a file name")
        return cls(uri, Store(folder or "/"), name, Store(f"{place}{WORK}"))

    def read(self, *, recordings: bool = True) -> Plan:
        """Return the plan.

        Args:
            recordings: whether to keep the recordings in memory.

        Raises:
            OptionError: there is no such plan, or the file is not a plan.
            WriteError: the store cannot be read.
        """
        data = self.folder.read(self.name)
        if data is None:
            raise OptionError(
                f"{self.uri}: there is no such plan; make it with: whisperbatch plan SOURCES "
                f"-o {self.uri}"
            )
        try:
            text = data.decode()
        except UnicodeDecodeError as error:
            raise OptionError(f"{self.uri}: is not a plan") from error
        return from_lines(text.splitlines(), self.uri, recordings=recordings)

    def write(self, plan: Plan) -> None:
        """Write the plan. An older plan of this name is replaced; another file is not.

        A plan that contains passwords or signatures is a file that only the user can read.

        Raises:
            OptionError: there is a file of this name that is not a plan.
            WriteError: the file cannot be written.
        """
        if self.folder.exists(self.name):
            try:
                self.read(recordings=False)
            except OptionError as error:
                raise OptionError(f"{error}; another file is not replaced") from error
        data = "".join(to_lines(plan)).encode()
        self.folder.write(self.name, data, private=bool(plan.with_secrets))

    def write_report(self, text: str) -> None:
        """Write the report of `join`."""
        self.folder.write(self.name + REPORT, text.encode())
