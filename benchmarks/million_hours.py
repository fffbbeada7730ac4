"""Calculate what N hours of audio take: tasks, bytes, requests, machines, cost; and stragglers.

python -m benchmarks.million_hours                                # the calculation
python -m benchmarks.million_hours --machine-price 0.1 --get-price 0.0004   # and its cost
python -m benchmarks.million_hours --simulate                     # how spans change the finish

Tasks, spans and bytes come from a plan of a sample, made by the functions of `whisperbatch plan`.
The rates are arguments. Their defaults are measurements (RATES says of what), except the rate of a
GPU, which is an assumption. There are no default prices: without prices, the cost is a formula.
"""

import argparse
import json
import math
import secrets
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from random import Random
from typing import Final

from benchmarks.stragglers import Cluster, Order, Outcome, Simulation, recordings, tasks_of
from whisperbatch.jobs.leases import DURATION as LEASE
from whisperbatch.jobs.leases import RENEWALS
from whisperbatch.jobs.plans.format import Header, Plan, to_lines
from whisperbatch.jobs.plans.planning import TASK_DURATION, make_plan
from whisperbatch.jobs.plans.recordings import READ_RANGE
from whisperbatch.jobs.plans.stores import Store
from whisperbatch.jobs.workers.results import Results, SpanResult
from whisperbatch.jobs.workers.worker import MAX_TASKS
from whisperbatch.types import Segment, Transcript, Word

RATES: Final = {
    "cpu": (32.3, "base, beam 1, read speech, two cores of a Zen 4 (docs/reference/benchmarks.md)"),
    "gpu": (1000.0, "an assumption: whisperbatch was not measured on such a GPU"),
    "vad": (250.0, "decoding and VAD, one core of a Zen 4 (docs/explanation/performance.md)"),
    "features": (6000.0, "features, one core of a Zen 4 (docs/explanation/performance.md)"),
    "skip": (500.0, "decoding of MP3 at 44.1 kHz stereo, CPU time of one core of a Zen 4"),
}
"""Times real time, and where each comes from."""

SAMPLE_HOURS: Final = 2000.0
MAX_PLAN_BYTES: Final = 100e6
MAX_LEASING: Final = 100  # workers that share a plan by leases (docs/reference/plans.md)
LIST_PAGE: Final = 1000  # objects of a LIST request
DEATHS: Final = "deaths"
SPAN_LENGTHS: Final = (300.0, 600.0, 1200.0, 1800.0, 3600.0, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Audio:
    """The recordings.

    Attributes:
        hours: of all.
        median: length in seconds.
        spread: standard deviation of the logarithm of the lengths.
        bit_rate: bits per second.
        words: in an hour.
        seekable: whether spans are read from their start (WAV, FLAC), not from the recording's.
    """

    hours: float = 1e6
    median: float = 1200.0
    spread: float = 1.0
    bit_rate: float = 64_000.0
    words: float = 9000.0
    seekable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """What a job takes. Requests are those without failures and deaths."""

    recordings: float
    spans: float
    tasks: float
    plan_bytes: float
    plans: int
    result_bytes: float
    read_bytes: float
    decoded_hours: float
    puts_and_lists: float
    gets_and_heads: float
    machine_hours: float


@cache
def sample_plan(audio: Audio, task_duration: float) -> Plan:
    """Return the plan of a sample of about `SAMPLE_HOURS`, which must not have a 36-hour file."""
    lengths = recordings(36.0 + SAMPLE_HOURS, audio.median, audio.spread, Random(0))[1:]  # noqa: S311 - a sample
    rows = [
        {"uri": f"s3://talks/2026/11/talk-{number:08}.mp3", "duration": length, "etag": "e" * 32}
        for number, length in enumerate(lengths)
    ]
    header = Header(
        model="base",
        weights="w" * 32,
        speech_detector="v" * 32,
        references="",
        load={},
        options={"word_timestamps": True},
        task_duration=task_duration,
        fingerprint="f" * 32,
    )
    with tempfile.TemporaryDirectory() as folder:
        manifest = Path(folder, "sample.jsonl")
        manifest.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return make_plan([str(manifest)], header)


def result_bytes(words: int) -> int:
    """Return the size of the result of a span with this number of words, which have times."""
    said = [Word(n * 0.4 + 7200, n * 0.4 + 7200.36, " speech", 0.9123) for n in range(words)]
    segments = tuple(
        Segment(
            n, said[i].start, said[i].end, " speech" * 15, "en", -0.2512, 0.0113, 1.5012, 0.0,
            tuple(said[i : i + 15]),
        )
        for n, i in enumerate(range(0, words, 15))
    )  # fmt: skip
    transcript = Transcript(segments, "en", 1.0, 1800.0, "s3://talks/2026/11/talk-00000000.mp3")
    store = Store(f"memory://{secrets.token_hex()}")
    result = SpanResult(
        id="0" * 32, uri=transcript.source or "", worker="host-12345-abcdef", engine="e" * 64,
        started=1.8e9 + 0.123, finished=1.8e9 + 60.123, transcript=transcript,
    )  # fmt: skip
    Results(store).create(result)
    return len(store.read(next(iter(store.names("")))) or b"")


def totals(
    audio: Audio, *, task_duration: float, rate: float, workers: int, skip: float = math.inf
) -> Totals:
    """Calculate a job.

    Args:
        audio: the recordings.
        task_duration: as in `plan`.
        rate: times real time of a worker.
        workers: how many.
        skip: times real time of a worker that decodes audio before its span.
    """
    plan = sample_plan(audio, task_duration)
    scale = audio.hours * 3600 / plan.header.duration
    spans = [span for task in plan.tasks for span in task.spans]
    seconds = [span.duration + (0.0 if audio.seekable else span.first * 300.0) for span in spans]
    ranges = [max(math.ceil(each * audio.bit_rate / 8 / READ_RANGE), 1) for each in seconds]
    decoded = sum(seconds)
    plan_bytes = sum(map(len, to_lines(plan))) * scale
    plans = max(math.ceil(plan_bytes / MAX_PLAN_BYTES), math.ceil(workers / MAX_LEASING))
    divided = sum(recording.language_task is not None for recording in plan.recordings)
    of_divided = sum(span.language_task is not None for span in spans)
    renewals = plan.header.duration / rate * MAX_TASKS / (LEASE / RENEWALS)
    pages = len(spans) * scale / plans / LIST_PAGE
    # Each list of a plan's results is half full on average; `plan` and `join` list once more.
    lists = pages * (workers / 2 + plans) + len(plan.recordings) * scale / LIST_PAGE
    # PUT: results; leases, also of languages; languages; transcripts, each with its note
    written = len(spans) + len(plan.tasks) + renewals + 2 * divided + 2 * len(plan.recordings)
    # HEAD and GET: version and header in `plan`; version and ranges of each span, the first
    # result of each task, and the next lease before an extension in `work`; results in `join`
    read = len(plan.recordings) * 2 + len(spans) * 2 + sum(ranges) + len(plan.tasks) + renewals
    words = audio.words * plan.header.duration / 3600
    return Totals(
        recordings=len(plan.recordings) * scale,
        spans=len(spans) * scale,
        tasks=len(plan.tasks) * scale,
        plan_bytes=plan_bytes,
        plans=plans,
        result_bytes=(result_bytes(3000) / 3000 * words + result_bytes(0) * len(spans)) * scale,
        read_bytes=sum(seconds) * audio.bit_rate / 8 * scale,
        decoded_hours=decoded / 3600 * scale,
        puts_and_lists=(written + len(plan.tasks) + divided) * scale + lists,
        gets_and_heads=(read + of_divided) * scale + workers,
        machine_hours=audio.hours / rate + (decoded - plan.header.duration) / 3600 * scale / skip,
    )


def cores_per_gpu(gpu: float, vad: float, features: float) -> float:
    """Return the cores that decode audio, detect speech and compute features for a GPU.

    Args:
        gpu: times real time of the GPU.
        vad: times real time of a core, for decoding and speech detection.
        features: times real time of a core, for features.
    """
    return gpu * (1 / vad + 1 / features)


def cost_lines(total: Totals, prices: dict[str, float | None]) -> Iterator[str]:
    """Yield the cost: each quantity times its price, and their sum if all prices are given."""
    quantities = {
        "machine": (total.machine_hours, "machine hours"),
        "put": (total.puts_and_lists / 1000, "thousand PUT and LIST"),
        "get": (total.gets_and_heads / 1000, "thousand GET and HEAD"),
        "transfer": (total.read_bytes / 1e9, "GB read"),
        "storage": (total.result_bytes / 1e9, "GB of results, each month"),
    }
    cost = 0.0
    for name, (quantity, unit) in quantities.items():
        price = prices.get(name)
        cost += quantity * (price or 0.0)
        shown = f"--{name}-price" if price is None else f"{price:g} = {quantity * price:,.0f}"
        yield f"  {quantity:>14,.0f} {unit:26} x {shown}"
    missing = [f"--{name}-price" for name in quantities if prices.get(name) is None]
    yield f"  sum {cost:,.0f}" + (f", without {', '.join(missing)}" if missing else "")


def calculation_lines(arguments: argparse.Namespace) -> Iterator[str]:
    """Yield the calculation for machines with CPUs and with GPUs."""
    audio = Audio(
        hours=arguments.hours,
        median=arguments.median * 60,
        bit_rate=arguments.bit_rate * 1000,
        seekable=arguments.seekable,
    )
    for name, (_, source) in RATES.items():
        yield f"{name + ' rate':14}{getattr(arguments, f'{name}_rate'):8,.0f} x  {source}"
    prices = {name: getattr(arguments, f"{name}_price") for name in PRICES}
    for kind in ("cpu", "gpu"):
        rate, workers = getattr(arguments, f"{kind}_rate"), getattr(arguments, f"{kind}s")
        total = totals(
            audio,
            task_duration=arguments.task_duration,
            rate=rate,
            workers=workers,
            skip=arguments.skip_rate if kind == "cpu" else math.inf,  # a GPU has cores for this
        )
        yield f"\n{audio.hours:,.0f} hours on {workers:,} workers of kind {kind}"
        yield f"  recordings {total.recordings:,.0f}"
        yield f"  spans {total.spans:,.0f}, tasks {total.tasks:,.0f}"
        yield f"  plan {total.plan_bytes / 1e6:,.0f} MB: {total.plans} plans"
        yield f"  results {total.result_bytes / 1e9:,.0f} GB"
        yield f"  audio read {total.read_bytes / 1e12:,.1f} TB"
        yield f"  audio decoded {total.decoded_hours:,.0f} hours"
        yield f"  at least {total.machine_hours / workers:,.1f} hours"
        if kind == "gpu":
            cores = cores_per_gpu(rate, arguments.vad_rate, arguments.features_rate)
            skipped = max(total.decoded_hours / audio.hours - 1, 0.0) * rate / arguments.skip_rate
            yield f"  cores for each GPU {cores:.1f}, and {skipped:.1f} for audio before the spans"
        yield from cost_lines(total, prices)


def mean_of(outcomes: Sequence[Outcome]) -> tuple[float, float, float]:
    """Return the means of ratio, repeated work and waiting."""
    count = len(outcomes)
    return (
        sum(outcome.ratio for outcome in outcomes) / count,
        sum(outcome.repeated for outcome in outcomes) / count,
        sum(outcome.waited for outcome in outcomes) / count,
    )


def simulation_lines(arguments: argparse.Namespace) -> Iterator[str]:
    """Yield a table: the finishing time for each length of spans, relative to the ideal."""
    calm = Cluster(workers=arguments.workers, rate=arguments.cpu_rate, spread=arguments.spread)
    mortal = replace(calm, deaths=arguments.deaths)
    columns: dict[str, tuple[Cluster, Order]] = {
        "calm": (calm, "longest first"),
        "calm, random order": (calm, "random"),
        "calm, MP3": (replace(calm, skipping=arguments.skip_rate), "longest first"),
        DEATHS: (mortal, "longest first"),
        "leases of 2 min": (replace(mortal, lease=120.0), "longest first"),
        "with a signal": (replace(mortal, warned=1.0), "longest first"),
        "10 shards for each worker": (replace(mortal, shards=10), "longest first"),
        "1 shard": (replace(mortal, shards=1), "longest first"),
    }
    hours = arguments.workers * arguments.hours_each
    yield f"{calm.workers} workers, {hours:,.0f} hours"
    yield f"deaths of a worker in an hour: {arguments.deaths:g}"
    yield f"| span, min | tasks | {' | '.join(columns)} | repeated by deaths |"
    yield "|---|---|" + "---|" * (len(columns) + 1)
    for longest in SPAN_LENGTHS:
        shown, repeated = [], 0.0
        for name, (cluster, order) in columns.items():
            outcomes = []
            for seed in range(arguments.seeds):
                rng = Random(seed)  # noqa: S311 - a simulation
                lengths = recordings(hours, arguments.median * 60, 1.0, rng)
                tasks = tasks_of(lengths, longest, longest or TASK_DURATION)
                outcomes.append(Simulation(tasks, cluster, order, rng).run())
            ratio, lost, _ = mean_of(outcomes)
            repeated = lost if name == DEATHS else repeated
            shown.append(f"{ratio:.2f}")
        span = f"{longest / 60:.0f}" if longest else "whole"
        yield f"| {span} | {len(tasks):,} | {' | '.join(shown)} | {repeated:.1%} |"


PRICES: Final = ("machine", "put", "get", "transfer", "storage")


def main() -> None:
    """Print the calculation, or the simulation."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add = parser.add_argument
    add("--hours", type=float, default=1e6, help="of audio")
    add("--median", type=float, default=20.0, help="length of a recording in minutes")
    add("--bit-rate", type=float, default=64.0, help="of the recordings, in kbit/s")
    add("--seekable", action="store_true", help="spans are read from their start (WAV, FLAC)")
    add("--task-duration", type=float, default=TASK_DURATION, help="seconds, as in plan")
    add("--cpus", type=int, default=1000, help="workers on CPUs")
    add("--gpus", type=int, default=100, help="workers on GPUs")
    for name, (rate, source) in RATES.items():
        add(f"--{name}-rate", type=float, default=rate, help=f"times real time; {source}")
    for name in PRICES:
        add(f"--{name}-price", type=float, help="list price of a unit; see the printed cost")
    add("--simulate", action="store_true", help="print the table of span lengths instead")
    add("--workers", type=int, default=100, help="of the simulation")
    add("--hours-each", type=float, default=50.0, help="of audio for each simulated worker")
    add("--spread", type=float, default=0.3, help="of the logarithm of the simulated speeds")
    add("--deaths", type=float, default=0.1, help="of a simulated worker in an hour")
    add("--seeds", type=int, default=3, help="simulations of each cell")
    arguments = parser.parse_args()
    lines = simulation_lines(arguments) if arguments.simulate else calculation_lines(arguments)
    for line in lines:
        print(line, flush=True)


if __name__ == "__main__":
    main()
