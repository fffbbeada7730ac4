"""Reading, VAD and chunks, in threads and in processes; and what more cores would reach.

On two cores, one thread reads two recordings in turn; two threads, and for comparison two
processes, read them at the same time. The speed-up of the processes is the number of cores that
this machine really gives. With this number, the speed-up of the threads says which share of the
time is spent under the interpreter lock (Amdahl's law), and this share says what more cores would
reach. If one thread got much less than a whole core, other programs were busy, and the figures mean
little.
"""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Final

from benchmarks.gpu.running import Figures, Rows
from benchmarks.gpu.simulation import COLUMNS, HOUR, NETWORK
from tests.unit.latency_engine import decoding, encoding
from whisperbatch.audio.reader import open_audio
from whisperbatch.engines.memory import MAX_BATCH_SIZE
from whisperbatch.options import Options
from whisperbatch.sections import chunk_recording
from whisperbatch.types import SAMPLING_RATE, SECTION, WINDOW, Span, SpanSource, to_seconds
from whisperbatch.vad import open_vad

WARM_UP: Final = 0.2  # seconds; so that each worker of a pool takes part
READING: Final = ("reading", NETWORK, "VAD levels", "chunks")  # stages of the reading thread
DETECTION: Final = "reading and VAD"
CHUNKS: Final = "reading, VAD and chunks"
OUTLOOK: Final = "16 cores: calculated limits of the speed"
MIN_CORES: Final = 1.1  # with less, other programs took the second core
ROUNDS: Final = 3
THREADS: Final = (1, 2, 4, 8)


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


def warm_up(_: object) -> None:
    """Load the VAD in a worker."""
    open_vad(Options())
    time.sleep(WARM_UP)


def seconds_of(pool: Executor, function: Callable[[Path], None], paths: Sequence[Path]) -> float:
    """Return the seconds in which the workers of a pool call a function once for each path."""
    started = time.perf_counter()
    list(pool.map(function, paths))
    return time.perf_counter() - started


@contextmanager
def two_cores() -> Iterator[None]:
    """Run on two cores until the end of a `with` block, with the threads that start in it."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(cores)[:2])
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)


def on_two_cores(first: Path, second: Path, seconds: float) -> Rows:
    """Yield the speed of reading and VAD, then with chunks, of one and two threads.

    The rounds take turns, and medians count.

    Args:
        first: a recording.
        second: another one of the same duration.
        seconds: duration of each.
    """
    context = get_context("spawn")
    with (
        two_cores(),
        ThreadPoolExecutor(1) as one,
        ThreadPoolExecutor(2) as two,
        ProcessPoolExecutor(2, context) as processes,
    ):
        pools: dict[str, Executor] = {"1 thread": one, "2 threads": two, "2 processes": processes}
        for pool in pools.values():
            list(pool.map(warm_up, [first, second]))
        for name, function in ((DETECTION, read_and_detect), (CHUNKS, read_and_divide)):
            took: dict[str, list[float]] = {key: [] for key in pools}
            shares = []
            for _ in range(ROUNDS):
                for key, pool in pools.items():
                    cpu = time.process_time()
                    took[key].append(seconds_of(pool, function, [first, second]))
                    if pool is one:
                        shares.append((time.process_time() - cpu) / took[key][-1])
            medians = {key: median(found) for key, found in took.items()}
            yield name, {**_speeds(medians, 2 * seconds), "core of 1 thread": median(shares)}


def _speeds(took: dict[str, float], seconds: float) -> Figures:
    threads = took["1 thread"] / took["2 threads"]
    processes = took["1 thread"] / took["2 processes"]
    return {
        **{key: seconds / value for key, value in took.items()},
        "speed-up of 2 threads": threads,
        "speed-up of 2 processes": processes,
        "share under the lock": lock_share(threads, processes),
    }


def spans_in_threads(path: Path, seconds: float) -> Rows:
    """Yield the speed of reading, VAD and chunks of one recording, with its spans in threads."""
    last = max(round(seconds * SAMPLING_RATE) // SECTION - 1, 0)
    spans = [*(Span(number, number + 1) for number in range(last)), Span(last)]
    warm_up(path)
    for count in THREADS:
        cpu, started = time.process_time(), time.perf_counter()
        with ThreadPoolExecutor(count) as pool:
            list(pool.map(lambda span: read_span(path, span), spans))
        took = time.perf_counter() - started
        cores = (time.process_time() - cpu) / took
        yield f"{count} threads", {"times real time": seconds / took, "cores used": cores}


def read_span(path: Path, span: Span) -> None:
    """Read a span of a recording, compute its VAD, and make its chunks."""
    options = Options(language="en")
    with open_audio(SpanSource(str(path), span)) as reader:
        for _ in chunk_recording(
            *(reader.blocks(), options, open_vad(options)), span=reader.span, position=reader.start
        ):
            pass


def lock_share(threads: float, processes: float) -> float:
    """Return the serial share of Amdahl's law, from 0 to 1, that a measured speed-up shows.

    Args:
        threads: speed-up of threads.
        processes: speed-up of as many processes, which share no lock.
    """
    cores = max(processes, MIN_CORES)
    serial = (cores / threads - 1) / (cores - 1)
    return min(max(serial, 0.0), 1.0)


def speed_up(serial: float, workers: int) -> float:
    """Return how much faster several workers are than one, if a share of the time is serial."""
    return 1 / (serial + (1 - serial) / workers)


def outlook(simulated: Figures, front: Figures, cores: int = 16) -> Figures:
    """Calculate what a machine with more cores of this kind reaches, from measurements on this one.

    Each limit is a speed, in times real time; the lowest decides. All of the processor time of
    texts and of the rest counts as spent under the interpreter lock, which is the worst case.

    Args:
        simulated: figures of an hour; see `simulation.transcribe`.
        front: figures of reading, VAD and chunks; see `on_two_cores`.
        cores: number of cores; half of them read.

    Returns:
        The limits; `ends at`, the lowest limit of several readers, and its stage.
    """
    cpu = {name: simulated[f"CPU {name}"] for name in COLUMNS}
    reading = sum(cpu[name] for name in READING)
    serial, readers = front["share under the lock"], max(cores // 2, 1)
    calls = HOUR / to_seconds(WINDOW) / MAX_BATCH_SIZE
    engine = calls * max(encoding(MAX_BATCH_SIZE), decoding(MAX_BATCH_SIZE))  # of two workers
    limits = {
        "one reader": HOUR / reading,
        f"{readers} readers in threads": HOUR / reading * speed_up(serial, readers),
        "interpreter lock": HOUR / (serial * reading + cpu["texts"] + cpu["rest"]),
        f"processor time of {cores} cores": cores * HOUR / sum(cpu.values()),
        "engine with full calls": HOUR / engine,
    }
    stage = min(list(limits)[1:], key=limits.__getitem__)
    return {**limits, "ends at": limits[stage], "stage": stage}
