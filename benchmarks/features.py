"""Compare the feature extractors: speed, and difference from faster-whisper's.

    python benchmarks/features.py [--seconds 300] [--rounds 7] [--n-mels 80] [FILE]

FILE is any recording that PyAV reads; without it noise and tones are generated. Every extractor
takes the audio in chunks of 30 s, as the pipeline does. Rounds are interleaved, so that whatever
else the machine does falls on all alike; the table gives medians.
"""

import argparse
import os
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeAlias

import numpy as np
from faster_whisper.audio import decode_audio
from faster_whisper.feature_extractor import FeatureExtractor as Reference

from whisperbatch.errors import MissingExtraError
from whisperbatch.features import feature_extractor
from whisperbatch.options import FeatureKind
from whisperbatch.types import SAMPLING_RATE, WINDOW, Features, Samples

KINDS: tuple[FeatureKind, ...] = ("whisper", "kaldi-mel", "kaldi-fbank")
NOISE = 0.02  # standard deviation, beside tones of amplitude 0.1

Extract: TypeAlias = Callable[[Samples], Features]
Run: TypeAlias = Callable[[], list[Features]]


def generate(seconds: int) -> Samples:
    """Tones that swell and fade in noise, shape (seconds * 16000,)."""
    rng = np.random.default_rng(0)
    seconds_in = np.arange(seconds * SAMPLING_RATE) / SAMPLING_RATE
    swell = np.sin(np.pi * 0.4 * seconds_in) ** 4
    tones = sum(np.sin(2 * np.pi * hertz * seconds_in) for hertz in (140, 700, 2500))
    return (swell * 0.1 * tones + NOISE * rng.standard_normal(len(swell))).astype(np.float32)


def load(arguments: argparse.Namespace) -> list[Samples]:
    """The audio in chunks of 30 s."""
    if arguments.file:
        samples = decode_audio(arguments.file)[: arguments.seconds * SAMPLING_RATE]
    else:
        samples = generate(arguments.seconds)
    return [samples[start : start + WINDOW] for start in range(0, len(samples), WINDOW)]


def prepare(chunks: list[Samples], pool: ThreadPoolExecutor, n_mels: int) -> dict[str, Run]:
    """What is timed, by name; each run gives the features of every chunk."""
    reference = Reference(feature_size=n_mels)

    def runs(extract: Extract) -> tuple[Run, Run]:
        return (
            lambda: [extract(chunk) for chunk in chunks],
            lambda: list(pool.map(extract, chunks)),
        )

    table: dict[str, Run] = {}
    table["faster-whisper"], table["faster-whisper, pool"] = runs(
        lambda samples: reference(samples)[:, :-1]
    )
    for kind in KINDS:
        try:
            table[kind], table[f"{kind}, pool"] = runs(feature_extractor(kind, n_mels))
        except MissingExtraError as error:
            print(f"left out: {error}")
    return table


def measure(table: dict[str, Run], rounds: int) -> dict[str, float]:
    """Median seconds of each run, after one that does not count."""
    taken: dict[str, list[float]] = {name: [] for name in table}
    for number in range(rounds + 1):
        for name, run in table.items():
            start = time.perf_counter()
            run()
            if number:
                taken[name].append(time.perf_counter() - start)
    return {name: statistics.median(times) for name, times in taken.items()}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", nargs="?")
    parser.add_argument("--seconds", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--n-mels", type=int, default=80)
    arguments = parser.parse_args()
    chunks = load(arguments)
    seconds = sum(map(len, chunks)) / SAMPLING_RATE
    print(f"{seconds:.0f} s, {arguments.n_mels} mels, pools of {arguments.threads} threads")
    with ThreadPoolExecutor(arguments.threads) as pool:
        table = prepare(chunks, pool, arguments.n_mels)
        medians = measure(table, arguments.rounds)
    base = medians["faster-whisper"]
    print(f"{'':22}{'ms':>9}{'x real time':>13}{'x faster-whisper':>18}")
    for name, taken in medians.items():
        print(f"{name:22}{taken * 1000:9.1f}{seconds / taken:13,.0f}{base / taken:18.2f}")
    report_differences(table)


def report_differences(table: dict[str, Run]) -> None:
    """Print how far each kind is from faster-whisper, and its own mean and deviation."""
    expected = np.concatenate(table["faster-whisper"](), axis=1)
    print(f"\n{'from faster-whisper':22}{'largest':>12}{'99.9 %':>12}{'mean':>12}", end="")
    print(f"{'its mean':>12}{'deviation':>12}")
    for kind in KINDS:
        if kind not in table:
            continue
        features = np.concatenate(table[kind](), axis=1)
        difference = np.abs(features - expected)
        figures = (
            difference.max(),
            np.quantile(difference, 0.999),
            difference.mean(),
            features.mean(),
            features.std(),
        )
        print(f"{kind:22}" + "".join(f"{figure:12.2g}" for figure in figures))


if __name__ == "__main__":
    main()
