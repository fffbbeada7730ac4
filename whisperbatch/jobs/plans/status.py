"""How far the work on a plan is."""

import time
from dataclasses import dataclass

from whisperbatch.jobs.leases import Lease, Leases
from whisperbatch.jobs.plans.format import Plan
from whisperbatch.jobs.workers.results import Results


@dataclass(frozen=True, slots=True)
class RunningTask:
    """A task that a worker holds now.

    Attributes:
        task: id of the task.
        worker: name of the worker.
        expires_in: seconds until others may take the task, unless the worker extends its lease.
    """

    task: str
    worker: str
    expires_in: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanStatus:
    """Counts of a plan.

    Attributes:
        recordings: number of recordings.
        unreadable: number of recordings that could not be probed when the plan was made.
        tasks: number of tasks.
        done: tasks whose spans all have results.
        running: tasks that a worker holds now.
        interrupted: number of tasks whose worker died or gave up; a worker will take them.
        waiting: number of tasks that no worker has taken yet.
        spans: number of spans.
        transcribed: number of spans with a transcript.
        failed: number of spans whose result is a failure.
        missing: number of spans without a result.
        hours: hours of audio of all spans.
        hours_done: hours of audio of the spans with a result.
        errors: the last error of each interrupted task that has one.
    """

    recordings: int
    unreadable: int
    tasks: int
    done: int
    running: tuple[RunningTask, ...]
    interrupted: int
    waiting: int
    spans: int
    transcribed: int
    failed: int
    missing: int
    hours: float
    hours_done: float
    errors: tuple[str, ...] = ()


def status_of(plan: Plan, leases: Leases, results: Results) -> PlanStatus:
    """Return the counts of a plan.

    Raises:
        WriteError: the store cannot be read.
    """
    done = results.ids()
    generations = leases.generations()
    unfinished = [task for task in plan.tasks if any(span.id not in done for span in task.spans)]
    found = [
        lease
        for task in unfinished
        if task.id in generations and (lease := leases.read(task.id, generations[task.id]))
    ]
    now = time.time()
    held: list[Lease] = []
    free: list[Lease] = []
    for lease in found:
        (held if leases.is_held(lease) else free).append(lease)
    spans = [span for task in plan.tasks for span in task.spans]
    ended = [span for span in spans if span.id in done]
    failed = len(results.failed_ids() & {span.id for span in ended})
    return PlanStatus(
        recordings=len(plan.recordings),
        unreadable=len(plan.failures),
        tasks=len(plan.tasks),
        done=len(plan.tasks) - len(unfinished),
        running=tuple(_running(lease, now) for lease in held),
        interrupted=len(free),
        waiting=len(unfinished) - len(found),
        spans=len(spans),
        transcribed=len(ended) - failed,
        failed=failed,
        missing=len(spans) - len(ended),
        hours=round(sum(span.duration for span in spans) / 3600, 4),
        hours_done=round(sum(span.duration for span in ended) / 3600, 4),
        errors=tuple(lease.error for lease in free if lease.error),
    )


def _running(lease: Lease, now: float) -> RunningTask:
    return RunningTask(lease.task, lease.worker, round(lease.expires - now, 1))
