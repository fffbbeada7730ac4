"""Measure how many of the encoder's frames a model needs: word errors and time of each share.

python -m benchmarks.kept_frames                                  # base, in half an hour
python -m benchmarks.kept_frames --model small --shares 0.7 0.5 --beam 1
python -m benchmarks.kept_frames --recordings prompts:en:120:1 noise_under:fr:120:1

Similar neighbouring frames are merged (`kept_frames`); noisy rows keep all frames. For each
recording, the table has the word errors with all frames and with each share; the last lines have
the error rate, its difference from that with all frames, with the 95 % interval of a paired
bootstrap over the recordings, and the time relative to all frames. The runs of a recording are
interleaved.

The share to use is the smallest whose errors are not significantly more than those with all frames,
and at most 0.1 points more. `whisperbatch/models/kept_frames.py` lists the shares of known models.
"""

import argparse
import time
from collections import defaultdict
from contextlib import ExitStack
from itertools import product
from typing import Final

import whisperbatch as wb
from benchmarks import corpora, scoring
from benchmarks.arguments import add_recordings
from benchmarks.lost_speech.bootstrap import Difference, compare
from benchmarks.speech import LANGUAGES
from whisperbatch.models import find_model, weights_digest

ALL: Final = 1.0
MAX_DIFFERENCE: Final = 0.001  # of the word error rate: 0.1 points
KINDS: Final = ("prompts", "dense", "pauses", "noise_under", "music_under", "telephone")
SEEDS: Final = (11, 12)


def names(languages: tuple[str, ...]) -> list[str]:
    """Return the names of the default recordings: two minutes of each kind, language and seed."""
    return [
        f"{kind}:{language}:120:{seed}" for seed, kind, language in product(SEEDS, KINDS, languages)
    ]


class Measurement:
    """The errors and times of all shares, recording by recording."""

    def __init__(self) -> None:
        self.words: list[int] = []
        self.errors: dict[float, list[float]] = defaultdict(list)
        self.seconds: dict[float, float] = defaultdict(float)

    def add(self, models: dict[float, wb.Transcriber], name: str, beam: int) -> None:
        """Transcribe a recording with each share, and print the number of errors."""
        recording = corpora.build(name)
        _, language, _, _ = corpora.parse(name)
        order = list(models.items())
        for share, asr in order if len(self.words) % 2 else order[::-1]:
            started = time.perf_counter()
            transcript = asr.transcribe(recording.samples, language=language, beam_size=beam)
            self.seconds[share] += time.perf_counter() - started
            score = scoring.word_error_rate(recording.text, transcript.text, language)
            self.errors[share].append(score.errors)
        self.words.append(score.words)
        errors = "".join(f"{self.errors[share][-1]:8.0f}" for share in models)
        print(f"{name:28}{score.words:8}{errors}", flush=True)

    def difference(self, share: float) -> Difference:
        """Return the difference of the error rate from that with all frames."""
        difference = compare(self.errors[share], self.errors[ALL], self.words)
        if difference is None:
            raise corpora.CorpusError("the recordings have no words")
        return difference

    def line(self, share: float) -> str:
        """Describe the errors and the time of a share."""
        rate = sum(self.errors[share]) / sum(self.words)
        relative_time = self.seconds[share] / self.seconds[ALL]
        errors = f"{rate:6.2%} errors, {self.difference(share).points}"
        return f"{share:5} of the frames: {errors}, {relative_time:.2f} of the time"

    def share_to_use(self) -> float:
        """Return the smallest share that makes as few errors as all frames."""
        return min(
            share
            for share in self.errors
            if share == ALL
            or (
                self.difference(share).estimate <= MAX_DIFFERENCE
                and self.difference(share).low <= 0
            )
        )


def main() -> None:
    """Measure all shares and print a table."""
    parser = argparse.ArgumentParser(description="How many of its frames does the encoder need?")
    parser.add_argument("--model", default="base")
    parser.add_argument("--beam", type=int, default=5)
    parser.add_argument("--shares", nargs="+", type=float, default=[0.8, 0.6], metavar="SHARE")
    add_recordings(parser)
    options = parser.parse_args()
    shares = sorted({ALL, *options.shares}, reverse=True)
    measurement = Measurement()
    with ExitStack() as stack:
        models = {
            share: stack.enter_context(
                wb.load(options.model, device="cpu", engine="openvino", kept_frames=share)
            )
            for share in shares
        }
        languages = LANGUAGES if models[ALL].engine.is_multilingual else ("en",)
        print(f"{'recording':28}{'words':>8}" + "".join(f"{share:8}" for share in shares))
        for name in options.recordings or names(languages):
            measurement.add(models, name, options.beam)
    for share in shares:
        print(measurement.line(share))
    digest = weights_digest(find_model(options.model))
    print(f'Share to use: {measurement.share_to_use()}, for the weights "{digest}"')


if __name__ == "__main__":
    main()
