"""A recording from beginning to end: whisperbatch in several ways, and faster-whisper beside it.

    first       seconds until the first segment
    calls, rows calls of the decoder, and the mean number of rows in a call
    cores       processors that were busy on average
    GPU %       percent of the time in which a kernel ran; with the peak memory of the device

Two minutes warm up each model: libraries load kernels when they are first needed. Models with
random weights decode each row once, because their texts fail every audit.
"""

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

import whisperbatch as wb
from benchmarks import rivals, timing
from benchmarks.gpu.machine import gpu_use
from benchmarks.gpu.running import Figures, Rows
from benchmarks.gpu.simulation import HAS_READERS

Keywords: TypeAlias = dict[str, Any]
RIVAL: Final = "faster-whisper-batched"
BEAMS: Final = (1, 5)
RIVAL_BATCHES: Final = (16, 64)
WARM_UP: Final = 120.0  # seconds of audio
CORES: Final = (2, 8, 16)
CPU_BATCH: Final = 8


@dataclass(frozen=True, slots=True)
class Case:
    """A way to transcribe the recording.

    Attributes:
        name: in the table.
        settings: of `load`.
        options: of `transcribe`.
    """

    name: str
    settings: Keywords = field(default_factory=dict)
    options: Keywords = field(default_factory=dict)


def cases() -> list[Case]:
    """Return the cases of a GPU, the most important first; those of a model are together."""
    two: Keywords = {"inter_threads": 2}
    one: Keywords = {"inter_threads": 1}
    found = [Case("as it is"), Case("five beams", options={"beam_size": 5})]
    if HAS_READERS:
        found.append(Case("one reader", options={"readers": 1}))
    return [
        *found,
        Case("no VAD", options={"vad": False}),
        Case("two workers", two),
        Case("one worker", one),
    ]


def whisperbatch(
    model: str, path: Path, seconds: float, *, device: str = "cuda", random: bool = True
) -> Rows:
    """Yield the figures of each case.

    Args:
        model: name or directory.
        path: the recording.
        seconds: its duration.
        device: "cuda", or "cpu" to try the program out.
        random: whether the weights are random.
    """
    basic: Keywords = {"language": "en", "beam_size": 1}
    if random:
        basic |= rivals.NO_RETRIES
    with ExitStack() as stack:
        loaded: tuple[Keywords, wb.Transcriber] | None = None
        for case in cases():
            if loaded is None or loaded[0] != case.settings:
                stack.close()
                settings: Keywords = {
                    "engine": "ctranslate2",
                    "device": device,
                    **case.settings,
                }
                loaded = case.settings, stack.enter_context(wb.load(model, **settings))
                warm_up(loaded[1], path, basic)
            yield (
                f"whisperbatch, {case.name}",
                _transcribe(loaded[1], path, seconds, {**basic, **case.options}),
            )


def warm_up(asr: wb.Transcriber, path: Path, options: Keywords) -> None:
    """Transcribe the beginning of the recording."""
    asr.transcribe(path, **{**options, "clip_timestamps": ((0.0, WARM_UP),)})


def _transcribe(asr: wb.Transcriber, path: Path, seconds: float, options: Keywords) -> Figures:
    before = asr.activity
    with measured(seconds) as found, asr.stream(path, **options) as segments:
        found.read(segments)
    after = asr.activity
    calls = after.calls - before.calls
    return {
        **found.figures,
        "calls": calls,
        "rows per call": (after.rows - before.rows) / max(calls, 1),
    }


@dataclass(slots=True)
class Measured:
    """The figures of a transcription.

    Attributes:
        started: when it began, of `time.perf_counter`.
        first: when the first segment came.
        figures: at the end.
    """

    started: float
    first: float | None = None
    figures: Figures = field(default_factory=dict)

    def read(self, segments: Iterable[object]) -> None:
        """Read all segments, and note when the first came."""
        for _ in segments:
            self.add("")

    def add(self, _: str) -> None:
        """Note a segment."""
        self.first = self.first or time.perf_counter()


@contextmanager
def measured(seconds: float) -> Iterator[Measured]:
    """Measure the time, the processors and the GPU of a `with` block.

    Args:
        seconds: duration of the recording.
    """
    cpu = time.process_time()
    with gpu_use() as use:
        found = Measured(time.perf_counter())
        yield found
        took = time.perf_counter() - found.started
    found.figures = {
        "times real time": seconds / took,
        "first": (found.first or found.started + took) - found.started,
        "cores": (time.process_time() - cpu) / took,
        **use.figures(),
    }


def faster_whisper(
    model: str,
    path: Path,
    seconds: float,
    beginning: Path,
    *,
    device: str = "cuda",
    batches: Sequence[int] = RIVAL_BATCHES,
) -> Rows:
    """Yield the figures of faster-whisper's batched mode. It computes no word times by default.

    Args:
        model: directory.
        path: the recording.
        seconds: its duration.
        beginning: a short recording, to warm up.
        device: "cuda", or "cpu" to try the program out.
        batches: batch sizes.
    """
    for beam in BEAMS:
        for batch in batches:
            with ExitStack() as stack:
                setup = rivals.Setup(model, beam, device, batch)  # type: ignore[arg-type]  # a Device
                run = rivals.SYSTEMS[RIVAL].open(setup, stack)
                run([str(beginning)], lambda _: None)
                with measured(seconds) as found:
                    run([str(path)], found.add)
            yield f"faster-whisper batched, batch {batch}, beam {beam}", found.figures


def on_cores(model: str, path: Path, seconds: float, counts: Sequence[int] = CORES) -> Rows:
    """Yield the speed of both programs on a CPU with some of its cores, each in its own process.

    Args:
        model: name or directory.
        path: the recording.
        seconds: its duration.
        counts: numbers of cores; a number that the machine does not have is left out.
    """
    cores = sorted(os.sched_getaffinity(0))
    for count in counts:
        if count > len(cores):
            continue
        os.sched_setaffinity(0, cores[:count])
        for system in ("whisperbatch", RIVAL):
            task = timing.Task(
                system=system,
                model=model,
                beam=1,
                device="cpu",
                batch_size=CPU_BATCH,
                paths=[str(path)],
                decodes_once=Path(model).is_dir(),
            )
            found = timing.in_process(task)
            yield (
                f"{system}, {count} cores",
                {
                    "times real time": seconds / found["took"],
                    "first": found["first"],
                    "cores": found["cpu"] / found["took"],
                },
            )
