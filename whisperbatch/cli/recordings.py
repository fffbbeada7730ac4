"""The recordings that the arguments of a command name, their counts, and what a picture shows."""

import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from whisperbatch import chunk_audio
from whisperbatch.audio import AudioReader, check_path, open_audio
from whisperbatch.cli.printing import clock
from whisperbatch.errors import AudioError, OptionError
from whisperbatch.jobs import (
    Event,
    Failed,
    Finished,
    FinishedElsewhere,
    InputFile,
    WorkItem,
    find_inputs,
)
from whisperbatch.options import Options
from whisperbatch.types import Samples, Source, to_seconds
from whisperbatch.writers.timeline import POINT, RecordingOverview


def find_recordings(
    inputs: Iterable[str], output_suffixes: Collection[str] = ()
) -> tuple[tuple[InputFile, ...], tuple[AudioError, ...]]:
    """Return the recordings, and the errors of the folders that cannot be searched.

    Raises:
        AudioError: there are no recordings, and a folder cannot be searched.
        OptionError: there are no recordings.
    """
    names = tuple(inputs)
    errors: list[AudioError] = []
    files = tuple(find_inputs(names, output_suffixes, on_error=errors.append))
    if not files:
        raise errors[0] if errors else OptionError(f"no recordings in {', '.join(names)}")
    return files, tuple(errors)


def failures_if_all(
    entries: Sequence[WorkItem | Failed | None],
) -> Sequence[WorkItem | Failed | None]:
    """Let the recordings fail if none of them can be read, so that no model is loaded.

    Otherwise each recording is checked when it is read: a file may be complete by then.
    """
    checked: list[WorkItem | Failed | None] = []
    for entry in entries:
        if not isinstance(entry, WorkItem):
            checked.append(entry)
        elif error := _path_error(entry):
            checked.append(Failed(entry, error))
        else:
            return entries
    return checked


def _path_error(item: WorkItem) -> AudioError | None:
    try:
        if item.path:
            check_path(item.path)
    except AudioError as error:
        return error
    return None


@dataclass(slots=True)
class Tally:
    """Counts the recordings of a run.

    Attributes:
        already_done: recordings that an earlier run has finished.
        transcribed: recordings that this run has finished.
        elsewhere: recordings that other processes have finished during this run.
        failed: recordings that failed, in this process or another.
        incomplete: recordings with a transcript that end before the end that they state.
        seconds: duration of the transcribed recordings.
        started: time when the model was loaded; None before.
    """

    already_done: int
    transcribed: int = 0
    elsewhere: int = 0
    failed: int = 0
    incomplete: int = 0
    seconds: float = 0.0
    started: float | None = None

    def start(self) -> None:
        """Start the clock."""
        self.started = time.monotonic()

    def count(self, event: Event) -> None:
        """Count a recording that has finished or failed."""
        if isinstance(event, Finished):
            self.transcribed += 1
            self.incomplete += not event.transcript.is_complete
            self.seconds += event.transcript.duration
        elif isinstance(event, FinishedElsewhere):
            self.elsewhere += 1
        elif isinstance(event, Failed):
            self.failed += 1

    def summary(self) -> str:
        """Return the counts and the speed, on one line."""
        parts = [f"{self.transcribed} transcribed"]
        parts += [f"{self.elsewhere} by other processes"] if self.elsewhere else []
        parts += [f"{self.failed} failed"] if self.failed else []
        parts += [f"{self.already_done} already done"] if self.already_done else []
        parts += [f"{self.incomplete} of them incomplete"] if self.incomplete else []
        counts = ", ".join(parts)
        if not self.seconds or self.started is None:
            return counts
        elapsed = time.monotonic() - self.started
        speed = f"{self.seconds / elapsed:.0f} times real time"
        return f"{counts}: {clock(self.seconds)} in {clock(elapsed)}, {speed}"


def read_overview(source: Source, options: Options) -> RecordingOverview:
    """Read a recording again, to measure its loudness and find its speech and chunks.

    Args:
        source: a file or samples; a pipe cannot be read a second time.
        options: the options of the transcription.

    Raises:
        AudioError: the recording cannot be read.
    """
    overview = RecordingOverview()
    with open_audio(source, options) as reader:
        blocks = _with_peaks(reader.blocks(), overview.peaks)
        measured = AudioReader(
            reader.name, blocks, reader.close, options=options, notices=reader.notices
        )
        for chunk in chunk_audio(measured, options=options):
            overview.chunks.append((to_seconds(chunk.start), to_seconds(chunk.end)))
            overview.speech += [
                (to_seconds(span.start), to_seconds(span.end)) for span in chunk.speech
            ]
    return overview


def _with_peaks(blocks: Iterable[Samples], peaks: list[float]) -> Iterator[Samples]:
    """Yield the blocks unchanged; append the largest absolute sample of each `POINT` to `peaks`."""
    incomplete = np.zeros(0, np.float32)  # samples of a point that the next block completes
    for block in blocks:
        samples = np.concatenate((incomplete, np.abs(block)))
        complete = len(samples) // POINT * POINT
        peaks += samples[:complete].reshape(-1, POINT).max(axis=1).tolist()
        incomplete = samples[complete:]
        yield block
    peaks += [float(incomplete.max())] if len(incomplete) else []
