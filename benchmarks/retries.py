"""Measure retries: word errors, time and engine calls with and without Whisper's temperatures.

python -m benchmarks.retries                                     # base
python -m benchmarks.retries --model tiny.en --recordings noise_under:en:300:0 telephone:en:300:0
python -m benchmarks.retries --policies default ladder --beam-size 1
python -m benchmarks.retries --snr 0                             # speech under noise

The policies:

    no retries   every row is decoded once
    default      failed rows are decoded again; no row is sampled
    ladder       the same, with temperatures 0 to 1 as the last strategy
    ladder only  temperatures 0 to 1 are the only strategy, as in openai/whisper

For each recording and policy, and for all recordings together:

    errors       word errors (substitutions, deletions, insertions), and their rate
    retried      number of chunks that were decoded again, of all chunks
    sampled      number of rows that were sampled
    calls        calls of the engine's decoder, and mean number of rows in a call
    cpu s        processor time, in one run
"""

import argparse
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from random import Random
from typing import Final
from unittest import mock

import numpy as np

import whisperbatch as wb
from benchmarks import corpora, scoring
from benchmarks.arguments import add_recordings
from benchmarks.recordings import Recording
from benchmarks.rivals import NO_RETRIES
from benchmarks.sounds import at_level, level, pink, rounded
from whisperbatch.decoding.retries import AuditedRow, Retry
from whisperbatch.options import OptionKeywords, Options, SearchOptions, resolve
from whisperbatch.protocols import Decoded, DecodeRequest, Encoded

LADDER: Final = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)  # of openai/whisper
POLICIES: Final[dict[str, OptionKeywords]] = {
    "no retries": NO_RETRIES,
    "default": {},
    "ladder": {"temperature": LADDER},
    "ladder only": {"temperature": LADDER},
}
SAMPLE_ONLY: Final = "ladder only"
RECORDINGS: Final = (
    *("prompts:en:300:1", "read:en:300:0", "noise_under:en:300:0", "music_under:en:300:0"),
    *("telephone:en:300:0", "clipped:en:300:0", "prompts:es:300:0", "prompts:fr:300:0"),
)


@dataclass
class Figures:
    """What a policy did on a recording; the sum of two is the figures of both recordings."""

    score: scoring.Score = field(default_factory=scoring.Score)
    chunks: int = 0
    retried: int = 0
    sampled: int = 0
    calls: int = 0
    rows: int = 0
    seconds: float = 0.0

    def __add__(self, other: "Figures") -> "Figures":
        return Figures(
            *(getattr(self, name) + getattr(other, name) for name in self.__dataclass_fields__)
        )

    def __str__(self) -> str:
        return (
            f"{self.score.errors:6} {self.score.rate:7.2%} {self.retried:4} of {self.chunks:4} "
            f"{self.sampled:7} {self.calls:6} {self.rows / max(self.calls, 1):10.1f} "
            f"{self.seconds:7.1f}"
        )


@contextmanager
def counted(asr: wb.Transcriber, figures: Figures) -> Iterator[None]:
    """Count the calls and rows of the engine's decoder in `figures`."""
    engine = asr.engine
    decode = engine.decode

    def counting(
        encoded: Encoded, requests: Sequence[DecodeRequest], options: SearchOptions
    ) -> list[Decoded]:
        figures.calls += 1
        figures.rows += len(requests)
        figures.sampled += sum(request.sampling is not None for request in requests)
        return decode(encoded, requests, options)

    with mock.patch.object(engine, "decode", counting):
        yield


def _sample_only(_: Retry, row: AuditedRow) -> Iterator[tuple[str, float]]:
    """Yield only sampling, for rows that fail Whisper's own thresholds."""
    if row.audit.repetitive or row.audit.improbable:
        yield from (("sample", temperature) for temperature in LADDER[1:])


def build(name: str, snr: float | None) -> Recording:
    """Build a recording, with pink noise `snr` dB below the speech throughout."""
    recording = corpora.build(name)
    if snr is None:
        return recording
    speech = recording.samples.astype(np.float64)
    rng = Random(name)  # noqa: S311 - repeatable
    noise = at_level(pink(len(speech), rng), level(speech) - snr)
    return replace(recording, samples=rounded(speech + noise))


def measure(asr: wb.Transcriber, recording: Recording, policy: str, options: Options) -> Figures:
    """Return the figures of a policy on a recording, with its other options."""
    language = recording.name.split(":")[1] if asr.engine.is_multilingual else "en"
    figures = Figures()
    with ExitStack() as stack:
        stack.enter_context(counted(asr, figures))
        if policy == SAMPLE_ONLY:
            stack.enter_context(mock.patch.object(Retry, "_strategies", _sample_only))
        options = resolve(replace(options, language=language), **POLICIES[policy])
        started = time.process_time()
        transcript = asr.transcribe(recording.samples, options=options)
        figures.seconds = time.process_time() - started
    truth = " ".join(utterance.text for utterance in recording.utterances)
    figures.score = scoring.word_error_rate(truth, transcript.text, language)
    figures.chunks, figures.retried = transcript.chunks, transcript.redecoded
    return figures


def main() -> None:
    """Print the figures of the chosen policies."""
    parser = argparse.ArgumentParser(description="Measure retries, with and without temperatures.")
    parser.add_argument("--policies", nargs="+", choices=POLICIES, default=list(POLICIES))
    parser.add_argument("--model", default="base")
    parser.add_argument("--engine", default="auto")
    parser.add_argument("--beam-size", type=int, default=5)
    parser.add_argument("--chunk-length", type=float, default=30.0)
    parser.add_argument("--log-prob-threshold", type=float, default=-1.0)
    parser.add_argument("--snr", type=float, help="add pink noise, this many dB below the speech")
    add_recordings(parser, RECORDINGS)
    arguments = parser.parse_args()
    print(
        f"{'recording':22} {'policy':11} {'errors':>6} {'rate':>7} {'retried':>12} "
        f"{'sampled':>7} {'calls':>6} {'rows/call':>10} {'cpu s':>7}"
    )
    totals = {policy: Figures() for policy in arguments.policies}
    with wb.load(arguments.model, engine=arguments.engine) as asr:
        for name in arguments.recordings:
            recording = build(name, arguments.snr)
            for policy in arguments.policies:
                options = Options(
                    beam_size=arguments.beam_size,
                    chunk_length=arguments.chunk_length,
                    log_prob_threshold=arguments.log_prob_threshold,
                )
                figures = measure(asr, recording, policy, options)
                totals[policy] += figures
                print(f"{name:22} {policy:11} {figures}", flush=True)
    for policy, figures in totals.items():
        print(f"{'all':22} {policy:11} {figures}")


if __name__ == "__main__":
    main()
