"""Do spans that are transcribed alone give exactly the transcript of the whole recording?

Each recording is divided into spans of 5, 10 and 20 minutes. A shorter first span moves all bounds.
Compared with one run over the recording:

    chunks   their samples, their speech and their sections, with every first span
    text     the complete transcript, joined from those of the spans, with a first span of 5
             minutes; with --model, instead of the chunks

python -m benchmarks.sections                            # chunks of five recordings of an hour
python -m benchmarks.sections --model base --recordings mixed:en:10800:0 --lengths 4
"""

import argparse
import hashlib
import sys
import tempfile
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final

import numpy as np

import whisperbatch as wb
from benchmarks import corpora
from benchmarks.arguments import add_recordings
from benchmarks.recordings import Recording, write
from whisperbatch.sections import chunk_recording
from whisperbatch.sections.joining import join_spans
from whisperbatch.types import SECTION, WHOLE, Chunk, Samples, Span, SpanSource

RECORDINGS: Final = (
    "mixed:en:3600:0",
    "dense:es:3600:0",
    "noise_under:fr:3600:0",
    "music_between:it:3600:0",
    "sparse:ru:3600:0",
)
LENGTHS: Final = (1, 2, 4)  # of a span, in sections of five minutes
BLOCK: Final = 16_000  # samples


def divisions(
    samples: int, lengths: Sequence[int] = LENGTHS
) -> Iterator[tuple[int, int, tuple[Span, ...]]]:
    """Yield the length of spans, the length of the first one, and the spans of a recording."""
    for length in lengths:
        for first in range(1, length + 1):
            starts = [0, *range(first, samples // SECTION + 1, length)]
            ends = [Span(start, end) for start, end in pairwise(starts)]
            yield length, first, (*ends, Span(starts[-1]))


def chunks_of(samples: Samples, span: Span = WHOLE) -> list[bytes]:
    """Return a fingerprint of each chunk of a span; only the audio that it needs is read."""
    options = wb.Options()
    audio = samples[span.start : span.end]
    blocks = (audio[start : start + BLOCK] for start in range(0, len(audio), BLOCK))
    found = chunk_recording(blocks, options, span=span, position=span.start)
    return [_fingerprint(chunk) for chunk in found]


def _fingerprint(chunk: Chunk) -> bytes:
    rest = repr((chunk.section, chunk.pieces, chunk.speech)).encode()
    return hashlib.sha256(chunk.samples.tobytes() + rest).digest()


def compare_chunks(
    recording: Recording, lengths: Sequence[int] = LENGTHS
) -> Iterator[tuple[str, bool]]:
    """Yield a line about each division, and whether its chunks are those of one run."""
    samples: Samples = recording.samples.astype(np.float32) / np.float32(32768)
    whole = chunks_of(samples)
    parts: dict[Span, list[bytes]] = {}
    for length, first, spans in divisions(len(samples), lengths):
        for span in spans:
            if span not in parts:
                parts[span] = chunks_of(samples, span)
        same = [chunk for span in spans for chunk in parts[span]] == whole
        yield f"chunks  {_row(length, first, spans)}  {len(whole):6}", same


def compare_texts(
    recording: Recording, asr: wb.Transcriber, lengths: Sequence[int] = LENGTHS
) -> Iterator[tuple[str, bool]]:
    """Yield a line about each division, and whether its transcript is that of one run."""
    language = corpora.parse(recording.name)[1]
    options = wb.Options(language=language, beam_size=1)
    with tempfile.TemporaryDirectory() as folder:
        path = write(recording, Path(folder, "recording.wav"))
        whole = asr.transcribe(path, options=options)
        parts: dict[Span, wb.Transcript] = {}
        for length, first, spans in divisions(len(recording.samples), lengths):
            if first > 1:
                continue
            new = [span for span in spans if span not in parts]
            sources = [SpanSource(path, span) for span in new]
            parts.update(zip(new, asr.transcribe_many(sources, options=options), strict=True))
            same = join_spans([parts[span] for span in spans]) == whole
            yield f"text    {_row(length, first, spans)}  {len(whole.segments):6}", same


def _row(length: int, first: int, spans: Sequence[Span]) -> str:
    minutes = SECTION // 16_000 // 60
    return f"{minutes * length:3} min, first {minutes * first:3} min  {len(spans):5} spans"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a line for each division of each recording; return 1 if a division is not equal."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.sections", description=(__doc__ or "").partition("\n")[0]
    )
    add_recordings(parser, RECORDINGS)
    parser.add_argument("--model", help="compare the text of this model instead of the chunks")
    parser.add_argument(
        "--lengths",
        nargs="+",
        type=int,
        choices=LENGTHS,
        default=LENGTHS,
        help="of spans, in sections",
    )
    options = parser.parse_args(arguments)
    different = 0
    asr = wb.load(options.model) if options.model else None
    for name in options.recordings:
        recording = corpora.build(name)
        print(name, flush=True)
        lines = (
            compare_texts(recording, asr, options.lengths)
            if asr
            else compare_chunks(recording, options.lengths)
        )
        for line, same in lines:
            different += not same
            print(f"  {line}  {'equal' if same else 'DIFFERENT'}", flush=True)
    if asr:
        asr.close()
    return int(different > 0)


if __name__ == "__main__":
    sys.exit(main())
