"""Recordings to files: batches are filled across them, and what is done stays done.

tasks -> what the ledger has finished is passed over
      -> Transcriber.stream_many, on an engine that remembers
      -> each transcript is written, then entered as finished
"""

import hashlib
import os
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Final

from whisperbatch.errors import EngineError, WhisperBatchError, WriteError
from whisperbatch.jobs.inputs import WorkItem
from whisperbatch.jobs.journal import JournaledEngine
from whisperbatch.jobs.ledger import Ledger
from whisperbatch.options import Options
from whisperbatch.transcriber import Transcriber
from whisperbatch.types import Segment, Transcript
from whisperbatch.writers.files import make_folder

MAY_PASS: Final = (WriteError, EngineError)  # no room, no memory: the next run may go on from here

Write = Callable[[Transcript, Path], object]
Settings = Callable[[Path], str]  # what a file depends on, beside the recording


@dataclass(frozen=True, slots=True)
class Finished:
    """A recording's outputs are written."""

    task: WorkItem
    transcript: Transcript


@dataclass(frozen=True, slots=True)
class Failed:
    """A recording could not be read, or its outputs not be written."""

    task: WorkItem
    error: WhisperBatchError


@dataclass(frozen=True, slots=True)
class SegmentReady:
    """A recording's next segment."""

    task: WorkItem
    segment: Segment


Event = SegmentReady | Finished | Failed


def digest(*parts: object) -> str:
    """Of what files depend on; of options, all but the size of batches, which changes no text."""
    plain = [
        [(f.name, getattr(part, f.name)) for f in fields(part) if f.name != "batch_size"]
        if isinstance(part, Options)
        else part
        for part in parts
    ]
    return hashlib.blake2b(repr(plain).encode(), digest_size=16).hexdigest()


@dataclass(frozen=True, slots=True)
class Job:
    """A job's account of what is done.

    Attributes:
        settings: what a file depends on, beside the recording: the model, options, its layout.
        ledger: None keeps no account.
        anew: do all of it, whatever is done or there.
    """

    settings: Settings
    ledger: Ledger | None = None
    anew: bool = False

    def left(self, task: WorkItem) -> WorkItem | Failed | None:
        """What of a task is to be done; None where all is. Without a ledger, all of it.

        A file that somebody else has written, or changed since, is never replaced, unless `anew`.
        """
        if self.ledger is None or self.anew:
            return task
        missing: list[Path] = []
        for output in task.outputs:
            entry = self.ledger.entry(output)
            if entry and entry.made == self.made(task, output) and output.exists():
                continue
            if output.exists() and not (entry and entry.untouched):
                reason = "was changed since" if entry else "is there already"
                return Failed(task, WriteError(f"{output}: {reason}; --no-resume replaces it"))
            missing.append(output)
        return replace(task, outputs=tuple(missing)) if missing or not task.outputs else None

    def made(self, task: WorkItem, output: Path) -> str | None:
        """Of what an output is made now; None where the recording is no file."""
        try:
            found = task.path.stat() if task.path else None
        except OSError:
            found = None
        if found is None or task.path is None:
            return None
        path = os.fsencode(task.path.absolute())
        return digest(path, found.st_size, found.st_mtime_ns, self.settings(output))

    def write(
        self, task: WorkItem, made: Sequence[str | None], found: Transcript, put: Write
    ) -> None:
        """Write the outputs, and enter them.

        Raises:
            WhisperBatchError: one cannot be made.
        """
        for output, of in zip(task.outputs, made, strict=True):
            make_folder(output.parent)
            if self.ledger:
                self.ledger.begin(output)
            put(found, output)
            if self.ledger and of:
                self.ledger.finish(output, of)


def run(
    asr: Transcriber,
    tasks: Sequence[WorkItem],
    options: Options,
    job: Job,
    *,
    write: Write,
    ordered: bool = False,
) -> Generator[Event, None, None]:
    """Transcribe and write all of them; several are read at a time, and give events in turn.

    What was decoded before the process was killed comes from the ledger: a recording then goes on
    after its last chunk, and its transcript is what it would have been.

    Args:
        asr: the model.
        tasks: recordings, each with the outputs that are left to do.
        options: of the decoding.
        job: the account of what is done.
        write: writes a transcript to a path; raises WhisperBatchError.
        ordered: one recording after the other, in order.
    """
    marks = _Marks(job.ledger) if job.ledger else None
    made: dict[int, list[str | None]] = {}

    def sources() -> Iterator[str]:
        for number, task in enumerate(tasks):
            if marks:
                marks.begin(number)
            made[number] = [job.made(task, output) for output in task.outputs]  # before it is read
            yield task.source

    journaled = Transcriber(JournaledEngine(asr.engine, job.ledger)) if job.ledger else asr
    with closing(journaled.stream_many(sources(), options=options, ordered=ordered)) as items:
        for number, item in items:
            event = _event(job, tasks[number], item, made[number], write)
            if marks and not isinstance(event, SegmentReady):
                kept = isinstance(event, Failed) and isinstance(event.error, MAY_PASS)
                marks.end(number, kept=kept)
            yield event
    if marks:
        marks.close()


def _event(
    job: Job,
    task: WorkItem,
    item: Segment | Transcript | WhisperBatchError,
    made: Sequence[str | None],
    write: Write,
) -> Event:
    if isinstance(item, Segment):
        return SegmentReady(task, item)
    if isinstance(item, WhisperBatchError):
        return Failed(task, item)
    try:
        job.write(task, made, item, write)
    except WhisperBatchError as error:
        return Failed(task, error)
    return Finished(task, item)


class _Marks:
    """Where the journal of each recording begins: what none of them needs any more is deleted.

    What is there from an earlier run may belong to any of them, and goes when all have ended. What
    belongs to one that may do better next time stays.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._first = ledger.mark()
        self._begun: dict[int, int] = {}
        self._kept: list[tuple[int, int]] = []  # from a mark to another
        self._lock = threading.Lock()  # sources are asked for by another thread

    def begin(self, number: int) -> None:
        with self._lock:
            self._begun[number] = self._ledger.mark()

    def end(self, number: int, *, kept: bool) -> None:
        with self._lock:
            now = self._ledger.mark()
            begun = self._begun.pop(number)
            if kept:
                self._kept.append((begun, now))
            self._forget(self._first, min(self._begun.values(), default=now))

    def close(self) -> None:
        self._forget(self._first if self._kept else 0, self._ledger.mark())

    def _forget(self, start: int, end: int) -> None:
        for kept_from, kept_to in [*_joined(self._kept), (end, end)]:
            if start < min(kept_from, end):
                self._ledger.forget(start, min(kept_from, end))
            start = max(start, kept_to)


def _joined(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """In order, those that overlap as one."""
    found: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return found
