"""A program: does a row's result depend on the other rows of its batch? Exit status 1 if it does.

    python -m tests.contract.row_independence ENGINE COMPUTE_TYPE

Encoder output, language scores, hypotheses and alignments of 1 to 9 rows are compared to the last
bit; then hypotheses and alignments of 24 rows and of rows with previous text, and whole
transcripts. Environment variables limit the instruction set, for example ONEDNN_MAX_CPU_ISA. A
third argument, "quick", leaves out most batches, the 24 rows, the previous text and the
transcripts; "few" also most tokens. The size of a hidden state, for example 1280, takes a model of
this size with random weights, and leaves out the 24 rows, the previous text and the transcripts.
"""

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import numpy.typing as npt

from benchmarks import recordings
from tests.contract.engines import output_of
from tests.contract.model_directories import random_model
from whisperbatch import Options, Transcriber, Transcript
from whisperbatch.decoding.prompts import WhisperTokenizer
from whisperbatch.engines.loading import load_engine
from whisperbatch.features import feature_extractor
from whisperbatch.models import find_model
from whisperbatch.models.architecture import RandomModel
from whisperbatch.options import SearchOptions
from whisperbatch.protocols import Alignment, AlignRequest, DecodeRequest, Encoded, Engine

ROWS = 9
HEAD_SIZE = 64  # of every Whisper model
FEW_TOKENS = 12
FRAMES = 900  # of each row, without padding
# (beams, tokens of previous text, rows of the batches)
PROMPTS = (
    *((1, 0, (24,)), (1, 10, (2, 9)), (1, 40, (2, 9)), (1, 120, (9,))),
    *((5, 0, (24,)), (5, 40, (9,))),
)
FIRST_WORD, WORDS = 300, 20_000  # tokens that are words or parts of words
SEARCHES = (
    SearchOptions(beam_size=1, max_new_tokens=50),  # a random model never ends its text
    SearchOptions(beam_size=5, no_repeat_ngram_size=3, max_new_tokens=30),
)
BATCHES = (
    *((0,), (1, 0), (2, 3, 4), (8, 7, 6, 5), (0, 2, 4, 6, 8), (5, 4, 3, 2, 1, 0)),
    *(range(1, 8), (7, 0, 6, 1, 5, 2, 4, 3), (4, 8, 0, 5, 1, 6, 2, 7, 3)),
)
# short chunks make many rows; noise and a strict threshold make retries
OPTIONS = Options(language="en", beam_size=1, chunk_length=8, log_prob_threshold=-0.4)


def rows_of(engine: Engine, encoded: Encoded, options: SearchOptions) -> list[str]:
    """Everything that the engine says about each row, with every digit."""
    tokenizer = WhisperTokenizer(engine.tokenizer, multilingual=True)
    start = tuple(tokenizer.prompt("en", "transcribe"))
    request = DecodeRequest((*start, tokenizer.no_timestamps), start, (), FRAMES)
    decoded = engine.decode(encoded, [request] * encoded.rows, options)
    texts = [AlignRequest(start, row.hypothesis.tokens, FRAMES) for row in decoded]
    rows = zip(decoded, engine.align(encoded, texts), engine.detect_language(encoded), strict=True)
    return [
        repr((row.hypothesis, columns(row.alignment), columns(alignment), languages))
        for row, alignment, languages in rows
    ]


def columns(alignment: Alignment) -> list[list[float]]:
    return [
        column.tolist() for column in (alignment.starts, alignment.ends, alignment.probabilities)
    ]


def different_batches(
    engine: Engine,
    features: npt.NDArray[np.float32],
    batches: Sequence[Sequence[int]] = BATCHES,
    searches: Sequence[SearchOptions] = SEARCHES,
) -> Iterator[str]:
    """Describe each batch in which a row has another result than among all rows."""
    together = engine.encode(features)
    rows = engine.split(together)
    for numbers in batches:
        encoded = output_of(engine.encode(features[list(numbers)]))
        if encoded.tobytes() != output_of(together)[list(numbers)].tobytes():
            yield f"encoder output, rows {list(numbers)}: differs"
    for options in searches:
        expected = rows_of(engine, together, options)
        for numbers in batches:
            joined = engine.join([rows[number] for number in numbers])
            found = rows_of(engine, joined, options)
            wrong = [n for n, row in zip(numbers, found, strict=True) if row != expected[n]]
            if wrong:
                yield f"beam_size={options.beam_size}, rows {list(numbers)}: {wrong} differ"


def different_prompts(engine: Engine, features: npt.NDArray[np.float32]) -> Iterator[str]:
    """Describe each batch in which a row has another hypothesis or alignment than alone.

    The batches have many rows, or rows with previous text.
    """
    rows = engine.split(engine.encode(features))
    for beams, previous, counts in PROMPTS:
        options = SearchOptions(beam_size=beams, max_new_tokens=FEW_TOKENS)
        alone = [hypotheses(engine, [rows[n]], options, previous, [n])[0] for n in range(ROWS)]
        for count in counts:
            numbers = [number % ROWS for number in range(count)]
            together = [rows[number] for number in numbers]
            found = hypotheses(engine, together, options, previous, numbers)
            wrong = [n for n, row in zip(numbers, found, strict=True) if row != alone[n]]
            if wrong:
                yield f"beam_size={beams}, {previous} previous tokens, {count} rows: {wrong} differ"


def hypotheses(
    engine: Engine,
    rows: Sequence[Encoded],
    options: SearchOptions,
    previous: int,
    numbers: Sequence[int],
) -> list[str]:
    """Everything that the engine says about rows after a number of tokens of previous text."""
    tokenizer = WhisperTokenizer(engine.tokenizer, multilingual=True)
    start = tuple(tokenizer.prompt("en", "transcribe"))
    requests = []
    for number in numbers:
        words = np.random.default_rng(number).integers(FIRST_WORD, WORDS, previous).tolist()
        context = (tokenizer.start_of_previous, *words) if words else ()
        prompt = (*context, *start, tokenizer.no_timestamps)
        requests.append(DecodeRequest(prompt, start, (), FRAMES))
    decoded = engine.decode(engine.join(rows), requests, options)
    return [repr((row.hypothesis, columns(row.alignment))) for row in decoded]


def different_transcripts(engine: Engine, samples: npt.NDArray[np.float32]) -> Iterator[str]:
    """Describe each run in which a recording has another transcript than alone, row by row."""
    noise = 0.02 * np.random.default_rng(0).standard_normal(len(samples)).astype(np.float32)
    noisy = samples + noise
    sources = [samples[: 20 * 16000], noisy[20 * 16000 : 45 * 16000], noisy[: 9 * 16000]]
    asr = Transcriber(engine)
    expected = [asr.transcribe(source, options=OPTIONS, batch_size=1) for source in sources]
    if not any(transcript.redecoded for transcript in expected):
        yield "no row was decoded again: choose other recordings"
    for batch_size, order in ((3, (0, 1, 2)), (9, (2, 0, 1)), (16, (1, 2, 0))):
        transcripts: Iterator[Transcript] = asr.transcribe_many(
            [sources[number] for number in order], options=OPTIONS, batch_size=batch_size
        )
        for number, transcript in zip(order, transcripts, strict=True):
            if repr(transcript) != repr(expected[number]):
                yield f"batch_size={batch_size}: recording {number} differs"


def main(name: str, compute_type: str, extent: str = "") -> int:
    samples = (recordings.dense("en", 60).samples / 32768).astype(np.float32)
    extract = feature_extractor("whisper", 80)
    seconds = [samples[number * 5 * 16000 :][: 9 * 16000] for number in range(ROWS)]
    features = np.stack([extract(row)[:, :FRAMES] for row in seconds])
    features = np.pad(features, ((0, 0), (0, 0), (0, 100)), constant_values=features.min())
    with TemporaryDirectory() as folder:
        model = find_model("base")
        if extent.isdecimal():
            size = int(extent)
            sizes = RandomModel(d_model=size, heads=size // HEAD_SIZE, decoder_layers=1)
            model = random_model(Path(folder, "model"), sizes)
        engine = load_engine(model, engine=name, device="cpu", compute_type=compute_type)
    failures = 0
    lines: Iterable[str] = different_batches(engine, features)
    if extent == "quick":
        lines = different_batches(engine, features, BATCHES[1:4])
    elif extent == "few":
        short = [replace(options, max_new_tokens=FEW_TOKENS) for options in SEARCHES]
        lines = different_batches(engine, features, BATCHES[1:4], short)
    elif not extent:
        lines = chain(
            lines, different_prompts(engine, features), different_transcripts(engine, samples)
        )
    for line in lines:
        print(line)  # noqa: T201 - a program's output
        failures += 1
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
