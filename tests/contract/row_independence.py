"""A program: does a row's result depend on the other rows of its batch? Exit status 1 if it does.

    python tests/contract/row_independence.py ENGINE COMPUTE_TYPE

The instruction set can be limited by the environment variable ONEDNN_MAX_CPU_ISA.
"""

import sys

import numpy as np

from benchmarks import recordings
from whisperbatch.decoding.tokenizer import WhisperTokenizer
from whisperbatch.engines.loading import load_engine
from whisperbatch.features import feature_extractor
from whisperbatch.options import SearchOptions
from whisperbatch.protocols import Alignment, AlignRequest, DecodeRequest, Encoded, Engine

ROWS = 9
SEARCHES = (SearchOptions(beam_size=1), SearchOptions(beam_size=5, no_repeat_ngram_size=3))
BATCHES = ((0,), (1, 0), (2, 3, 4), (8, 7, 6, 5), (0, 2, 4, 6, 8), (5, 4, 3, 2, 1, 0), range(1, 8))


def results(engine: Engine, encoded: Encoded, options: SearchOptions) -> list[str]:
    """Everything that the engine says about each row, with every digit."""
    tokenizer = WhisperTokenizer(engine.tokenizer, multilingual=True)
    start = tuple(tokenizer.prompt("en", "transcribe"))
    request = DecodeRequest((*start, tokenizer.no_timestamps), start, (), 900)
    decoded = engine.decode(encoded, [request] * encoded.rows, options)
    texts = [AlignRequest(start, row.hypothesis.tokens, 900) for row in decoded]
    rows = zip(decoded, engine.align(encoded, texts), engine.detect_language(encoded), strict=True)
    return [
        repr((row.hypothesis, *map(columns, (row.alignment, alignment)), languages))
        for row, alignment, languages in rows
    ]


def columns(alignment: Alignment) -> list[list[float]]:
    return [
        column.tolist() for column in (alignment.starts, alignment.ends, alignment.probabilities)
    ]


def main(name: str, compute_type: str) -> int:
    samples = (recordings.dense("en", 60).samples / 32768).astype(np.float32)
    extract = feature_extractor("whisper", 80)
    seconds = [samples[number * 5 * 16000 :][: 9 * 16000] for number in range(ROWS)]
    features = np.stack([extract(row)[:, :900] for row in seconds])
    features = np.pad(features, ((0, 0), (0, 0), (0, 100)), constant_values=features.min())
    engine = load_engine("base", engine=name, device="cpu", compute_type=compute_type)
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
