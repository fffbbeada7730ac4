"""Transcribe many recordings to files; finished files are not made again.

work items -> items whose outputs the ledger lists as finished are skipped (`Job.remaining`)
           -> Transcriber.stream_many, which stores results of rows in the journal
           -> each transcript is written, then listed as finished
"""

import logging
import os
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from whisperbatch.boundary import as_error
from whisperbatch.errors import EngineError, InternalError, WhisperBatchError, WriteError
from whisperbatch.files import make_folder, write_error
from whisperbatch.jobs.claims import Claims, Event, Failed, Finished, NothingFreeError, SegmentReady
from whisperbatch.jobs.inputs import WorkItem
from whisperbatch.jobs.journal import Journal, JournalMarks
from whisperbatch.jobs.ledger import Entry, Ledger
from whisperbatch.jobs.names import digest
from whisperbatch.options import Options
from whisperbatch.transcriber import Transcriber
from whisperbatch.types import CHUNK_RULES, Segment, Transcript

TEMPORARY_ERRORS: Final = (WriteError, EngineError, InternalError)
"""Full disk, no memory, a bug that may be fixed: the journal of the recording stays, and the next
run resumes from it."""

log = logging.getLogger(__name__)

CUT_OFF: Final = "cut"

WriteTranscript = Callable[[Transcript, Path], object]
OutputSettings = Callable[[Path], str | None]


@dataclass(frozen=True, slots=True)
class Made:
    """What a finished output was made of, as the ledger stores it.

    9f02.../2          the recording was complete
    9f02.../2/cut      the recording was cut off (`Transcript.is_complete`)

    Attributes:
        fingerprint: of the recording and the settings.
        rules: `CHUNK_RULES` of the version that made the output.
        is_complete: see `Transcript.is_complete`.
    """

    fingerprint: str
    rules: str
    is_complete: bool = True

    @classmethod
    def from_text(cls, text: str) -> "Made":
        """Return the values of a text."""
        fingerprint, _, rest = text.partition("/")
        rules, _, state = rest.partition("/")
        return cls(fingerprint, rules, state != CUT_OFF)

    def to_text(self) -> str:
        """Return the text of the values."""
        return f"{self.fingerprint}/{self.rules}{'' if self.is_complete else f'/{CUT_OFF}'}"


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

    def register(self) -> None:
        """Let other processes leave a share of the recordings to this one, before it begins."""
        if self.ledger and not self.redo and not self.ledger.is_read_only:
            self.ledger.leases.register()

    def remaining(self, item: WorkItem) -> WorkItem | Failed | None:
        """Return the work item with its unfinished outputs only; None if all are finished.

        Without a ledger, or with `redo`, the whole work item is returned. Otherwise a file that
        whisperbatch did not write, or that was modified after it was written, is never replaced:
        the work item fails if it has no other outputs (and else when the others are written). It
        fails, too, if the outputs cannot be checked or listed.
        """
        if self.ledger is None or self.redo:
            return item
        try:
            states = {output: self._look(output) for output in item.outputs}
        except WriteError as error:
            return Failed(item, error)
        unfinished = [
            output
            for output, (exists, entry) in states.items()
            if not (entry and exists and self._has_made(output, entry, item))
        ]
        if not unfinished:
            return None if item.outputs else item
        refused = [_refusal(output, *states[output]) for output in unfinished]
        if all(refused):
            return Failed(item, WriteError(refused[0]))
        if self.ledger.is_read_only:
            problem = "cannot be written, so no output can be listed"
            return Failed(item, WriteError(f"{self.ledger.path}: {problem}"))
        return replace(item, outputs=tuple(unfinished))

    def _look(self, output: Path) -> tuple[bool, Entry | None]:
        """Return whether an output exists, and its entry."""
        try:
            return output.exists(), self.ledger.entry(output) if self.ledger else None
        except (OSError, ValueError) as error:  # ValueError: a NUL in the path
            raise write_error(output, "cannot be checked", error) from error

    def _has_made(self, output: Path, entry: Entry, item: WorkItem) -> bool:
        """Return whether an output was made of the same recording with the same settings.

        Other rules of chunks do not matter: the text is as good, and a new version of whisperbatch
        must not transcribe an archive again without being asked.
        """
        made = Made.from_text(entry.fingerprint)
        if made.fingerprint != self.fingerprint(item, output):
            return False
        if made.rules != str(CHUNK_RULES):
            log.info("%s: has other chunks than this version makes; it is kept", output)
        return True

    def was_complete(self, item: WorkItem) -> bool:
        """Return whether a recording whose outputs are finished was complete."""
        if self.ledger is None:
            return True
        entries = [self.ledger.entry(output) for output in item.outputs]
        return all(Made.from_text(entry.fingerprint).is_complete for entry in entries if entry)

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

    def key(self, item: WorkItem) -> str | None:
        """Return what processes that make the same outputs of a recording have in common.

        None if they cannot share the recording: without a ledger, with `redo`, or if a finished
        output cannot be recognised, they would wait for each other and then transcribe it again.
        """
        if self.ledger is None or self.redo:
            return None
        prints = [self.fingerprint(item, output) for output in item.outputs]
        if not prints or None in prints:
            return None
        return digest(CHUNK_RULES, [os.fsencode(path.absolute()) for path in item.outputs], prints)

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
        if not self.ledger:
            write(transcript, output)
            return
        if not self.redo and (refusal := _refusal(output, *self._look(output))):
            raise WriteError(refusal)
        before = self.ledger.begin(output)
        try:
            write(transcript, output)
        except BaseException:
            self.ledger.undo(output, before)  # an existing file of this name is unchanged
            raise
        made = fingerprint and Made(fingerprint, str(CHUNK_RULES), transcript.is_complete).to_text()
        self.ledger.finish(output, made)


def _refusal(output: Path, exists: bool, entry: Entry | None) -> str:
    """Return why a file must not be replaced; empty if there is none, or if it is an output."""
    if not exists or (entry and entry.unmodified):
        return ""
    reason = "was modified after it was written" if entry else "exists already"
    return f"{output}: {reason}; --no-resume replaces it"


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

    Several processes may do this for the same recordings at the same time. Each recording is
    transcribed by one of them. This run ends when every recording has ended in some process; it
    takes over the recordings of processes that die.

    Rows that were decoded before the process was killed come from the journal in the ledger. A
    recording is then resumed after its last decoded chunk, and its transcript is the same as that
    of an uninterrupted run.

    Args:
        asr: the model.
        items: the recordings, each with its outputs. Finished outputs are not made again.
        options: of the transcription.
        job: the ledger, and the settings that outputs depend on.
        write: writes a transcript to a path; raises WhisperBatchError.
        ordered: True transcribes one recording after another. False reads several at a time, and
            their events alternate.
    """
    marks = JournalMarks(job.ledger) if job.ledger else None
    fingerprints: dict[int, list[str | None]] = {}

    def begin(number: int, item: WorkItem) -> None:
        if marks:
            marks.begin(number)
        # taken before the recording is read: a change during the read then shows
        fingerprints[number] = [job.fingerprint(item, output) for output in item.outputs]

    claims = Claims(items, job, None if job.redo or not job.ledger else job.ledger.leases, begin)
    if job.ledger:
        asr = asr._with_results(Journal(asr.engine, job.ledger))  # noqa: SLF001 - of this package
    stream = asr.stream_many(claims.sources(), options=options, ordered=ordered)
    with claims.leased(), closing(stream) as results:
        try:
            for number, result in results:
                yield from claims.events()
                if (claim := claims.claim(number)) is None:
                    if isinstance(result, Exception) and not isinstance(result, NothingFreeError):
                        raise result
                    continue
                event = _event(job, claim.item, result, fingerprints[number], write)
                if not isinstance(event, SegmentReady):
                    _end(number, event, claims, marks)
                yield event
            yield from claims.events()
        finally:
            claims.stop()
    if marks:
        marks.close()


def _end(number: int, event: Finished | Failed, claims: Claims, marks: JournalMarks | None) -> None:
    """End the recording of a source: release its lease, and delete what nobody needs."""
    error = event.error if isinstance(event, Failed) else None
    may_pass = isinstance(error, TEMPORARY_ERRORS)
    if marks:
        marks.end(number, keep=may_pass)
    claims.end(number, error, is_final=not may_pass)


def _event(
    job: Job,
    item: WorkItem,
    result: Segment | Transcript | WhisperBatchError,
    fingerprints: Sequence[str | None],
    write: WriteTranscript,
) -> SegmentReady | Finished | Failed:
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
