"""Transcribe many recordings to files: in runs that can be killed, and by many processes.

job.py, claims.py, ledger.py, journal.py    one machine: `whisperbatch transcribe FOLDER`
planned.py                                  many machines: plan, work, join, status
├─ plans/                                   the plan, its sources and stores, and the transcripts
└─ workers/                                 the choice of tasks, the work itself, and results
inputs.py, names.py, leases.py              of both: recordings, names and hashes, who works on what
"""

from whisperbatch.jobs.claims import Event, Failed, Finished, FinishedElsewhere, SegmentReady
from whisperbatch.jobs.inputs import (
    LEDGER_NAME,
    InputFile,
    WorkItem,
    absolute,
    find_inputs,
    is_known_suffix,
    log_others,
    plan_outputs,
)
from whisperbatch.jobs.job import Job, run_job
from whisperbatch.jobs.ledger import Ledger
from whisperbatch.jobs.names import digest, references_fingerprint
from whisperbatch.jobs.planned import PlanStatus, join, plan, status, work
from whisperbatch.jobs.plans.format import (
    Failure,
    Header,
    Plan,
    PlanFiles,
    PlannedSpan,
    Recording,
    Task,
    task_from_line,
    task_to_line,
)
from whisperbatch.jobs.plans.joining import JoinReport
from whisperbatch.jobs.plans.settings import MACHINE_KEYWORDS, TO_THE_WORKER, options_of
from whisperbatch.jobs.workers.outcomes import (
    RecordingWorker,
    SpanOutcome,
    TaskWorker,
    read_outcomes,
)
from whisperbatch.jobs.workers.results import Results
from whisperbatch.jobs.workers.worker import (
    SpanEnded,
    WorkerJob,
    WorkReport,
    check_machine_keywords,
    load_model,
)

__all__ = [
    "LEDGER_NAME",
    "MACHINE_KEYWORDS",
    "TO_THE_WORKER",
    "Event",
    "Failed",
    "Failure",
    "Finished",
    "FinishedElsewhere",
    "Header",
    "InputFile",
    "Job",
    "JoinReport",
    "Ledger",
    "Plan",
    "PlanFiles",
    "PlanStatus",
    "PlannedSpan",
    "Recording",
    "RecordingWorker",
    "Results",
    "SegmentReady",
    "SpanEnded",
    "SpanOutcome",
    "Task",
    "TaskWorker",
    "WorkItem",
    "WorkReport",
    "WorkerJob",
    "absolute",
    "check_machine_keywords",
    "digest",
    "find_inputs",
    "is_known_suffix",
    "join",
    "load_model",
    "log_others",
    "options_of",
    "plan",
    "plan_outputs",
    "read_outcomes",
    "references_fingerprint",
    "run_job",
    "status",
    "task_from_line",
    "task_to_line",
    "work",
]
