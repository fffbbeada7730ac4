"""Join the results of spans: one transcript for each recording, and a report of all.

talks/a.txt, talks/a.srt      written when all spans of a recording have transcripts
talks/.joined/8c1e....json    the written files; the next `join` skips the recording
"""

import json
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import chain, count
from typing import Final, Literal, TypeAlias

from whisperbatch.errors import OptionError
from whisperbatch.jobs.names import make_id, output_name
from whisperbatch.jobs.plans.format import Failure, Recording
from whisperbatch.jobs.plans.stores import Store
from whisperbatch.jobs.workers.results import Results
from whisperbatch.prefetch import map_ordered
from whisperbatch.sections.joining import join_spans
from whisperbatch.types import Transcript, build, parse_json

MAX_LISTED: Final = 1000  # recordings that a report names


JOINED: Final = ".joined"
READERS: Final = 16  # recordings whose results are read at a time

Render: TypeAlias = Callable[[Transcript, str], str]
"""`render(transcript, format)` returns the text of a file."""
State: TypeAlias = Literal["joined", "already joined", "failed", "missing"]


@dataclass(frozen=True, slots=True)
class JoinedRecording:
    """What `join` did with a recording.

    Attributes:
        recording: of the plan.
        state: "joined", "already joined", "failed", or "missing" if a span has no result yet.
        missing: number of spans without a result.
        failure: the first failure of its spans, or of the plan.
        work: for each span, the worker and when it started and finished.
        engines: fingerprints of the engines.
        missing_duration: see `Transcript.missing_duration`; None if the recording is complete.
    """

    recording: Recording
    state: State
    missing: int = 0
    failure: Failure | None = None
    work: tuple[tuple[str, float, float], ...] = ()
    engines: tuple[str, ...] = ()
    missing_duration: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinReport:
    """The transcribed audio, and the missing spans.

    Attributes:
        recordings: number of recordings of the plan.
        joined: number of recordings whose transcripts are complete.
        hours: hours of audio of these recordings.
        rtfx: seconds of audio for each second that a worker was busy; 0 if nothing is joined.
        workers: number of workers.
        failures: number of failed recordings of each kind.
        failed: the failed recordings, at most 1,000: URI and reason.
        missing: the recordings without all results, at most 1,000: URI and number of spans.
        missing_recordings: number of these recordings.
        missing_spans: number of spans without a result.
        engines: fingerprints of the engines; more than one may give slightly different text.
        incomplete_recordings: number of joined recordings that end before the end that they state.
        incomplete: these recordings, at most 1,000: URI and missing seconds.
    """

    recordings: int
    joined: int
    hours: float
    rtfx: float
    workers: int
    failures: dict[str, int]
    failed: dict[str, str]
    missing: dict[str, int]
    missing_recordings: int
    missing_spans: int
    engines: tuple[str, ...]
    incomplete_recordings: int = 0
    incomplete: dict[str, float] = field(default_factory=dict)

    def to_json(self) -> str:
        """Return the report as a file."""
        return json.dumps(asdict(self), indent=2) + "\n"


@dataclass(slots=True)
class ReportBuilder:
    """Counts joined recordings for a report."""

    recordings: int = 0
    joined: int = 0
    seconds: float = 0.0
    missing_recordings: int = 0
    missing_spans: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    failed: dict[str, str] = field(default_factory=dict)
    missing: dict[str, int] = field(default_factory=dict)
    engines: set[str] = field(default_factory=set)
    incomplete_recordings: int = 0
    incomplete: dict[str, float] = field(default_factory=dict)
    work: dict[str, list[tuple[float, float]]] = field(default_factory=dict)

    def add(self, item: JoinedRecording) -> None:
        """Count a recording."""
        name = item.recording.name
        self.recordings += 1
        if item.state in {"joined", "already joined"}:
            self.joined += 1
            self.seconds += item.recording.duration
            self.engines.update(item.engines)
            if item.missing_duration is not None:
                self.incomplete_recordings += 1
                if len(self.incomplete) < MAX_LISTED:
                    self.incomplete[_free(name, self.incomplete)] = item.missing_duration
            for worker, start, end in item.work:
                self.work.setdefault(worker, []).append((start, end))
        elif item.state == "missing":
            self.missing_recordings += 1
            self.missing_spans += item.missing
            if len(self.missing) < MAX_LISTED:
                self.missing[_free(name, self.missing)] = item.missing
        elif item.failure:
            self.failures[item.failure.kind] += 1
            if len(self.failed) < MAX_LISTED:
                self.failed[_free(name, self.failed)] = item.failure.message

    def report(self) -> JoinReport:
        """Return the report."""
        busy = sum(busy_seconds(spans) for spans in self.work.values())
        return JoinReport(
            recordings=self.recordings,
            joined=self.joined,
            hours=round(self.seconds / 3600, 4),
            rtfx=round(self.seconds / busy, 1) if busy else 0.0,
            workers=len(self.work),
            failures=dict(sorted(self.failures.items())),
            failed=self.failed,
            missing=self.missing,
            missing_recordings=self.missing_recordings,
            missing_spans=self.missing_spans,
            engines=tuple(sorted(self.engines)),
            incomplete_recordings=self.incomplete_recordings,
            incomplete=self.incomplete,
        )


def _free(name: str, names: Container[str]) -> str:
    """Return the name, with a number if another recording has it: only secrets differ."""
    numbered = chain((name,), (f"{name} ({number})" for number in count(2)))
    return next(each for each in numbered if each not in names)


def busy_seconds(times: Iterable[tuple[float, float]]) -> float:
    """Return the seconds that at least one of these times covers."""
    total, until = 0.0, float("-inf")
    for start, end in sorted(times):
        total += max(end - max(start, until), 0.0)
        until = max(until, end)
    return total


@dataclass(frozen=True, slots=True)
class Marker:
    """What the folder `.joined` says about a recording whose files are written.

    Attributes:
        uri: of the recording, without passwords and signatures.
        files: names of the files.
        work: see `JoinedRecording`.
        engines: see `JoinedRecording`.
        missing_duration: see `JoinedRecording`.
    """

    uri: str
    files: tuple[str, ...]
    work: tuple[tuple[str, float, float], ...]
    engines: tuple[str, ...]
    missing_duration: float | None = None


class Joiner:
    """Writes the transcripts of recordings whose spans all have results.

    Args:
        results: of the spans.
        output: where the transcripts go.
        formats: names of formats.
        render: returns the text of a file.
        settings: hash of everything else that the files depend on.
    """

    def __init__(
        self, results: Results, output: Store, formats: Sequence[str], render: Render, settings: str
    ) -> None:
        self._results, self._output = results, output
        self._formats, self._render, self._settings = tuple(formats), render, settings

    def join(self, recordings: Iterable[Recording]) -> Iterator[JoinedRecording]:
        """Yield the outcome of each recording, in order.

        Raises:
            WriteError: a store fails, or an output cannot be written.
        """
        present = self._results.ids()
        join = partial(self._join, present=present, written=self._output.names(""))
        yield from map_ordered(join, recordings, workers=READERS, depth=4 * READERS)

    def _join(
        self, recording: Recording, present: set[str], written: frozenset[str]
    ) -> JoinedRecording:
        if recording.failure:
            return JoinedRecording(recording, "failed", failure=recording.failure)
        missing = sum(span not in present for span in recording.spans)
        if missing:
            return JoinedRecording(recording, "missing", missing)
        marker = f"{JOINED}/{make_id(recording.id, self._formats, self._settings)}.json"
        files = [_file(recording, suffix) for suffix in self._formats]
        if marker in written and written.issuperset(files):
            with suppress(OptionError):  # the files are written again
                found = build(Marker, parse_json(self._output.read(marker) or b""))
                return JoinedRecording(
                    recording,
                    "already joined",
                    work=found.work,
                    engines=found.engines,
                    missing_duration=found.missing_duration,
                )
        return self._write(recording, files, marker)

    def _write(self, recording: Recording, files: Sequence[str], marker: str) -> JoinedRecording:
        results = [self._results.read(span) for span in recording.spans]
        found = [result for result in results if result]
        if len(found) < len(results):  # deleted since they were listed
            return JoinedRecording(recording, "missing", len(results) - len(found))
        work = tuple((result.worker, result.started, result.finished) for result in found)
        engines = tuple(sorted({result.engine for result in found}))
        failure = next((result.failure for result in found if result.failure), None)
        if failure:
            return JoinedRecording(recording, "failed", 0, failure, work, engines)
        transcript = join_spans([result.transcript for result in found if result.transcript])
        for suffix, name in zip(self._formats, files, strict=True):
            self._output.write(name, self._render(transcript, suffix).encode())
        missing = None if transcript.is_complete else transcript.missing_duration
        value = Marker(recording.name, tuple(files), work, engines, missing)
        self._output.write(marker, json.dumps(asdict(value)).encode())
        return JoinedRecording(
            recording, "joined", work=work, engines=engines, missing_duration=missing
        )


def _file(recording: Recording, suffix: str) -> str:
    folder, _, name = recording.output.rpartition("/")
    file = output_name(name, f".{suffix}")
    return f"{folder}/{file}" if folder else file
