"""Kill workers at random moments. A separate program, so that it can fork safely.

    OPENBLAS_NUM_THREADS=1 python killed_workers.py SEED ROUNDS FOLDER

In each round, four processes work on one plan with a fake engine. Some of them are killed with
SIGKILL at random moments and started again; sometimes a worker is stopped (SIGSTOP) for longer than
its lease, and continues. At the end, every span must have exactly one result, the transcripts of
all recordings must be those of a run without kills, and no lease may be left. Prints the counts as
JSON.
"""

import json
import os
import random
import shutil
import signal
import sys
import time
from importlib import import_module
from pathlib import Path

from tests.unit.fakes import FakeEngine
from tests.unit.jobs.killing_programs import write_talks
from tests.unit.jobs.planned_jobs import write_plan
from whisperbatch import jobs
from whisperbatch.jobs.leases import Leases
from whisperbatch.jobs.plans.format import PlanFiles
from whisperbatch.jobs.workers.results import Results
from whisperbatch.transcriber import Transcriber

# imported once for all workers; none of these modules starts a thread
for module in ("av", "whisperbatch.vad.silero"):
    import_module(module)

WORKERS = 4
RECORDINGS = 24
LEASE = 2.0  # seconds
MAX_KILLS = 3  # in a round: after more deaths, a span may be given up as one that kills workers


def start_worker(plan: Path, log: Path) -> int:
    """Return the process id of a new worker, which notes each row that it decodes in a file."""
    if child := os.fork():
        return child

    def decode(call: object) -> str:
        time.sleep(0.02)
        level = call.row.level  # type: ignore[attr-defined]  # a row of the fake engine
        with log.open("a") as file:
            file.write(f"{level:.6f}\n")
        return f" Level {level:.6f}."

    status = 99
    try:
        with Transcriber(FakeEngine(decode=decode)) as asr:
            jobs.work(plan, asr=asr, lease_duration=LEASE)
        status = 0
    finally:
        os._exit(status)


def kill_some(rng: random.Random, workers: list[int], plan: Path, log: Path) -> tuple[int, int]:
    """Kill or stop workers at random moments; return how many."""
    killed = stopped = 0
    for _ in range(rng.randint(1, MAX_KILLS)):
        time.sleep(rng.uniform(0, 0.4))
        number = rng.randrange(len(workers))
        if os.waitid(os.P_PID, workers[number], os.WEXITED | os.WNOHANG | os.WNOWAIT):
            continue  # it has no more work
        if rng.random() < 0.2:
            os.kill(workers[number], signal.SIGSTOP)
            time.sleep(LEASE * 1.3)
            os.kill(workers[number], signal.SIGCONT)
            stopped += 1
            continue
        os.kill(workers[number], signal.SIGKILL)
        os.waitpid(workers[number], 0)
        killed += 1
        workers[number] = start_worker(plan, log)
    return killed, stopped


def check(plan: Path, expected: dict[str, str]) -> None:
    """Check that every span has one result, and that nothing else is left."""
    files = PlanFiles.at(str(plan))
    spans = {span.id for task in files.read().tasks for span in task.spans}
    objects = files.work.names("results")
    assert len(objects) == len(spans) == RECORDINGS, f"{len(objects)} results"
    assert Results(files.work).ids() == spans
    assert Leases(files.work, "test").generations() == {}, "a lease is left"
    output = plan.parent / "out"
    report = jobs.join(plan, output)
    assert (report.joined, report.failures, report.missing) == (RECORDINGS, {}, {}), report
    found = {path.name: path.read_text() for path in output.glob("*.txt")}
    assert found == expected, "a transcript differs"


def main() -> None:
    """Run the rounds, and check the results of each."""
    seed, rounds, folder = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    rng = random.Random(seed)  # noqa: S311 - not a secret
    talks = write_talks(folder, [1 + number % 7 for number in range(RECORDINGS)])
    counts = {"killed": 0, "stopped": 0, "decoded": 0}
    expected: dict[str, str] = {}
    for number in range(-1, rounds):
        work = folder / str(number)
        work.mkdir()
        plan = work / "talks.plan"
        write_plan(plan, [talks], 12.0, language="en")
        log = work / "decoded.txt"
        workers = [start_worker(plan, log) for _ in range(1 if number < 0 else WORKERS)]
        if number >= 0:
            killed, stopped = kill_some(rng, workers, plan, log)
            counts["killed"] += killed
            counts["stopped"] += stopped
        statuses = [os.waitstatus_to_exitcode(os.waitpid(worker, 0)[1]) for worker in workers]
        assert statuses == [0] * len(workers), statuses
        if number < 0:
            jobs.join(plan, work / "out")
            expected = {path.name: path.read_text() for path in (work / "out").glob("*.txt")}
        else:
            counts["decoded"] += len(log.read_text().splitlines())
            check(plan, expected)
        shutil.rmtree(work)
    print(json.dumps(counts))  # noqa: T201 - read by the test


main()
