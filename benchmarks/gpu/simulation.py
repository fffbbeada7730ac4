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
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import whisperbatch as wb
from benchmarks.gpu.running import ROOT, Figures, Rows
from benchmarks.stage_times import Method, timed_methods
from tests.unit.latency_engine import LatencyEngine
from whisperbatch.options import Options
from whisperbatch.vad import open_vad

HOUR: Final = 3600.0
NETWORK: Final = "VAD network"
ENGINE: Final = "engine"  # what the simulation itself computes
STAGES: Final = (  # of this version and of versions to compare with: missing ones are skipped
    ("reading", "whisperbatch.audio.reader:AudioReader.blocks"),
    (NETWORK, "whisperbatch.vad.silero:SileroStream.push"),
    ("VAD levels", "whisperbatch.vad.levels:CalibratedVad.__call__"),
    ("chunks", "whisperbatch.pipeline_run:chunk_recording"),
    ("features", "whisperbatch.features.whisper:WhisperFeatures.__call__"),
    ("texts", "whisperbatch.decoding.chunk_decoder:ChunkDecoder.__call__"),
    (ENGINE, "tests.unit.latency_engine:LatencyEngine.encode"),
    (ENGINE, "tests.unit.fakes:FakeEngine.decode"),
)
COLUMNS: Final = ("reading", NETWORK, "VAD levels", "chunks", "features", "texts", "rest")
HAS_READERS: Final = any(each.name == "readers" for each in fields(Options))


def transcribe(path: Path, seconds: float, **options: Any) -> Figures:  # noqa: ANN401 - of Options
    """Transcribe a recording on the simulated engine, and return the figures of its row."""
    open_vad(Options())  # loading it takes a second
    engine = LatencyEngine()
    with wb.Transcriber(engine) as asr, timed_methods(methods()) as times:
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


def methods() -> list[Method]:
    """Return the methods of `STAGES` that exist."""
    found: list[Method] = []
    for stage, path in STAGES:
        module, _, name = path.partition(":")
        owner, _, method = name.rpartition(".")
        try:
            place = import_module(module)
            place = getattr(place, owner) if owner else place
            getattr(place, method)
        except (ImportError, AttributeError):
            continue
        found.append((stage, place, method, None))
    return found


def cpu_seconds() -> float:
    """Return the processor time of this process and of its children that have ended."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def simulate(path: Path, seconds: float) -> Rows:
    """Yield the figures of a format as it is by default, and with one and eight readers.

    With another version of whisperbatch, the names of the rows end with "before".
    """
    name = path.suffix.lstrip(".")
    if Path(wb.__file__).parents[1] != ROOT:
        name += ", before"
    yield name, transcribe(path, seconds)
    if HAS_READERS:
        for readers in (1, 8):
            yield f"{name}, readers={readers}", transcribe(path, seconds, readers=readers)
