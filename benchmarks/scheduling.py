"""Measure the scheduler: full calls, the first segment, and clips next to a long recording.

python -m benchmarks.scheduling                                       # all parts, on base
python -m benchmarks.scheduling --parts calls speed --other ../old    # beside another checkout
python -m benchmarks.scheduling --parts clips --hours 3

The parts:

    fill     rows per call with long pauses, at batch sizes 8 and 64; the engine is simulated
    calls    rows per call and the first segment of built recordings
    speed    the time of recordings and of 200 files, in turns with another checkout (`--other`)
    clips    64 clips of 5 to 60 s, submitted at random times while a long recording is transcribed
"""

import argparse
import json
import os
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from statistics import mean, median
from typing import Any, Final

import numpy as np
import numpy.typing as npt

import whisperbatch as wb
from benchmarks import corpora
from benchmarks.arguments import add_recordings
from whisperbatch.audio.reader import AudioReader
from whisperbatch.protocols import Decoded, DecodeRequest, Encoded
from whisperbatch.types import SAMPLING_RATE

PARTS: Final = ("fill", "calls", "speed", "clips")
RECORDINGS: Final = ("prompts:en:300:0", "read:en:300:0", "pauses:en:600:0", "cafe:en:120:0")
CLIPS: Final = 64
CLIP_LENGTHS: Final = (5, 8, 12, 20, 30, 45, 60)  # seconds
FILES: Final = 200
MIXED: Final = (4, 7, 15, 30, 75)  # seconds: lengths of the mixed files
SPOKEN: Final = "prompts:en:600:0"  # recording that clips and files are cut from
Floats = npt.NDArray[np.float32]


class Calls:
    """Records the number of rows of each `decode` call of a Transcriber's engine."""

    def __init__(self, asr: wb.Transcriber) -> None:
        self.rows: list[int] = []
        engine: Any = asr.engine
        decode = engine.decode

        def counted(
            encoded: Encoded, requests: Sequence[DecodeRequest], options: object
        ) -> list[Decoded]:
            self.rows.append(len(requests))
            decoded: list[Decoded] = decode(encoded, requests, options)
            return decoded

        engine.decode = counted


def spoken(name: str = SPOKEN) -> Floats:
    """Return the samples of a built recording."""
    samples: Floats = (corpora.build(name).samples / 32768).astype(np.float32)
    return samples


def repeated(samples: Floats, seconds: float) -> AudioReader:
    """Return a reader that repeats samples, in blocks of 1 s, for a number of seconds."""

    def blocks() -> Iterator[Floats]:
        count = len(samples) // SAMPLING_RATE
        for second in range(round(seconds)):
            start = second % count * SAMPLING_RATE
            yield samples[start : start + SAMPLING_RATE]

    return AudioReader("repeated", blocks(), lambda: None)


def fill(batch_size: int, hours: float) -> str:
    """Return the rows per call of a recording with long pauses; each row takes 60 ms.

    The calls are counted from the first full call to the last full call: at the beginning and at
    the end of a recording, there are not enough rows.
    """
    from tests.unit.fakes import FakeEngine, noise  # noqa: PLC0415 - only for this part

    random, clips, position = Random(0), [], 0.0  # noqa: S311 - a measurement
    while position < hours * 3600 - 60:
        length = random.uniform(2, 29)
        clips.append((position, position + length))
        position += length + random.uniform(2, 20)
    engine = FakeEngine(delay={"decode": lambda rows: 0.06 * rows})
    with wb.Transcriber(engine) as asr:
        asr.transcribe(
            repeated(noise(60), hours * 3600),
            vad=False,
            language="en",
            batch_size=batch_size,
            clip_timestamps=tuple(clips),
        )
    calls = engine.batches
    full = [number for number, rows in enumerate(calls) if rows >= 0.8 * batch_size]
    steady = calls[full[0] : full[-1] + 1]
    return (
        f"batch size {batch_size:3d}: {mean(steady):5.1f} rows per call "
        f"({mean(steady) / batch_size:.0%}), {mean(calls):.1f} in all {len(calls)} calls"
    )


def transcribe(model: str, name: str, beam: int, language: str | None) -> dict[str, float]:
    """Transcribe a recording, or 200 mixed files ("mixed"), in this process."""
    with wb.load(model) as asr:
        calls = Calls(asr)
        asr.transcribe(spoken()[: 20 * SAMPLING_RATE], beam_size=beam)
        calls.rows.clear()
        many = pieces(MIXED, FILES) if name == "mixed" else []
        samples = spoken(SPOKEN if many else name)
        started = time.perf_counter()
        results: Iterator[object]
        if many:
            results = asr.transcribe_many(many, beam_size=beam, language=language)
        else:
            results = asr.stream(samples, beam_size=beam, language=language)
        next(results)
        first = time.perf_counter() - started
        deque(results, 0)
        took = time.perf_counter() - started
    return {"took": took, "first": first, "rows": mean(calls.rows), "calls": len(calls.rows)}


def pieces(lengths: Sequence[int], count: int) -> list[Floats]:
    """Cut pieces of random lengths out of the spoken recording."""
    samples, random = spoken(), Random(1)  # noqa: S311 - a measurement
    result = []
    for _ in range(count):
        length = random.choice(lengths) * SAMPLING_RATE
        start = random.randrange(len(samples) - length)
        result.append(samples[start : start + length])
    return result


def in_checkout(checkout: Path, *arguments: object) -> dict[str, float]:
    """Run `transcribe` in a separate process, with the code of a checkout."""
    command = [sys.executable, str(Path(__file__).resolve()), "--one", *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": str(checkout)}
    done = subprocess.run(
        command, cwd=checkout, env=environment, check=True, stdout=subprocess.PIPE, text=True
    )
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


def speed(model: str, other: Path, names: Sequence[str], beam: int, rounds: int) -> Iterator[str]:
    """Yield the time of each recording relative to the other checkout, in turns."""
    here = Path(__file__).resolve().parents[1]
    for name in names:
        results: dict[Path, list[dict[str, float]]] = {here: [], other: []}
        for number in range(rounds):
            for checkout in (here, other) if number % 2 else (other, here):
                results[checkout].append(in_checkout(checkout, model, name, beam))
        ratio = median(
            old["took"] / new["took"]
            for new, old in zip(results[here], results[other], strict=True)
        )
        new, old = results[here][-1], results[other][-1]
        yield (
            f"{name:20s} {ratio:5.2f} times the speed; rows per call {new['rows']:.1f} "
            f"({old['rows']:.1f}), first segment {new['first']:.1f} s ({old['first']:.1f})"
        )


def calls(model: str, name: str, beam: int, rounds: int) -> str:
    """Return the rows per call and the time of the first segment, as medians."""
    given = [transcribe(model, name, beam, "en") for _ in range(rounds)]
    detected = [transcribe(model, name, beam, None) for _ in range(rounds)]
    first = (median(figures["first"] for figures in runs) for runs in (given, detected))
    return (
        f"{name:20s} {given[0]['rows']:.1f} rows in each of {given[0]['calls']} calls; first "
        "segment {:.2f} s with a given language, {:.2f} s with a detected one".format(*first)
    )


def real_time(asr: wb.Transcriber, sources: Sequence[Floats], options: dict[str, Any]) -> float:
    """Return the speed of `transcribe_many`, as times real time."""
    started = time.perf_counter()
    transcripts = list(asr.transcribe_many(sources, ordered=False, **options))
    seconds: float = sum(transcript.duration for transcript in transcripts)
    return seconds / (time.perf_counter() - started)


def clips(model: str, beam: int, hours: float) -> Iterator[str]:
    """Yield the latency of clips next to a long recording, and the total throughput."""
    random, sources = Random(2), pieces(CLIP_LENGTHS, CLIPS)  # noqa: S311 - a measurement
    samples = spoken()
    options: dict[str, Any] = {"beam_size": beam, "language": "en"}
    with wb.load(model) as asr:
        asr.transcribe(samples[: 20 * SAMPLING_RATE], **options)
        alone = []
        for source in sources:
            started = time.perf_counter()
            asr.submit(source, **options).result()
            alone.append(time.perf_counter() - started)
        rate, clip_rate = (
            real_time(asr, many, options) for many in ([samples[: 300 * SAMPLING_RATE]], sources)
        )
        stream = asr.stream(repeated(samples, hours * 3600), **options)
        read: list[float] = []
        reader = threading.Thread(
            target=lambda: read.extend(segment.end for segment in stream), daemon=True
        )
        reader.start()
        while not read:
            time.sleep(0.05)
        begun, started = read[-1], time.perf_counter()
        span = hours * 3600 / rate
        beginnings = sorted(random.uniform(0, span) for _ in sources)
        beside = [0.0] * CLIPS

        def clip(number: int) -> None:
            time.sleep(max(started + beginnings[number] - time.perf_counter(), 0))
            submitted = time.perf_counter()
            asr.submit(sources[number], **options).result()
            beside[number] = time.perf_counter() - submitted

        threads = [threading.Thread(target=clip, args=(number,)) for number in range(CLIPS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        took = time.perf_counter() - started
        lengths = sum(len(source) for source in sources) / SAMPLING_RATE
        expected = (read[-1] - begun) / rate + lengths / clip_rate
        stream.close()
    ratios = sorted(new / old for new, old in zip(beside, alone, strict=True))
    yield (
        f"a clip takes {median(ratios):.1f} times as long as alone (median; "
        f"90 %: {ratios[int(0.9 * CLIPS)]:.1f}); {median(alone):.2f} s alone"
    )
    yield (
        f"throughput: {expected / took:.0%} of that of transcribe_many with the same audio "
        f"({rate:.1f} times real time for the long recording, {clip_rate:.1f} for the clips)"
    )


def main() -> None:
    """Measure the parts, and print their figures."""
    if "--one" in sys.argv:
        model, name, beam = sys.argv[sys.argv.index("--one") + 1 :]
        print(json.dumps(transcribe(model, name, int(beam), "en")))
        return
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--model", default="base")
    parser.add_argument("--beam", type=int, default=1)
    parser.add_argument("--other", type=Path, help="another checkout, for the part speed")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--hours", type=float, default=3.0, help="of the long recording")
    add_recordings(parser, RECORDINGS)
    arguments = parser.parse_args()
    if "fill" in arguments.parts:
        for batch_size, hours in ((8, 2.0), (64, 12.0)):
            print(fill(batch_size, hours), flush=True)
    if "calls" in arguments.parts:
        for name in arguments.recordings:
            print(calls(arguments.model, name, arguments.beam, arguments.rounds), flush=True)
    if "speed" in arguments.parts and arguments.other:
        names = [*arguments.recordings, "mixed"]
        other = arguments.other.resolve()
        for line in speed(arguments.model, other, names, arguments.beam, arguments.rounds):
            print(line, flush=True)
    if "clips" in arguments.parts:
        for line in clips(arguments.model, arguments.beam, arguments.hours):
            print(line, flush=True)


if __name__ == "__main__":
    main()
