"""Many recordings to files, in runs that can be killed and resumed."""

from whisperbatch.jobs.inputs import InputFile, WorkItem, find, plan
from whisperbatch.jobs.job import Event, Failed, Finished, Job, SegmentReady, digest, run
from whisperbatch.jobs.ledger import NAME, Ledger

__all__ = [
    "NAME",
    "Event",
    "Failed",
    "Finished",
    "InputFile",
    "Job",
    "Ledger",
    "SegmentReady",
    "WorkItem",
    "digest",
    "find",
    "plan",
    "run",
]
