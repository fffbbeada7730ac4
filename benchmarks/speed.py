"""Speed, first segment, memory and errors beside faster-whisper's two modes, interleaved.

python -m benchmarks.speed                                       # ten minutes, beam 1
python -m benchmarks.speed --beams 1 5 --rounds 3 --json out.json --plot out.png
python -m benchmarks.speed --recordings prompts:en:600:0 dense:en:600:0
python -m benchmarks.speed --minutes 10 180                      # memory by length
python -m benchmarks.speed --files 100                           # clips of 5 s

Every measurement has a process of its own: the model is loaded and warmed up, then the clock
runs from the call to the last segment. Reading the file, voice activity detection, features,
encoder, decoder and the placing of text are all in it. Each round has every system once; the
table gives medians.

    times       seconds of recording for each second
    ratio       of that to the first system's
    first       seconds to the first segment
    peak        MB that the process has ever held
    CPU         seconds of processor time for each minute of recording

Systems: whisperbatch (with what "auto" takes), whisperbatch-ctranslate2, faster-whisper,
faster-whisper-batched; and, where PyTorch is installed, whisperbatch-torch.
"""

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeAlias, TypedDict, cast

import numpy as np

import whisperbatch as wb
from benchmarks import corpora, recordings, scoring
from benchmarks.recordings import SAMPLING_RATE
from whisperbatch.models import find_model

SYSTEMS = ("whisperbatch", "whisperbatch-ctranslate2", "faster-whisper", "faster-whisper-batched")
TORCH = "whisperbatch-torch"
PACKAGES = ("whisperbatch", "faster-whisper", "ctranslate2", "openvino", "numpy", "av")
CLIP = 5.0  # seconds
BATCH = 8  # of faster-whisper's; whisperbatch has its own

Texts: TypeAlias = Iterator[str]
Run: TypeAlias = Callable[[list[str]], Texts]  # of paths


class Task(TypedDict):
    """What a process is asked for."""

    system: str
    beam: int
    model: str
    paths: list[str]


class Figures(TypedDict):
    """What it reports."""

    loaded: float  # seconds to load the model
    took: float  # seconds from the call to the last segment
    first: float  # to the first one
    cpu: float  # seconds of processor time
    peak: float  # MB
    text: str


def ours(model: str, engine: str, beam: int, stack: ExitStack) -> Run:
    """Streams one recording; fills batches from several."""
    kind = cast("Any", engine)
    loaded = (
        wb.load(model, device="cpu", engine=kind)
        if engine == "torch"
        else wb.load(model, device="cpu", compute_type="int8", encoder=kind, decoder=kind)
    )
    asr = stack.enter_context(loaded)

    def run(paths: list[str]) -> Texts:
        if len(paths) == 1:
            with asr.stream(paths[0], language="en", beam_size=beam) as segments:
                for segment in segments:
                    yield segment.text
            return
        for found in asr.transcribe_many(paths, language="en", beam_size=beam):
            yield found.text

    return run


def theirs(model: str, beam: int, *, batched: bool) -> Run:
    """One recording after the other."""
    from faster_whisper import BatchedInferencePipeline, WhisperModel  # noqa: PLC0415 - a rival

    rival = WhisperModel(str(find_model(model)), device="cpu", compute_type="int8")
    pipeline = BatchedInferencePipeline(rival)

    def run(paths: list[str]) -> Texts:
        for path in paths:
            if batched:
                segments, _ = pipeline.transcribe(
                    path, language="en", beam_size=beam, batch_size=BATCH
                )
            else:
                segments, _ = rival.transcribe(path, language="en", beam_size=beam)
            for segment in segments:
                yield segment.text

    return run


def peak() -> float:
    """The most memory that this process has held, in MB."""
    kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return kilobytes / (1024 * 1024 if sys.platform == "darwin" else 1024)


def measured(task: Task) -> Figures:
    """The task, done in this process."""
    with ExitStack() as stack, tempfile.TemporaryDirectory() as directory:
        started = time.perf_counter()
        if task["system"].startswith("whisperbatch"):
            engine = task["system"].partition("-")[2] or "auto"
            run = ours(task["model"], engine, task["beam"], stack)
        else:
            batched = task["system"] == "faster-whisper-batched"
            run = theirs(task["model"], task["beam"], batched=batched)
        loaded = time.perf_counter() - started
        silence = recordings.Recording("silence", np.zeros(SAMPLING_RATE, np.int16), ())
        list(run([str(recordings.write(silence, Path(directory, "silence.wav")))]))
        cpu, started, first, texts = time.process_time(), time.perf_counter(), 0.0, []
        for text in run(task["paths"]):
            first = first or time.perf_counter() - started
            texts.append(text)
        took = time.perf_counter() - started
        return Figures(
            loaded=loaded,
            took=took,
            first=first,
            cpu=time.process_time() - cpu,
            peak=peak(),
            text=" ".join(texts),
        )


def in_process(task: Task) -> Figures:
    """The same in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.speed", "--one", json.dumps(task)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    figures: Figures = json.loads(done.stdout.splitlines()[-1])
    return figures


class Work(TypedDict):
    """What is transcribed."""

    name: str
    seconds: float
    paths: list[str]
    truth: str | None


def works(chosen: argparse.Namespace, directory: Path) -> Iterator[Work]:
    """What was asked for, written to files."""
    for minutes in chosen.minutes:
        path = directory / f"{minutes:g}min.wav"
        recordings.long_wav(path, minutes / 60)
        yield Work(name=f"{minutes:g} minutes", seconds=minutes * 60, paths=[str(path)], truth=None)
    for count in chosen.files:
        whole = corpora.build(f"dense:en:{count * CLIP:g}:0").samples
        size = int(CLIP * SAMPLING_RATE)
        paths = []
        for number in range(count):
            part = whole[number * size : (number + 1) * size]
            clip = recordings.Recording(f"clip-{number}", part, ())
            paths.append(str(recordings.write(clip, directory / f"{count}-{number}.wav")))
        yield Work(name=f"{count} clips", seconds=count * CLIP, paths=paths, truth=None)
    for name in chosen.recordings:
        recording = corpora.build(name)
        path = recordings.write(recording, directory / f"{name.replace(':', '-')}.wav")
        yield Work(name=name, seconds=recording.duration, paths=[str(path)], truth=recording.text)


def compare(chosen: argparse.Namespace, work: Work) -> list[dict[str, Any]]:
    """A row of figures for each system and beam, printed as they come."""
    rows: list[dict[str, Any]] = []
    for beam in chosen.beams:
        found: dict[str, list[Figures]] = {name: [] for name in chosen.systems}
        for _ in range(chosen.rounds):
            for name, runs in found.items():
                task = Task(system=name, beam=beam, model=chosen.model, paths=work["paths"])
                runs.append(in_process(task))
        speeds = {
            name: work["seconds"] / statistics.median(run["took"] for run in runs)
            for name, runs in found.items()
        }
        for name, runs in found.items():
            truth = work["truth"]
            row = {
                "work": work["name"],
                "system": name,
                "beam": beam,
                "times": speeds[name],
                "ratio": speeds[name] / speeds[chosen.systems[0]],
                "first": statistics.median(run["first"] for run in runs),
                "peak": statistics.median(run["peak"] for run in runs),
                "cpu": statistics.median(run["cpu"] for run in runs) / work["seconds"] * 60,
                "wer": truth and 100 * scoring.word_error_rate(truth, runs[0]["text"]).rate,
            }
            rows.append(row)
            errors = f"{row['wer']:6.2f}" if row["wer"] is not None else "     -"
            print(
                f"{work['name']:20} {name:25} {beam:4} {row['times']:6.1f} {row['ratio']:6.2f} "
                f"{row['first']:6.2f} {row['peak']:6.0f} {row['cpu']:6.2f} {errors}",
                flush=True,
            )
    return rows


def about() -> dict[str, Any]:
    """The machine and the versions."""
    versions = {}
    for name in PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {"machine": platform.machine(), "cores": cores, "versions": versions}


def plot(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """Bars of times real time, a group for each work and beam."""
    from matplotlib.figure import Figure  # noqa: PLC0415 - only --plot needs it

    groups = list(dict.fromkeys((row["work"], row["beam"]) for row in rows))
    names = list(dict.fromkeys(row["system"] for row in rows))
    figure = Figure(figsize=(max(6.0, 2 + 1.6 * len(groups)), 4.5))
    axes = figure.add_subplot()
    width = 0.8 / len(names)
    for number, name in enumerate(names):
        own = {(row["work"], row["beam"]): row["times"] for row in rows if row["system"] == name}
        places = [n + (number - (len(names) - 1) / 2) * width for n in range(len(groups))]
        axes.bar(places, [own.get(group, 0.0) for group in groups], width, label=name)
    axes.set_xticks(range(len(groups)), [f"{work}\nbeam {beam}" for work, beam in groups])
    axes.set_ylabel("times real time")
    axes.legend(fontsize="small")
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Speed, memory and first segment.")
    parser.add_argument("--model", default="base")
    parser.add_argument("--systems", nargs="+", choices=(*SYSTEMS, TORCH), default=SYSTEMS)
    parser.add_argument("--beams", nargs="+", type=int, default=[1])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--recordings", nargs="+", type=corpora.argument, metavar="KIND:LANG:S:SEED", default=[]
    )
    parser.add_argument("--minutes", nargs="+", type=float, default=[])
    parser.add_argument("--files", nargs="+", type=int, default=[])
    parser.add_argument("--json", type=Path)
    parser.add_argument("--plot", type=Path)
    parser.add_argument("--one", type=json.loads, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.one:
        print(json.dumps(measured(chosen.one)))
        return
    if chosen.plot and not find_spec("matplotlib"):
        parser.error("--plot needs matplotlib: install the extra `eval`")
    if not (chosen.recordings or chosen.minutes or chosen.files):
        chosen.recordings = ["prompts:en:600:0"]
    rows: list[dict[str, Any]] = []
    print(
        f"{'':20} {'system':25} {'beam':>4} {'times':>6} {'ratio':>6} {'first':>6} {'peak':>6} "
        f"{'CPU':>6} {'WER %':>6}"
    )
    with tempfile.TemporaryDirectory() as directory:
        for work in works(chosen, Path(directory)):
            rows += compare(chosen, work)
    if chosen.json:
        value = {**about(), "model": chosen.model, "rows": rows}
        chosen.json.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")
    if chosen.plot:
        plot(rows, chosen.plot)


if __name__ == "__main__":
    main()
