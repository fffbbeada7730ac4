"""Jobs that an older version left in tests/data, and how a test continues them.

Keys of jobs and ids of plans contain the absolute paths of recordings, so all of it lies in one
folder with a fixed path, `ROOT`.
"""

import fcntl
import os
import shutil
import wave
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import numpy as np

from tests.unit.fakes import FakeEngine
from whisperbatch.jobs import Job, Ledger, WorkItem, digest, find_inputs, plan_outputs
from whisperbatch.jobs.names import references_fingerprint
from whisperbatch.options import Options
from whisperbatch.types import Transcript
from whisperbatch.vad import vad_fingerprint
from whisperbatch.writers import SubtitleOptions, write

DATA: Final = Path(__file__).parents[2] / "data"
ROOT: Final = Path("/tmp/whisperbatch-stored-jobs")  # noqa: S108 - in the keys of the stored jobs
TALKS: Final = ROOT / "talks"
TEXTS: Final = ROOT / "texts"
PLAN: Final = ROOT / "talks.plan"
TIME: Final = 1_700_000_000 * 10**9  # of all recordings and outputs, in ns since 1970

SECONDS: Final = {"0": 18, "1": 19, "2": 20, "3": 21, "4": 22}
"""Lengths of the recordings of the directory jobs."""
PLANNED: Final = {"0": 8, "1": 9, "gone": 7, "long": 700}
"""Lengths of the recordings of the plan. "gone" was deleted before the work."""

OPTIONS: Final = Options(vad=False, language="en", batch_size=1, chunk_length=5.0)


@contextmanager
def stored_job(name: str, seconds: dict[str, int]) -> Iterator[None]:
    """Put a job of tests/data and its recordings into `ROOT`, for the time of a `with` block."""
    with ROOT.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # of other test runs on this machine
        shutil.rmtree(ROOT, ignore_errors=True)
        try:
            TALKS.mkdir(parents=True)
            for number, (talk, length) in enumerate(seconds.items()):
                write_saw(TALKS / f"{talk}.wav", length, 211 + 2 * number)
            if (DATA / name).exists():
                shutil.copytree(DATA / name, ROOT, dirs_exist_ok=True)
            for output in TEXTS.glob("*.*"):
                os.utime(output, ns=(TIME, TIME))
            yield
        finally:
            shutil.rmtree(ROOT)


def write_saw(path: Path, seconds: int, step: int) -> None:
    """Write a sound that is the same on every machine and with every version of every library."""
    samples = (np.arange(seconds * 16_000) * step) % 20_011 - 10_000
    with wave.open(str(path), "wb") as file:
        file.setparams((1, 2, 16_000, 0, "NONE", "not compressed"))
        file.writeframes(samples.astype("<i2").tobytes())
    os.utime(path, ns=(TIME, TIME))


def engine() -> FakeEngine:
    """Return an engine whose text depends on nothing."""
    return FakeEngine(decode=lambda _: " Nothing new.")


def job(ledger: Ledger) -> Job:
    """Return a job with settings that are made as the command line makes them."""
    detectors = (vad_fingerprint(OPTIONS), references_fingerprint(OPTIONS))
    weights = "fake, 1.0 of the frames"
    loaded = [("compute_type", "int8")]
    return Job(lambda _: digest(weights, detectors, OPTIONS, loaded, SubtitleOptions()), ledger)


def items() -> tuple[WorkItem, ...]:
    """Return the recordings of a directory job, with their outputs."""
    return plan_outputs(tuple(find_inputs([str(TALKS)])), ("txt", "srt"), TEXTS)


def write_output(transcript: Transcript, path: Path) -> None:
    """Write an output, with the time that all outputs have."""
    write(transcript, path, options=SubtitleOptions() if path.suffix == ".srt" else None)
    os.utime(path, ns=(TIME, TIME))
