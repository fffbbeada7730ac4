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
and at most 0.1 points more. `whisperbatch/models/config.py` lists the shares of known models.
"""

import argparse
from contextlib import ExitStack
from typing import Final

import whisperbatch as wb
from benchmarks.arguments import add_recordings
from benchmarks.comparison import Comparison, names
from whisperbatch.models import find_model, weights_digest

ALL: Final = 1.0
MAX_DIFFERENCE: Final = 0.001  # of the word error rate: 0.1 points


def share_to_use(comparison: Comparison, shares: list[float]) -> float:
    """Return the smallest share that makes as few errors as all frames."""
    differences = {share: comparison.difference(str(share)) for share in shares}
    return min(
        share
        for share, difference in differences.items()
        if share == ALL or (difference.estimate <= MAX_DIFFERENCE and difference.low <= 0)
    )


def main() -> None:
    """Measure all shares and print a table."""
    parser = argparse.ArgumentParser(description="How many of its frames does the encoder need?")
    parser.add_argument("--model", default="base")
    parser.add_argument("--engine", choices=("openvino", "onnxruntime"), default="onnxruntime")
    parser.add_argument("--beam", type=int, default=5)
    parser.add_argument("--shares", nargs="+", type=float, default=[0.8, 0.6], metavar="SHARE")
    add_recordings(parser)
    options = parser.parse_args()
    shares = sorted({ALL, *options.shares}, reverse=True)
    with ExitStack() as stack:
        models = {
            str(share): stack.enter_context(
                wb.load(options.model, device="cpu", engine=options.engine, kept_frames=share)
            )
            for share in shares
        }
        multilingual = models[str(ALL)].engine.is_multilingual
        comparison = Comparison(models, options.beam)
        for name in options.recordings or names(multilingual=multilingual):
            comparison.add(name)
    for share in models:
        print(f"{comparison.line(share)} (share of the frames)")
    digest = weights_digest(find_model(options.model))
    print(f'Share to use: {share_to_use(comparison, shares)}, for the weights "{digest}"')


if __name__ == "__main__":
    main()
