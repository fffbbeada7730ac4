"""Compare variants of the pipeline on built recordings: word errors, segment starts, speed.

python -m benchmarks.variants                        # the defaults
python -m benchmarks.variants merging silence        # the names of COMPARISONS
python -m benchmarks.variants --recordings prompts:en:600:0 read:en:300:0 timestamps
python -m benchmarks.variants second_opinion --rounds 4 --recordings pauses:en:600:0

With several rounds, the variants take turns, and the speed is the median of all rounds but the
first.
"""

import argparse
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from statistics import median
from typing import NamedTuple
from unittest import mock

import numpy as np

import whisperbatch as wb
from benchmarks import corpora, recordings, scoring
from benchmarks.arguments import add_recordings
from whisperbatch.chunking import merge
from whisperbatch.options import OptionKeywords, Options, resolve
from whisperbatch.types import SpeechSpan
from whisperbatch.vad import open_vad


class Variant(NamedTuple):
    """A variant of the pipeline: its options, or a replacement for `merge.plan`."""

    name: str
    options: OptionKeywords
    plan: object = None


def greedy(
    spans: Sequence[SpeechSpan], limit: int, max_silence: int | None = None, *, more: bool = False
) -> list[int]:
    """Return the number of spans of each chunk, each with as many as fit: baseline of `plan`."""
    del more  # the spans that follow do not change the result
    counts = [0]
    length = 0
    for number, span in enumerate(spans):
        gap = span.start - spans[number - 1].end if counts[-1] else 0
        longer = length + span.length + (gap if max_silence is None else min(gap, max_silence))
        if counts[-1] and longer > limit:
            counts.append(0)
            longer = span.length
        counts[-1] += 1
        length = longer
    return counts


COMPARISONS = {
    "defaults": (Variant("defaults", {}),),
    "merging": (Variant("look-ahead", {}), Variant("greedy", {}, greedy)),
    "silence": (
        Variant("kept", {}),
        Variant("at most 1 s", {"max_silence": 1.0}),
        Variant("at most 0.5 s", {"max_silence": 0.5}),
        Variant("concatenated", {"max_silence": 0.0}),
    ),
    "timestamps": (
        Variant("alignment", {}),
        Variant("tokens", {"timestamps": "tokens"}),
    ),
    "features": (
        Variant("whisper", {}),
        Variant("kaldi-mel", {"features": "kaldi-mel"}),
        Variant("kaldi-fbank", {"features": "kaldi-fbank"}),
    ),
    "vad": (Variant("silero", {}), Variant("none", {"vad": False})),
    "second_opinion": (
        Variant("with", {"second_opinion": True}),
        Variant("without", {"second_opinion": False}),
    ),
    "diarization": (
        Variant("without", {}),
        Variant("with", {"diarize": True}),
        Variant("one speaker", {"diarize": True, "num_speakers": 1}),
    ),
    "beam": (Variant("beam 5", {"beam_size": 5}), Variant("beam 1", {"beam_size": 1})),
}

RECORDINGS = (
    *("prompts:en:600:0", "prompts:en:600:1", "dense:en:600:0", "sparse:en:600:0"),
    *("read:en:300:0", "prompts:es:300:0", "prompts:fr:300:0"),
)


@contextmanager
def planned_by(plan: object) -> Iterator[None]:
    """Replace `merge.plan` with `plan`; None changes nothing."""
    if plan is None:
        yield
        return
    with mock.patch.object(merge, "plan", plan):
        yield


def count_chunks(recording: recordings.Recording, options: Options) -> int:
    """Return the number of chunks of a recording."""
    vad = open_vad(options)
    samples = recording.samples.astype(np.float32) / np.float32(32768)
    return len(list(merge.chunks(vad([samples]), options, vad.hop)))


def run(
    asr: wb.Transcriber, recording: recordings.Recording, options: Options, variant: Variant
) -> tuple[wb.Transcript, float]:
    """Return the transcript of a variant, and the seconds that it took."""
    with planned_by(variant.plan):
        started = time.perf_counter()
        transcript = asr.transcribe(recording.samples, options=options)
        return transcript, time.perf_counter() - started


def compare(
    asr: wb.Transcriber, name: str, variants: Sequence[Variant], beam: int, rounds: int
) -> Iterator[str]:
    """Yield the figures of each variant on a recording, as lines of the table."""
    recording, language = corpora.build(name), corpora.parse(name)[1]
    options = [resolve(Options(language=language, beam_size=beam), **v.options) for v in variants]
    results = [
        [
            run(asr, recording, option, variant)
            for option, variant in zip(options, variants, strict=True)
        ]
        for _ in range(rounds)
    ]
    for variant, option, runs in zip(variants, options, zip(*results, strict=True), strict=True):
        with planned_by(variant.plan):
            chunks = count_chunks(recording, option)
        transcripts, times = zip(*runs, strict=True)
        took = median(times[1:] or times)
        line = figures(recording, language, transcripts[0], chunks, took)
        yield f"{name:21} {variant.name:13} {line}"


def figures(
    recording: recordings.Recording,
    language: str,
    transcript: wb.Transcript,
    chunks: int,
    took: float,
) -> str:
    """Return the figures of a transcript that took some seconds, as the end of a line."""
    score = scoring.word_error_rate(recording.text, transcript.text, language)
    errors = scoring.start_errors(recording.utterances, [s.start for s in transcript.segments])
    near = sum(error <= 0.5 for error in errors) / len(errors) if errors else float("nan")
    middle = median(errors) if errors else float("nan")
    return (
        f"{score.rate:6.2%} {score.substitutions:4} {score.deletions:4} {score.insertions:4} "
        f"{near:7.1%} {1000 * middle:5.0f} ms {chunks:6} {len(transcript.segments):8} "
        f"{recording.duration / took:6.1f}x"
    )


def main() -> None:
    """Print the figures of all chosen comparisons."""
    parser = argparse.ArgumentParser(
        description="Compare variants of the pipeline on built recordings."
    )
    parser.add_argument("comparisons", nargs="*", default=["defaults"], metavar="COMPARISON")
    parser.add_argument("--model", default="base")
    parser.add_argument("--beam-size", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=1)
    add_recordings(parser, RECORDINGS)
    arguments = parser.parse_args()
    if unknown := [name for name in arguments.comparisons if name not in COMPARISONS]:
        parser.error(f"{', '.join(unknown)}: the comparisons are {', '.join(COMPARISONS)}")
    if arguments.rounds < 1:
        parser.error("--rounds is at least 1")
    print(
        f"{'recording':21} {'variant':13} {'WER':>6} {'sub':>4} {'del':>4} {'ins':>4} "
        f"{'<0.5 s':>7} {'median':>8} {'chunks':>6} {'segments':>8} {'speed':>7}"
    )
    with wb.load(arguments.model) as asr:
        for name in arguments.recordings:
            for comparison in arguments.comparisons:
                variants = COMPARISONS[comparison]
                lines = compare(asr, name, variants, arguments.beam_size, arguments.rounds)
                for line in lines:
                    print(line, flush=True)


if __name__ == "__main__":
    main()
