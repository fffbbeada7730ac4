"""The report of `join`: the transcribed audio, the speed, and the missing spans."""

import json
from collections import Counter
from collections.abc import Container, Iterable
from dataclasses import asdict, dataclass, field
from itertools import chain, count
from typing import Final

from whisperbatch.jobs.plans.joining import JoinedRecording

MAX_LISTED: Final = 1000  # recordings that a report names


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
            if item.missing_duration:
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
