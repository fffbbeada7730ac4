"""A program: does a row's result depend on the other rows of its batch? Exit status 1 if it does.

    python tests/contract/row_independence.py ENGINE COMPUTE_TYPE [f32]

ENGINE is "ctranslate2" or "openvino". "f32" computes in float32 even if the processor has bfloat16.
The instruction set can be limited by the environment variable ONEDNN_MAX_CPU_ISA.
"""

import sys

import numpy as np

from benchmarks import recordings
from whisperbatch.decoding.tokenizer import WhisperTokenizer
from whisperbatch.engines.ctranslate2.engine import CTranslate2Engine
from whisperbatch.engines.openvino import loading
from whisperbatch.engines.openvino.graph import open_core
from whisperbatch.features import feature_extractor
from whisperbatch.models import find_model
from whisperbatch.options import DecodeOptions
from whisperbatch.protocols import Encoded

ROWS = 9
SEARCHES = (DecodeOptions(beam_size=1), DecodeOptions(beam_size=5, no_repeat_ngram_size=3))
BATCHES = ((0,), (1, 0), (2, 3, 4), (8, 7, 6, 5), (0, 2, 4, 6, 8), (5, 4, 3, 2, 1, 0), range(1, 8))


def load(backend: str, compute_type: str) -> CTranslate2Engine:
    return CTranslate2Engine(
        find_model("base"),
        name="base",
        device="cpu",
        compute_type=compute_type,
        encoder=backend,
        decoder=backend,
    )


def results(engine: CTranslate2Engine, encoded: Encoded, options: DecodeOptions) -> list[str]:
    """Everything that the engine says about each row, with every digit."""
    tokenizer = WhisperTokenizer(engine.tokenizer, multilingual=True)
    start = tokenizer.prompt("en", "transcribe")
    prompts = [[*start, tokenizer.no_timestamps]] * encoded.rows
    hypotheses = engine.generate(encoded, prompts, options)
    texts = [tokenizer.text_tokens(hypothesis.tokens) for hypothesis in hypotheses]
    alignments = engine.align(encoded, [start] * encoded.rows, texts, [900] * encoded.rows)
    return [
        repr((hypothesis, alignment.starts.tolist(), alignment.probabilities.tolist(), languages))
        for hypothesis, alignment, languages in zip(
            hypotheses, alignments, engine.detect_language(encoded), strict=True
        )
    ]


def main(backend: str, compute_type: str, precision: str = "") -> int:
    if precision == "f32":
        vars(loading)["open_core"] = lambda **_: (open_core(exact=True)[0], "f32")
    samples = (recordings.dense("en", 60).samples / 32768).astype(np.float32)
    extract = feature_extractor("whisper", 80)
    seconds = [samples[number * 5 * 16000 :][: 9 * 16000] for number in range(ROWS)]
    features = np.stack([extract(row)[:, :900] for row in seconds])
    features = np.pad(features, ((0, 0), (0, 0), (0, 100)), constant_values=features.min())
    engine = load(backend, compute_type)
    together = engine.encode(features)
    rows = engine.split(together)
    failures = 0
    for options in SEARCHES:
        expected = results(engine, together, options)
        for numbers in BATCHES:
            batch = engine.join([rows[number] for number in numbers])
            encoded = engine.encode(features[list(numbers)])
            for found in (results(engine, batch, options), results(engine, encoded, options)):
                wrong = [n for n, row in zip(numbers, found, strict=True) if row != expected[n]]
                failures += len(wrong)
                if wrong:
                    print(f"beam_size={options.beam_size}, rows {list(numbers)}: {wrong} differ")  # noqa: T201 - a program's output
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
