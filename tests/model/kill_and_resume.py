"""Kill a job at random moments and resume it. A separate program, so that it can fork safely.

    python kill_and_resume.py SEED KILLS OUTPUTS ARGUMENTS...

Runs `whisperbatch ARGUMENTS`, which writes to OUTPUTS, once without interruption: these outputs are
the expected outputs. Then kills the same command KILLS times, at random moments of the duration of
the first run, and every fifth time as soon as an output exists. After every kill, each output that
exists must be equal to the expected output. Whenever a run reaches its end, all outputs are
compared and deleted, and the job starts again. Prints the counts as JSON.
"""

import json
import os
import random
import shutil
import signal
import sqlite3
import sys
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from importlib import import_module
from pathlib import Path

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # numpy's import would start more threads
# imported once for all runs, because the imports take long; none of these modules starts a thread
for module in ("av", "ctranslate2", "whisperbatch.transcriber", "whisperbatch.cli.app"):
    import_module(module)

whisperbatch_main = import_module("whisperbatch.cli").main
LEDGER_NAME = import_module("whisperbatch.jobs").LEDGER_NAME


def read_outputs(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file() and not path.name.startswith(".")
    }


def count_journal_entries(directory: Path) -> int:
    path = directory / LEDGER_NAME
    if not path.exists():
        return 0
    with closing(sqlite3.connect(path)) as database:
        try:
            [(count,)] = database.execute("SELECT count(*) FROM journal")
        except sqlite3.OperationalError:  # killed before the tables were created
            return 0
        return int(count)


def wait_for_output(directory: Path, child: int) -> None:
    """Wait until an output exists or the child has ended. The child stays a zombie."""
    flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
    while not read_outputs(directory) and os.waitid(os.P_PID, child, flags) is None:
        time.sleep(0.002)


def wait_for_seconds(seconds: float, _: int) -> None:
    time.sleep(seconds)


def run_command(arguments: list[str], wait: Callable[[int], object] | None) -> int | None:
    """Return the exit status; None if the command was killed when `wait` returned."""
    if not (child := os.fork()):
        sys.argv = ["whisperbatch", *arguments]
        try:
            whisperbatch_main()
        except SystemExit as error:
            os._exit(int(error.code or 0))
        os._exit(99)
    if wait is not None:
        wait(child)
        os.kill(child, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return None if status == -signal.SIGKILL else status


def main() -> None:
    """Run the command until it was killed often enough, and check the outputs."""
    seed, kills, outputs, *arguments = sys.argv[1:]
    directory = Path(outputs)
    start = time.monotonic()
    assert run_command(arguments, None) == 0
    duration = time.monotonic() - start
    expected = read_outputs(directory)
    shutil.rmtree(directory)
    rng = random.Random(int(seed))  # noqa: S311 - not a secret
    counts = {"threads": len(list(Path("/proc/self/task").iterdir())), "outputs": len(expected)}
    counts |= {"killed": 0, "finished": 0, "with_journal": 0, "with_some_outputs": 0}
    while counts["killed"] < int(kills):
        wait = partial(wait_for_output, directory)
        if counts["killed"] % 5 != 4:
            wait = partial(wait_for_seconds, rng.uniform(0, duration))
        status = run_command(arguments, wait)
        written = read_outputs(directory)
        assert written.items() <= expected.items(), "an output differs from the expected output"
        if status is None:
            counts["killed"] += 1
            counts["with_journal"] += count_journal_entries(directory) > 0
            counts["with_some_outputs"] += 0 < len(written) < len(expected)
            continue
        assert status == 0, f"status {status}"
        assert written == expected
        counts["finished"] += 1
        shutil.rmtree(directory)
    assert run_command(arguments, None) == 0
    assert read_outputs(directory) == expected
    print(json.dumps(counts))  # noqa: T201 - read by the test


main()
