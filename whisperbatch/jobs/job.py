"""Transcribe many recordings to files; finished files are not made again.

work items -> items whose outputs the ledger lists as finished are skipped (`Job.remaining`)
           -> Transcriber.stream_many, on an engine that stores its results in the journal
           -> each transcript is written, then listed as finished
"""

import hashlib
import os
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Final

from whisperbatch.boundary import as_error
from whisperbatch.errors import EngineError, InternalError, WhisperBatchError, WriteError
from whisperbatch.jobs.inputs import WorkItem
from whisperbatch.jobs.journal import JournaledEngine
from whisperbatch.jobs.ledger import Ledger
from whisperbatch.options import Options
from whisperbatch.transcriber import Transcriber
from whisperbatch.types import Segment, Transcript
from whisperbatch.writers.files import make_folder, write_error

TEMPORARY_ERRORS: Final = (WriteError, EngineError, InternalError)
"""Full disk, no memory, a bug that may be fixed: the journal of the recording stays, and the next
run resumes from it."""

NOT_HASHED: Final = ("batch_size", "known_speakers")

WriteTranscript = Callable[[Transcript, Path], object]
OutputSettings = Callable[[Path], str | None]


@dataclass(frozen=True, slots=True)
class Finished:
    """All outputs of a recording are written."""

    item: WorkItem
    transcript: Transcript


@dataclass(frozen=True, slots=True)
class Failed:
    """A recording could not be transcribed, or its outputs could not be written."""

    item: WorkItem
    error: WhisperBatchError


@dataclass(frozen=True, slots=True)
class SegmentReady:
    """The next segment of a recording is decoded."""

    item: WorkItem
    segment: Segment


Event = SegmentReady | Finished | Failed


def digest(*parts: object) -> str:
    """Return a hash of the values that an output depends on.

    The batch size is left out of `Options`, because it does not change the text. The recordings of
    known speakers are left out, too: add their `references_fingerprint`.
    """
    values = [
        [(f.name, getattr(part, f.name)) for f in fields(part) if f.name not in NOT_HASHED]
        if isinstance(part, Options)
        else part
        for part in parts
    ]
    return hashlib.blake2b(repr(values).encode(), digest_size=16).hexdigest()


@dataclass(frozen=True, slots=True)
class Job:
    """The rules by which a run skips finished outputs and protects files of other origin.

    Attributes:
        settings: returns a digest of everything but the recording that an output depends on:
            model, options, layout. None if some of it may change without a trace.
        ledger: lists the finished outputs; None lists nothing.
        redo: make all outputs, finished or not, and replace files that exist.
    """

    settings: OutputSettings
    ledger: Ledger | None = None
    redo: bool = False

    def remaining(self, item: WorkItem) -> WorkItem | Failed | None:
        """Return the work item with its unfinished outputs only; None if all are finished.

        Without a ledger, or with `redo`, the whole work item is returned. Otherwise a file that
        whisperbatch did not write, or that was modified after it was written, is never replaced:
        the work item fails. It fails, too, if the outputs cannot be checked.
        """
        if self.ledger is None or self.redo:
            return item
        unfinished: list[Path] = []
        for output in item.outputs:
            try:
                exists = output.exists()
            except (OSError, ValueError) as error:  # ValueError: a NUL in the path
                return Failed(item, write_error(output, "cannot be checked", error))
            entry = self.ledger.entry(output)
            if entry and entry.fingerprint == self.fingerprint(item, output) and exists:
                continue
            if exists and not (entry and entry.unmodified):
                reason = "was modified after it was written" if entry else "exists already"
                return Failed(item, WriteError(f"{output}: {reason}; --no-resume replaces it"))
            unfinished.append(output)
        return replace(item, outputs=tuple(unfinished)) if unfinished or not item.outputs else None

    def fingerprint(self, item: WorkItem, output: Path) -> str | None:
        """Return a hash of the recording and the settings that an output is made of.

        None if the recording is not a file: a URL or a pipe may change without a trace.
        """
        settings = self.settings(output)
        if (path := item.path) is None or settings is None:
            return None
        try:
            status = path.stat()
        except (OSError, ValueError):  # reading the recording reports the error
            return None
        name = os.fsencode(path.absolute())
        return digest(name, status.st_size, status.st_mtime_ns, settings)

    def write(
        self,
        item: WorkItem,
        fingerprints: Sequence[str | None],
        transcript: Transcript,
        write: WriteTranscript,
    ) -> None:
        """Write the outputs of a work item, and list each in the ledger.

        An output that cannot be written does not affect the others.

        Args:
            item: the recording and its outputs.
            fingerprints: one for each output, taken before the recording was read.
            transcript: of the recording.
            write: writes a transcript to a path.

        Raises:
            WhisperBatchError: some outputs cannot be written; the error is that of the first.
        """
        errors: list[WhisperBatchError] = []
        for output, fingerprint in zip(item.outputs, fingerprints, strict=True):
            try:
                self._write_output(output, fingerprint, transcript, write)
            except WhisperBatchError as error:
                errors.append(error)
        if len(errors) == 1:
            raise errors[0]
        if errors:
            count = len(errors) - 1
            files = "one more file" if count == 1 else f"{count} more files"
            raise WriteError(f"{errors[0]}; and {files} of this recording") from errors[0]

    def _write_output(
        self,
        output: Path,
        fingerprint: str | None,
        transcript: Transcript,
        write: WriteTranscript,
    ) -> None:
        make_folder(output.parent)
        if self.ledger:
            self.ledger.begin(output)
        try:
            write(transcript, output)
        except BaseException:
            if self.ledger:  # an existing file of this name is unchanged
                self.ledger.finish(output, None)
            raise
        if self.ledger:
            self.ledger.finish(output, fingerprint)


def run_job(
    asr: Transcriber,
    items: Sequence[WorkItem],
    options: Options,
    job: Job,
    *,
    write: WriteTranscript,
    ordered: bool = False,
) -> Generator[Event, None, None]:
    """Transcribe recordings and write their outputs, and yield an event for each step.

    Rows that were decoded before the process was killed come from the journal in the ledger. A
    recording is then resumed after its last decoded chunk, and its transcript is the same as that
    of an uninterrupted run.

    Args:
        asr: the model.
        items: the recordings, each with its unfinished outputs.
        options: of the transcription.
        job: the ledger, and the settings that outputs depend on.
        write: writes a transcript to a path; raises WhisperBatchError.
        ordered: True transcribes one recording after another. False reads several at a time, and
            their events alternate.
    """
    marks = _JournalMarks(job.ledger) if job.ledger else None
    fingerprints: dict[int, list[str | None]] = {}

    def sources() -> Iterator[str]:
        for number, item in enumerate(items):
            if marks:
                marks.begin(number)
            # taken before the recording is read: a change during the read then shows
            fingerprints[number] = [job.fingerprint(item, output) for output in item.outputs]
            yield item.source

    journaled = Transcriber(JournaledEngine(asr.engine, job.ledger)) if job.ledger else asr
    with closing(journaled.stream_many(sources(), options=options, ordered=ordered)) as results:
        for number, result in results:
            event = _event(job, items[number], result, fingerprints[number], write)
            if marks and not isinstance(event, SegmentReady):
                keep = isinstance(event, Failed) and isinstance(event.error, TEMPORARY_ERRORS)
                marks.end(number, keep=keep)
            yield event
    if marks:
        marks.close()


def _event(
    job: Job,
    item: WorkItem,
    result: Segment | Transcript | WhisperBatchError,
    fingerprints: Sequence[str | None],
    write: WriteTranscript,
) -> Event:
    """Return the event for a result; the outputs of a transcript are written first."""
    if isinstance(result, Segment):
        return SegmentReady(item, result)
    if isinstance(result, WhisperBatchError):
        return Failed(item, result)
    try:
        job.write(item, fingerprints, result, write)
    except Exception as error:  # noqa: BLE001 - ends this recording only
        return Failed(item, as_error(error, item.source))
    return Finished(item, result)


class _JournalMarks:
    """Deletes journal entries as soon as no recording of the run needs them.

    A mark is the number of the journal's next entry. All entries that a recording adds lie between
    the mark at its begin and the mark at its end:

        entries        1 2 3 4 5 6 7 8 9
        recording 0    [---------]
        recording 1        [----------->     at the end of recording 0, entries 1 and 2 are deleted

    Entries of earlier runs that this run has read may belong to any recording. They are deleted
    when all recordings have ended. Entries of recordings that failed with a temporary error stay
    for the next run.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._first = ledger.mark()
        self._begins: dict[int, int] = {}
        self._protected: list[tuple[int, int]] = []  # spans of marks of recordings that failed
        self._lock = threading.Lock()  # another thread iterates over the sources

    def begin(self, number: int) -> None:
        """Note that a recording is about to be read."""
        with self._lock:
            self._begins[number] = self._ledger.mark()

    def end(self, number: int, *, keep: bool) -> None:
        """Note that a recording has finished or failed; `keep` protects its entries."""
        with self._lock:
            now = self._ledger.mark()
            begin = self._begins.pop(number)
            if keep:
                self._protected.append((begin, now))
            self._forget(self._first, min(self._begins.values(), default=now))

    def close(self) -> None:
        """Delete the remaining unprotected entries.

        Entries of earlier runs are deleted, too, unless a recording failed with a temporary error.
        """
        self._forget(self._first if self._protected else 0, self._ledger.mark())

    def _forget(self, start: int, end: int) -> None:
        """Delete the entries from one mark to another, without the protected spans."""
        for protected_start, protected_end in [*_merged(self._protected), (end, end)]:
            if start < min(protected_start, end):
                self._ledger.forget(start, min(protected_start, end))
            start = max(start, protected_end)


def _merged(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the spans in order; overlapping spans become one."""
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged
