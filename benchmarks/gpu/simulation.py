"""What the CPU does for a GPU: an hour with a simulated engine, and the front end in threads.

The simulated engine (tests/unit/latency_engine.py) waits as long as a H200 would compute a call of
large-v3-turbo. Everything else is real: reading, VAD, chunks, features, scheduling, texts. The
table of an hour has, besides its speed:

    calls, rows     calls of the decoder, and the mean number of rows in a call
    idle            share of the time in which a worker of the engine waited for rows
    CPU             seconds of processor time of each stage, for an hour of audio
"""

import resource
import time
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

import whisperbatch as wb
from benchmarks.gpu.running import Figures, Rows
from benchmarks.stage_times import Method, timed_methods
from tests.unit.fakes import FakeEngine
from tests.unit.latency_engine import LatencyEngine
from whisperbatch import pipeline_run
from whisperbatch.audio.reader import AudioReader
from whisperbatch.decoding.chunk_decoder import ChunkDecoder
from whisperbatch.features.whisper import WhisperFeatures
from whisperbatch.options import Options
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


def transcribe(path: Path, seconds: float, **options: Any) -> Figures:  # noqa: ANN401 - of Options
    """Transcribe a recording on the simulated engine, and return the figures of its row."""
    open_vad(Options())  # loading it takes a second
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


def simulate(path: Path, seconds: float) -> Rows:
    """Yield the figures of a format as it is by default, and with one and eight readers."""
    name = path.suffix.lstrip(".")
    yield name, transcribe(path, seconds)
    if HAS_READERS:
        for readers in (1, 8):
            yield f"{name}, readers={readers}", transcribe(path, seconds, readers=readers)
