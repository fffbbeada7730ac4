"""Recordings to files: batches are filled across them, and what is done stays done.

tasks -> what the ledger has finished is passed over
      -> Transcriber.stream_many, on an engine that remembers
      -> each transcript is written, then entered as finished
"""

import hashlib
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Final

from whisperbatch.errors import EngineError, WhisperBatchError, WriteError
from whisperbatch.jobs.finding import Task
from whisperbatch.jobs.ledger import Ledger
from whisperbatch.options import Options
from whisperbatch.transcriber import Transcriber
from whisperbatch.types import Segment, Transcript

MAY_PASS: Final = (WriteError, EngineError)  # no room, no memory: the next run may go on from here

Write = Callable[[Transcript, Path], object]


@dataclass(frozen=True, slots=True)
class Finished:
    """A recording's outputs are written."""

    task: Task
    transcript: Transcript


@dataclass(frozen=True, slots=True)
class Failed:
    """A recording could not be read, or its outputs not be written."""

    task: Task
    error: WhisperBatchError


@dataclass(frozen=True, slots=True)
class Heard:
    """A recording's next segment."""

    task: Task
    segment: Segment


Event = Heard | Finished | Failed


def settings(weights: str, options: Options, *layout: object) -> str:
    """What a transcript's files depend on, beside the recording.

    Args:
        weights: fingerprint of the model's.
        options: of the decoding. The size of batches makes no difference.
        *layout: how files are written.
    """
    decoding = [
        (field.name, getattr(options, field.name))
        for field in fields(options)
        if field.name != "batch_size"
    ]
    return hashlib.blake2b(repr((weights, decoding, layout)).encode(), digest_size=16).hexdigest()


def is_finished(task: Task, ledger: Ledger, settings: str) -> bool:
    """Whether its files are there, written with these settings of what the recording is now."""
    state = _state(task, settings)
    return (
        state is not None
        and task.path is not None
        and ledger.state(task.path) == state
        and all(output.is_file() for output in task.outputs)
    )


def run(
    asr: Transcriber,
    tasks: Sequence[Task],
    options: Options,
    *,
    write: Write,
    ledger: Ledger | None = None,
    settings: str = "",
    ordered: bool = False,
) -> Generator[Event, None, None]:
    """Transcribe and write all of them; several are read at a time, and give events in turn.

    What was decoded before the process was killed comes from the ledger: a recording then goes on
    after its last chunk, and its transcript is what it would have been.

    Args:
        asr: the model.
        tasks: recordings, each with its outputs.
        options: of the decoding.
        write: writes a transcript to a path; raises WriteError.
        ledger: None keeps no account.
        settings: from `settings`.
        ordered: one recording after the other, in order.
    """
    marks = _Marks(ledger) if ledger else None
    states: dict[int, str | None] = {}

    def sources() -> Iterator[str]:
        for number, task in enumerate(tasks):
            if marks:
                marks.begin(number)
            states[number] = _state(task, settings)  # before it is read
            yield task.source

    remembering = asr.remembering(ledger) if ledger else asr
    with closing(remembering.stream_many(sources(), options=options, ordered=ordered)) as items:
        for number, item in items:
            task = tasks[number]
            if isinstance(item, Segment):
                yield Heard(task, item)
                continue
            state = states.pop(number)
            event = (
                _written(task, item, write) if isinstance(item, Transcript) else Failed(task, item)
            )
            if ledger and state and task.path and isinstance(event, Finished):
                ledger.finish(task.path, state)
            if marks and not (isinstance(event, Failed) and isinstance(event.error, MAY_PASS)):
                marks.end(number)
            yield event
    if marks:
        marks.close()


def _written(task: Task, transcript: Transcript, write: Write) -> Finished | Failed:
    try:
        for output in task.outputs:
            _make(output.parent)
            write(transcript, output)
    except WriteError as error:
        return Failed(task, error)
    return Finished(task, transcript)


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise WriteError(f"{folder}: cannot be made: {error.strerror or error}") from error


def _state(task: Task, settings: str) -> str | None:
    """Of the recording and what it is finished with; None of what is no file."""
    try:
        found = task.path.stat() if task.path else None
    except OSError:
        return None
    return f"{found.st_size} {found.st_mtime_ns} {settings}" if found else None


class _Marks:
    """Where the journal of each recording begins: what none of them needs any more is deleted.

    What is there from an earlier run may belong to any of them, and goes when all have ended.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._first = ledger.mark()
        self._begun: dict[int, int] = {}
        self._lock = threading.Lock()  # sources are asked for by another thread

    def begin(self, number: int) -> None:
        with self._lock:
            self._begun[number] = self._ledger.mark()

    def end(self, number: int) -> None:
        with self._lock:
            del self._begun[number]
            self._ledger.forget(self._first, min(self._begun.values(), default=None))

    def close(self) -> None:
        if not self._begun:
            self._ledger.forget()
