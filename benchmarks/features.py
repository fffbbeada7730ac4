"""Compare the feature extractors: their speed, and their difference from faster-whisper's.

    python -m benchmarks.features [--seconds 300] [--rounds 7] [--n-mels 80] [FILE]

FILE is any recording that PyAV can read. Without FILE, noise and tones are generated. Every
extractor gets the audio in chunks of 30 s. The rounds of the extractors are interleaved, so that
other load on the machine affects all extractors equally. The table shows medians.
"""

import argparse
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
from whisperbatch.runtimes.machine import available_cpus
from whisperbatch.types import SAMPLING_RATE, WINDOW, Features, Samples

KINDS: tuple[FeatureKind, ...] = ("whisper", "kaldi-mel", "kaldi-fbank")
NOISE = 0.02  # standard deviation; the tones have amplitude 0.1

Extract: TypeAlias = Callable[[Samples], Features]
Run: TypeAlias = Callable[[], list[Features]]


def generate(seconds: int) -> Samples:
    """Return tones of varying loudness in noise, shape (seconds * 16000,)."""
    rng = np.random.default_rng(0)
    time_axis = np.arange(seconds * SAMPLING_RATE) / SAMPLING_RATE
    envelope = np.sin(np.pi * 0.4 * time_axis) ** 4
    tones = sum(np.sin(2 * np.pi * hertz * time_axis) for hertz in (140, 700, 2500))
    noise = NOISE * rng.standard_normal(len(envelope))
    return (envelope * 0.1 * tones + noise).astype(np.float32)


def load(arguments: argparse.Namespace) -> list[Samples]:
    """Return the audio in chunks of 30 s."""
    if arguments.file:
        samples = decode_audio(arguments.file)[: arguments.seconds * SAMPLING_RATE]
    else:
        samples = generate(arguments.seconds)
    return [samples[start : start + WINDOW] for start in range(0, len(samples), WINDOW)]


def prepare(chunks: list[Samples], pool: ThreadPoolExecutor, n_mels: int) -> dict[str, Run]:
    """Return the functions to measure, by name; each returns the features of all chunks."""
    reference = Reference(feature_size=n_mels)

    def single_and_pooled(extract: Extract) -> tuple[Run, Run]:
        return (
            lambda: [extract(chunk) for chunk in chunks],
            lambda: list(pool.map(extract, chunks)),
        )

    runs: dict[str, Run] = {}
    runs["faster-whisper"], runs["faster-whisper, pool"] = single_and_pooled(
        lambda samples: reference(samples)[:, :-1]
    )
    for kind in KINDS:
        try:
            runs[kind], runs[f"{kind}, pool"] = single_and_pooled(feature_extractor(kind, n_mels))
        except MissingExtraError as error:
            print(f"skipped: {error}")
    return runs


def measure(runs: dict[str, Run], rounds: int) -> dict[str, float]:
    """Return the median seconds of each run. A first round warms up and is not measured."""
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for number in range(rounds + 1):
        for name, run in runs.items():
            start = time.perf_counter()
            run()
            if number:
                seconds[name].append(time.perf_counter() - start)
    return {name: statistics.median(times) for name, times in seconds.items()}


def main() -> None:
    """Measure the extractors, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", nargs="?")
    parser.add_argument("--seconds", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=available_cpus())
    parser.add_argument("--n-mels", type=int, default=80)
    arguments = parser.parse_args()
    chunks = load(arguments)
    seconds = sum(map(len, chunks)) / SAMPLING_RATE
    print(f"{seconds:.0f} s, {arguments.n_mels} mels, pools of {arguments.threads} threads")
    with ThreadPoolExecutor(arguments.threads) as pool:
        runs = prepare(chunks, pool, arguments.n_mels)
        medians = measure(runs, arguments.rounds)
    reference = medians["faster-whisper"]
    print(f"{'':22}{'ms':>9}{'x real time':>13}{'x faster-whisper':>18}")
    for name, median in medians.items():
        print(f"{name:22}{median * 1000:9.1f}{seconds / median:13,.0f}{reference / median:18.2f}")
    report_differences(runs)


def report_differences(runs: dict[str, Run]) -> None:
    """Print each kind's difference from faster-whisper, its mean and its deviation."""
    expected = np.concatenate(runs["faster-whisper"](), axis=1)
    print(f"\n{'from faster-whisper':22}{'largest':>12}{'99.9 %':>12}{'mean':>12}", end="")
    print(f"{'kind mean':>12}{'deviation':>12}")
    for kind in KINDS:
        if kind not in runs:
            continue
        features = np.concatenate(runs[kind](), axis=1)
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
