"""What happens to the recordings of a job."""

from dataclasses import dataclass
from typing import TypeAlias

from whisperbatch.errors import WhisperBatchError
from whisperbatch.jobs.inputs import WorkItem
from whisperbatch.types import Segment, Transcript


@dataclass(frozen=True, slots=True)
class Finished:
    """All outputs of a recording are written."""

    item: WorkItem
    transcript: Transcript


@dataclass(frozen=True, slots=True)
class FinishedElsewhere:
    """Another process has written all outputs of a recording, after this run had begun."""

    item: WorkItem


@dataclass(frozen=True, slots=True)
class Failed:
    """A recording could not be transcribed, or its outputs could not be written.

    Another process that works on the same recordings may have found the error.
    """

    item: WorkItem
    error: WhisperBatchError


@dataclass(frozen=True, slots=True)
class SegmentReady:
    """The next segment of a recording is decoded."""

    item: WorkItem
    segment: Segment


Event: TypeAlias = SegmentReady | Finished | FinishedElsewhere | Failed
