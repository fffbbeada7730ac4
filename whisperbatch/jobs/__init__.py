"""Transcribe many recordings to files, in runs that can be killed and resumed."""

from whisperbatch.jobs.inputs import InputFile, WorkItem, find_inputs, plan_outputs
from whisperbatch.jobs.job import Event, Failed, Finished, Job, SegmentReady, digest, run_job
from whisperbatch.jobs.ledger import LEDGER_NAME, Ledger
from whisperbatch.jobs.references import references_fingerprint

__all__ = [
    "LEDGER_NAME",
    "Event",
    "Failed",
    "Finished",
    "InputFile",
    "Job",
    "Ledger",
    "SegmentReady",
    "WorkItem",
    "digest",
    "find_inputs",
    "plan_outputs",
    "references_fingerprint",
    "run_job",
]
