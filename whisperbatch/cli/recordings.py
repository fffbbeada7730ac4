"""The recordings that the arguments of a command name, their counts, and what a picture shows."""

import glob
import os
import re
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Final

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
    log_others,
)
from whisperbatch.options import Options
from whisperbatch.text import counted
from whisperbatch.types import Samples, Source, to_seconds
from whisperbatch.writers.timeline import POINT, RecordingOverview

_VALUE: Final = re.compile(r"-?\d+(\.\d+)?|yes|no|on|off", re.IGNORECASE)
"""What stands in place of a recording if a flag takes one value, or none."""
MAX_NAMED: Final = 5
"""Recordings that a message names; more are counted."""


def find_recordings(
    inputs: Iterable[str], output_suffixes: Collection[str] = ()
) -> tuple[tuple[InputFile, ...], tuple[AudioError, ...]]:
    """Return the recordings, and the errors of the folders that cannot be searched.

    Raises:
        AudioError: there are no recordings, and a folder cannot be searched.
        OptionError: there are no recordings.
    """
    names = tuple(map(with_home, inputs))
    errors: list[AudioError] = []
    others: list[str] = []
    files = tuple(
        find_inputs(names, output_suffixes, on_error=errors.append, on_others=others.extend)
    )
    if not files:
        seen = f", but {counted(others, 'other file')}" if others else ""
        raise errors[0] if errors else OptionError(f"no recordings in {', '.join(names)}{seen}")
    log_others(others)
    return files, tuple(errors)


def with_home(path: str) -> str:
    """Return a path with the home directory in place of "~", unless there is such a file.

    A shell does not do this in quotes, and not in "--output=~/texts".
    """
    return os.path.expanduser(path) if path[:1] == "~" and not os.path.lexists(path) else path  # noqa: PTH111 - a URL is no path


def divide_missing(
    items: Sequence[WorkItem],
) -> tuple[tuple[WorkItem, ...], tuple[Failed, ...]]:
    """Return the recordings that exist, and those that do not, with their errors."""
    present: list[WorkItem] = []
    missing: list[Failed] = []
    for item in items:
        error = None if item.path is None or os.path.exists(item.path) else _path_error(item)  # noqa: PTH110 - Path raises for long names
        if error is None:
            present.append(item)
        elif glob.has_magic(item.source):
            problem = "no file matches this pattern"
            missing.append(Failed(item, AudioError(problem, source=item.name)))
        elif _VALUE.fullmatch(item.source):
            problem = (
                "there is no such file; if this is a value of the flag before it, separate several "
                "values by commas, as 0,0.2, and write yes as True"
            )
            missing.append(Failed(item, AudioError(problem, source=item.name)))
        else:
            missing.append(Failed(item, error))
    return tuple(present), tuple(missing)


def missing_message(missing: Sequence[Failed]) -> str:
    """Return the error of recordings that do not exist, on one line."""
    if len(missing) == 1:
        return str(missing[0].error)
    names = [each.item.name for each in missing[:MAX_NAMED]]
    more = len(missing) - len(names)
    listed = f"{', '.join(names)} and {more} more" if more else _and(names)
    return f"{listed}: there are no such files; check the paths"


def _and(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}"


def looks_like_recording(name: str) -> bool:
    """Return whether an argument names a recording, and no command: by its form, or as a file."""
    return (
        name == "-"
        or any(mark in name for mark in ("/", "\\", "~"))
        or PurePath(name).suffix != ""
        or glob.has_magic(name)
        or os.path.lexists(name)
    )


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
        silent: recordings of this run without speech.
        seconds: duration of the transcribed recordings.
        started: time when the model was loaded; None before.
    """

    already_done: int = 0
    transcribed: int = 0
    elsewhere: int = 0
    failed: int = 0
    incomplete: int = 0
    silent: int = 0
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
            self.silent += not event.transcript.segments
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
        parts += [f"{self.silent} of them without speech"] if self.silent else []
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
