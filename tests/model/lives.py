"""A job that is killed again and again. A program of its own, so that it can fork without threads.

    python lives.py SEED KILLS EXPECTED OUTPUTS ARGUMENTS...

Runs `whisperbatch ARGUMENTS`, which writes to OUTPUTS, once in peace: that is EXPECTED. Then it is
killed KILLS times, at a random moment of the time that this took; whenever it comes to its end,
OUTPUTS are compared, deleted, and it begins anew. After every kill each file that is there must be
whole: equal to the expected one. Prints what happened as JSON.
"""

import json
import os
import random
import shutil
import signal
import sqlite3
import sys
import time
from contextlib import closing
from importlib import import_module
from pathlib import Path

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # it starts the others when numpy is imported
# what takes long to import, once for all lives; none of it starts a thread
for module in ("av", "ctranslate2", "whisperbatch.transcriber", "whisperbatch.cli.app"):
    import_module(module)

whisperbatch_main = import_module("whisperbatch.cli").main
NAME = import_module("whisperbatch.jobs.ledger").NAME


def files(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file() and not path.name.startswith(".")
    }


def journaled(directory: Path) -> int:
    """Entries of the journal."""
    path = directory / NAME
    if not path.exists():
        return 0
    with closing(sqlite3.connect(path)) as base:
        try:
            [(count,)] = base.execute("SELECT count(*) FROM journal")
        except sqlite3.OperationalError:  # killed before there were tables
            return 0
        return int(count)


def live(arguments: list[str], seconds: float | None) -> int | None:
    """Exit status of a life; None where it was killed."""
    if not (child := os.fork()):
        sys.argv = ["whisperbatch", *arguments]
        try:
            whisperbatch_main()
        except SystemExit as ended:
            os._exit(int(ended.code or 0))
        os._exit(99)
    if seconds is not None:
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return None if status == -signal.SIGKILL else status


def main() -> None:
    """All lives."""
    seed, kills, outputs, *arguments = sys.argv[1:]
    directory = Path(outputs)
    began = time.monotonic()
    assert live(arguments, None) == 0
    longest = time.monotonic() - began
    expected = files(directory)
    shutil.rmtree(directory)
    rng = random.Random(int(seed))  # noqa: S311 - no secret
    found = {"threads": len(list(Path("/proc/self/task").iterdir())), "outputs": len(expected)}
    found |= {"killed": 0, "finished": 0, "begun": 0, "partly": 0}
    while found["killed"] < int(kills):
        status = live(arguments, rng.uniform(0, longest))
        there = files(directory)
        assert there.items() <= expected.items(), "an output is not what it should be"
        if status is None:
            found["killed"] += 1
            found["begun"] += journaled(directory) > 0  # some of a recording is decoded
            found["partly"] += 0 < len(there) < len(expected)  # some recordings are finished
            continue
        assert status == 0, f"status {status}"
        assert there == expected
        found["finished"] += 1
        shutil.rmtree(directory)
    assert live(arguments, None) == 0
    assert files(directory) == expected
    print(json.dumps(found))  # noqa: T201 - for the test


main()
