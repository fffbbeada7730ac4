"""Kill jobs on one directory at random moments. A separate program, so that it can fork safely.

    OPENBLAS_NUM_THREADS=1 python killed_jobs.py SEED ROUNDS FOLDER

In each round, three processes transcribe one folder into one directory with a fake engine. Some of
them are killed with SIGKILL at random moments and started again. Their leases last two minutes, so
a round ends only because the leases of dead processes are taken at once. At the end, all outputs
must be those of a run without kills, the ledger must list them, and no lease may be left. Prints
the counts as JSON.
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
from whisperbatch.jobs import (
    Failed,
    Finished,
    Job,
    Ledger,
    WorkItem,
    find_inputs,
    plan_outputs,
    run_job,
)
from whisperbatch.options import Options
from whisperbatch.transcriber import Transcriber
from whisperbatch.types import Transcript

# imported once for all processes; none of these modules starts a thread
for module in ("av", "whisperbatch.vad.silero"):
    import_module(module)

PROCESSES = 3
RECORDINGS = 24
MAX_KILLS = 3  # in a round
OPTIONS = Options(vad=False, language="en", batch_size=1, chunk_length=5.0)


def items_of(talks: Path, texts: Path) -> tuple[WorkItem, ...]:
    return plan_outputs(tuple(find_inputs([str(talks)])), ("txt", "json"), texts)


def start_job(talks: Path, texts: Path, log: Path) -> int:
    """Return the id of a new process, which notes each row and each event in a file."""
    if child := os.fork():
        return child

    def note(text: str) -> None:
        with log.open("a") as file:
            file.write(f"{text}\n")

    def decode(call: object) -> str:
        time.sleep(0.02)
        level = call.row.level  # type: ignore[attr-defined]  # a row of the fake engine
        note(f"row {level:.6f}")
        return f" Level {level:.6f}."

    def write(transcript: Transcript, path: Path) -> None:
        temporary = path.with_name(f".{path.name}-{os.getpid()}")
        temporary.write_text(transcript.text)
        temporary.replace(path)

    status = 99
    try:
        with Transcriber(FakeEngine(decode=decode)) as asr, Ledger(texts) as ledger:
            job = Job(lambda _: "s", ledger)
            items = [item for item in items_of(talks, texts) if job.remaining(item)]
            failed = ended = 0
            for event in run_job(asr, items, OPTIONS, job, write=write):
                failed += isinstance(event, Failed)
                ended += hasattr(event, "transcript") or not hasattr(event, "segment")
                if isinstance(event, Finished):
                    note(f"finished {os.getpid()} {Path(event.item.source).name}")
            status = 0 if ended == len(items) and not failed else 1
    finally:
        os._exit(status)


def kill_some(rng: random.Random, jobs: list[int], *paths: Path) -> int:
    """Kill processes at random moments, and start each again; return how many."""
    killed = 0
    for _ in range(rng.randint(1, MAX_KILLS)):
        time.sleep(rng.uniform(0.05, 0.4))
        number = rng.randrange(len(jobs))
        if os.waitid(os.P_PID, jobs[number], os.WEXITED | os.WNOHANG | os.WNOWAIT):
            continue  # it has no more work
        os.kill(jobs[number], signal.SIGKILL)
        if rng.random() < 0.5:  # otherwise the process is a zombie at first
            os.waitpid(jobs[number], 0)
        killed += 1
        jobs[number] = start_job(*paths)
    return killed


def outputs(texts: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in texts.glob("[0-9]*")}


def main() -> None:
    """Run the rounds, and check the results of each."""
    seed, rounds, folder = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    rng = random.Random(seed)  # noqa: S311 - not a secret
    talks = write_talks(folder, [5 + number % 17 for number in range(RECORDINGS)])
    counts = {"killed": 0, "rows_of_one": 0, "rows": 0, "sharing": 0}
    expected: dict[str, str] = {}
    for number in range(-1, rounds):
        texts = folder / str(number)
        texts.mkdir()
        paths = talks, texts, texts / ".log"
        jobs = [start_job(*paths) for _ in range(1 if number < 0 else PROCESSES)]
        counts["killed"] += kill_some(rng, jobs, *paths) if number >= 0 else 0
        statuses = [os.waitstatus_to_exitcode(os.waitpid(job, 0)[1]) for job in jobs]
        assert statuses == [0] * len(jobs), statuses
        lines = (texts / ".log").read_text().splitlines()
        rows = sum(line.startswith("row") for line in lines)
        if number < 0:
            expected = outputs(texts)
            assert len(expected) == 2 * RECORDINGS
            counts["rows_of_one"] = rows
        else:
            counts["rows"] += rows
            owners = {line.split()[1] for line in lines if line.startswith("finished")}
            counts["sharing"] += len(owners) > 1
            assert outputs(texts) == expected, "an output differs"
        with Ledger(texts) as ledger:
            job = Job(lambda _: "s", ledger)
            assert not any(job.remaining(item) for item in items_of(talks, texts))
            # a process that is killed after its last output leaves its lease to later runs
            left = ledger.leases.newest().values()
            assert not any(map(ledger.leases.is_held, left)), "a lease is held"
        shutil.rmtree(texts)
    print(json.dumps(counts))  # noqa: T201 - read by the test


main()
