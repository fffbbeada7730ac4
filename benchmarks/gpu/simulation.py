"""What the CPU does for a GPU: an hour with a simulated engine, and the front end in threads.

The simulated engine (tests/unit/latency_engine.py) waits as long as a H200 would compute a call of
large-v3-turbo. Everything else is real: reading, VAD, chunks, features, scheduling, texts. The
table of an hour has, besides its speed:

    calls, rows     calls of the decoder, and the mean number of rows in a call
    idle            share of the time in which a worker of the engine waited for rows
    CPU             seconds of processor time of each stage, for an hour of audio

The front end is measured in one and two threads on two cores, each with its own recording. The
speed-up says which share of the time is spent under the interpreter lock (Amdahl's law), and this
share says what more cores would reach.
"""

import os
import resource
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import fields
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any, Final

import numpy as np

import whisperbatch as wb
from benchmarks.stage_times import Method, timed_methods
from tests.unit.fakes import FakeEngine
from tests.unit.latency_engine import LatencyEngine, decoding, encoding
from whisperbatch import pipeline_run
from whisperbatch.audio.reader import AudioReader, open_audio
from whisperbatch.decoding.chunk_decoder import ChunkDecoder
from whisperbatch.engines.memory import MAX_BATCH_SIZE
from whisperbatch.features.whisper import WhisperFeatures
from whisperbatch.options import Options
from whisperbatch.sections import chunk_recording
from whisperbatch.types import WINDOW, to_seconds
from whisperbatch.vad import open_vad
from whisperbatch.vad.levels import CalibratedVad
from whisperbatch.vad.silero import SileroStream

HOUR: Final = 3600.0
NETWORK: Final = "VAD network"
ENGINE: Final = "engine"  # what the simulation itself computes
STAGES: Final[tuple[Method, ...]] = (
    ("reading", AudioReader, "blocks", None),
    (NETWORK, SileroStream, "push", None),
    ("VAD levels", CalibratedVad, "__call__", None),
    ("chunks", pipeline_run, "chunk_recording", None),
    ("features", WhisperFeatures, "__call__", None),
    ("texts", ChunkDecoder, "__call__", None),
    (ENGINE, LatencyEngine, "encode", None),
    (ENGINE, FakeEngine, "decode", None),
)
COLUMNS: Final = ("reading", NETWORK, "VAD levels", "chunks", "features", "texts", "rest")
HAS_READERS: Final = any(each.name == "readers" for each in fields(Options))

Figures = dict[str, Any]


def transcribe(path: Path, seconds: float, **options: Any) -> Figures:  # noqa: ANN401 - of Options
    """Transcribe a recording on the simulated engine, and return the figures of its row."""
    with wb.Transcriber(LatencyEngine()) as asr:
        asr.transcribe(np.zeros(16_000, np.float32), language="en")  # loads the VAD
    engine = LatencyEngine()
    with wb.Transcriber(engine) as asr, timed_methods(STAGES) as times:
        started, cpu = time.perf_counter(), cpu_seconds()
        transcript = asr.transcribe(path, language="en", **options)
        took, cpu = time.perf_counter() - started, cpu_seconds() - cpu
    stages = {name: found.own for name, found in times.items()}
    stages["rest"] = cpu - sum(stages.values())
    per_hour = {name: stages.get(name, 0.0) * HOUR / seconds for name in COLUMNS}
    calls = len(engine.batches)
    return {
        "times real time": seconds / took,
        "calls": calls,
        "rows per call": sum(engine.batches) / max(calls, 1),
        "idle": engine.idle_share(took),
        "chunks": transcript.chunks,
        "decoded again": transcript.redecoded,
        **{f"CPU {name}": value for name, value in per_hour.items()},
        "CPU without VAD network": sum(per_hour.values()) - per_hour[NETWORK],
    }


def cpu_seconds() -> float:
    """Return the processor time of this process and of its children that have ended."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def simulate(path: Path, seconds: float) -> Iterator[tuple[str, Figures]]:
    """Yield the figures of a format as it is by default, and with one and eight readers."""
    name = path.suffix.lstrip(".")
    yield name, transcribe(path, seconds)
    if HAS_READERS:
        for readers in (1, 8):
            yield f"{name}, readers={readers}", transcribe(path, seconds, readers=readers)


def read_and_detect(path: Path) -> None:
    """Read a recording, and compute its VAD."""
    with open_audio(str(path)) as reader:
        for _ in open_vad(Options())(reader.blocks()):
            pass


def read_and_divide(path: Path) -> None:
    """Read a recording, compute its VAD, and make its chunks."""
    options = Options(language="en")
    with open_audio(str(path)) as reader:
        for _ in chunk_recording(reader.blocks(), options, open_vad(options)):
            pass


def seconds_of(pool: Executor, function: Callable[[Path], None], paths: Sequence[Path]) -> float:
    """Return the seconds in which the workers of a pool call a function once for each path."""
    started = time.perf_counter()
    list(pool.map(function, paths))
    return time.perf_counter() - started


def lock_share(speed_up: float, workers: int = 2) -> float:
    """Return the serial share of Amdahl's law, from 0 to 1, of a measured speed-up."""
    serial = (workers / speed_up - 1) / (workers - 1)
    return min(max(serial, 0.0), 1.0)


def speed_up(serial: float, workers: int) -> float:
    """Return how much faster several workers are than one, if a share of the time is serial."""
    return 1 / (serial + (1 - serial) / workers)


def front_end(
    first: Path, second: Path, seconds: float, rounds: int = 3
) -> Iterator[tuple[str, Figures]]:
    """Yield the speed of reading and VAD, then with chunks, in one and two threads on two cores.

    One worker reads two recordings in turn; two threads, and for comparison two processes, read
    them at the same time. The rounds take turns, and medians count.

    Args:
        first: a recording.
        second: another one of the same duration.
        seconds: duration of each.
        rounds: number of rounds.
    """
    _use_cores(2)
    context = get_context("spawn")
    for name, function in (
        ("reading and VAD", read_and_detect),
        ("reading, VAD and chunks", read_and_divide),
    ):
        took: dict[str, list[float]] = {"1 thread": [], "2 threads": [], "2 processes": []}
        with (
            ThreadPoolExecutor(1) as one,
            ThreadPoolExecutor(2) as two,
            ProcessPoolExecutor(2, context) as processes,
        ):
            pools = dict(zip(took, (one, two, processes), strict=True))
            for pool in pools.values():
                seconds_of(pool, warm_up, [first, second])
            for _ in range(rounds):
                for key, pool in pools.items():
                    took[key].append(seconds_of(pool, function, [first, second]))
        times = {key: median(found) for key, found in took.items()}
        gain = times["1 thread"] / times["2 threads"]
        yield (
            name,
            {
                **{key: 2 * seconds / value for key, value in times.items()},
                "speed-up of 2 threads": gain,
                "speed-up of 2 processes": times["1 thread"] / times["2 processes"],
                "share under the lock": lock_share(gain),
            },
        )


def warm_up(_: Path) -> None:
    """Load the VAD in a worker; long enough that both workers of a pool take part."""
    open_vad(Options())
    time.sleep(0.2)


def _use_cores(count: int) -> None:
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:count])


def outlook(simulated: Figures, front: Figures, cores: int = 16) -> Figures:
    """Calculate what a machine with more cores reaches, from measurements on this machine.

    Each limit is a speed, in times real time. The lowest limit decides.

    Args:
        simulated: figures of an hour; see `transcribe`.
        front: figures of reading, VAD and chunks; see `front_end`.
        cores: number of cores; half of them read.
    """
    cpu = {name: simulated[f"CPU {name}"] for name in COLUMNS}
    front_names = ("reading", NETWORK, "VAD levels", "chunks")
    front_cpu = sum(cpu[name] for name in front_names)
    serial, readers = front["share under the lock"], max(cores // 2, 1)
    locked = serial * front_cpu + cpu["texts"] + cpu["rest"]
    rows = HOUR / to_seconds(WINDOW)
    calls = rows / MAX_BATCH_SIZE
    full = max(calls * encoding(MAX_BATCH_SIZE), calls * decoding(MAX_BATCH_SIZE))
    limits = {
        "one reader": HOUR / front_cpu,
        f"{readers} readers in threads": HOUR / front_cpu * speed_up(serial, readers),
        "interpreter lock": HOUR / locked,
        f"processor time of {cores} cores": cores * HOUR / sum(cpu.values()),
        "engine with full calls": HOUR / full,
    }
    last = min(list(limits)[1:], key=limits.__getitem__)
    return {**limits, "ends at": limits[last], "stage that ends it": last}
