"""A cluster for the tests, and runs of the program that transcribes on it."""

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).parents[3]
TIMEOUT = 600  # seconds


@dataclass
class RayCluster:
    """A cluster that runs in a separate process."""

    address: str
    process: subprocess.Popen[str]
    notes: Path
    environment: dict[str, str]

    def clear(self) -> None:
        """Forget the notes of earlier tests."""
        for path in self.notes.iterdir():
            path.unlink()

    def noted(self, kind: str) -> Counter[str]:
        """Return how often each line was noted."""
        path = self.notes / f"{kind}.txt"
        return Counter(path.read_text().splitlines()) if path.exists() else Counter()

    def wait_for_notes(self, kind: str, count: int) -> None:
        """Wait until there are this many notes."""
        end = time.monotonic() + TIMEOUT
        while sum(self.noted(kind).values()) < count:
            assert time.monotonic() < end, self.noted(kind)
            time.sleep(0.05)

    def replace_a_node(self) -> None:
        """Kill a node and add another."""
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "ready\n"

    def write_dataset(self, path: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
        """Write the rows of a dataset as JSON lines."""
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return path

    def start(self, source: Path, output: Path, **keywords: Any) -> subprocess.Popen[str]:
        """Start a program that transcribes a source."""
        arguments = [self.address, str(source), str(output), json.dumps(keywords)]
        return subprocess.Popen(
            [sys.executable, "-m", "tests.unit.ray.driver", *arguments],
            cwd=ROOT,
            env=self.environment,
            stderr=subprocess.PIPE,
            text=True,
        )

    def rows(self, source: Path, output: Path, **keywords: Any) -> list[dict[str, Any]]:
        """Return the rows of a complete run."""
        return finished(self.start(source, output, **keywords), output)


def finished(process: subprocess.Popen[str], output: Path) -> list[dict[str, Any]]:
    """Wait for the end of a run, and return its rows."""
    try:
        _, errors = process.communicate(timeout=TIMEOUT)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 0, errors
    rows: list[dict[str, Any]] = json.loads(output.read_text())
    return rows


@contextmanager
def running_cluster(notes: Path) -> Iterator[RayCluster]:
    """Run a head and two nodes, each with room for one actor, for the time of a `with` block.

    Args:
        notes: folder of the notes of cheap actors.
    """
    with TemporaryDirectory(prefix="ray", ignore_cleanup_errors=True) as folder:
        environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "CHEAP_ACTORS_FOLDER": str(notes),
            "HF_HUB_OFFLINE": "1",
            "RAY_TMPDIR": folder,  # a short path: that of a socket has at most 107 characters
            "RAY_USAGE_STATS_ENABLED": "0",
        }
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.unit.ray.cluster"],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdin
        assert process.stdout
        try:
            address = process.stdout.readline().strip()
            assert address, "the cluster did not start"
            yield RayCluster(address, process, notes, environment)
        finally:
            process.stdin.close()
            try:
                process.wait(60)
            finally:
                process.kill()
                process.stdout.close()
