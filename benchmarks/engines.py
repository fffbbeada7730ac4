"""Compare engines: word errors with the interval of their difference, and time.

python -m benchmarks.engines                                   # both forms of the encoder
python -m benchmarks.engines ctranslate2 onnxruntime --beam 1
python -m benchmarks.engines onnxruntime:int8 onnxruntime:auto               # compute types
python -m benchmarks.engines --recordings prompts:en:120:1 noise_under:fr:120:1

For each recording, the table has the word errors of each engine. The last lines have the error
rate, its difference from that of the first engine, with the 95 % interval of a paired bootstrap
over the recordings, and the time relative to the first engine. The runs of a recording are
interleaved.
"""

import argparse
from contextlib import ExitStack
from typing import Any

import whisperbatch as wb
from benchmarks.arguments import add_recordings
from benchmarks.comparison import Comparison, names


def main() -> None:
    """Measure all engines and print a table."""
    parser = argparse.ArgumentParser(description="Word errors and time of engines on a CPU.")
    parser.add_argument("engines", nargs="*", default=["onnxruntime:int8", "openvino"])
    parser.add_argument("--model", default="base")
    parser.add_argument("--beam", type=int, default=5)
    add_recordings(parser)
    options = parser.parse_args()
    with ExitStack() as stack:
        models = {
            name: stack.enter_context(wb.load(options.model, device="cpu", **_settings(name)))
            for name in options.engines
        }
        multilingual = all(asr.engine.is_multilingual for asr in models.values())
        comparison = Comparison(models, options.beam)
        for name in options.recordings or names(multilingual=multilingual):
            comparison.add(name)
    for name in models:
        print(comparison.line(name))


def _settings(name: str) -> dict[str, Any]:
    """Return the keywords of `load` for ENGINE or ENGINE:COMPUTE_TYPE."""
    engine, _, compute_type = name.partition(":")
    return {"engine": engine, "compute_type": compute_type or "auto"}


if __name__ == "__main__":
    main()
