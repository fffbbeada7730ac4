"""Do several readers give exactly the transcript of one reader, and at what cost?

Each recording is transcribed by one reader from its file. Its transcripts with several readers must
be equal to the last bit: text, words, times, scores, counts, omissions and notices. Compared are

    sources   the file, an array, bytes, a pipe, and a store that gives 1 MB every 10 ms
    options   random sets of options, for the file

Without --model, a text is made of the features of its row: any other sample would change it, and an
hour takes seconds. The last columns are the seconds until the first segment and the memory that a
further reader needs at most.

python -m benchmarks.readers                    # five recordings, ten sets of options
python -m benchmarks.readers --model base --sets 2
"""

import argparse
import io
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any, Final

import numpy as np

import whisperbatch as wb
from benchmarks import corpora
from benchmarks.arguments import add_recordings
from benchmarks.recordings import Recording, write
from tests.unit.fakes import Call, EncodedRow, FakeEngine, multilingual_tokenizer
from tests.unit.latency_engine import sentences
from whisperbatch.protocols import Hypothesis

RECORDINGS: Final = (
    "mixed:en:1500:0",
    "noise_between:es:1500:0",
    "noise_under:fr:1500:0",
    "music_between:it:1500:0",
    "sparse:ru:1500:0",
)
READERS: Final = 8
PIECE: Final = 2**20  # bytes that the slow store gives at a time
PAUSE: Final = 0.01  # seconds before each of them
CHOICES: Final[dict[str, Sequence[Any]]] = {
    "language": (None, "en"),
    "chunk_length": (5.0, 15.0, 30.0),
    "max_silence": (None, 0.5, 3.0),
    "vad": (True, True, False),
    "vad_onset": (0.3, 0.5, 0.8),
    "speech_pad": (0.0, 0.2, 0.4),
    "min_silence_duration": (0.1, 0.5, 2.0),
    "min_speech_duration": (0.0, 0.25),
    "max_speech_duration": (8.0, 30.0),
    "second_opinion": (True, True, False),
    "clip_timestamps": ((), ((3.0, 200.0), (230.5, 900.0), (901.0, None)), ((700.0, None),)),
    "condition_on_previous_text": (False, False, True),
    "multilingual": (False, False, True),
    "segments": ("sentence", "phrase"),
    "word_timestamps": (False, True),
    "hallucination_filter": (True, False),
    "beam_size": (1, 5),
    "max_duration": (None, 5000.0),
}
Measured = tuple[wb.Transcript, float]
"""A transcript, and the seconds until its first segment."""


def random_options(seed: int) -> wb.Options:
    """Return options that are valid together; the same for the same seed."""
    random = Random(seed)  # noqa: S311 - no cryptography
    while True:
        chosen = {name: random.choice(values) for name, values in CHOICES.items()}
        try:
            return wb.Options(**chosen)
        except wb.OptionError:  # two of them exclude each other
            continue


def text_of_features(call: Call) -> Hypothesis:
    """Return sentences that any other feature would change; some fail their audit."""
    random = Random(repr((call.row.level, call.frames)))  # noqa: S311 - no cryptography
    tokens = multilingual_tokenizer().encode(sentences(call), add_special_tokens=False).ids
    return Hypothesis(tuple(tokens), random.choice((-0.2, -0.4, -0.6, -1.4)), 0.0)


def language_of_features(row: EncodedRow) -> dict[str, float]:
    """Return probabilities of two languages that any other feature would change."""
    english = Random(repr(row.level)).random()  # noqa: S311 - no cryptography
    return {"en": english, "fr": 1 - english}


def open_model(name: str | None) -> wb.Transcriber:
    """Return the model; None for the engine whose texts are made of features."""
    if name:
        return wb.load(name)
    return wb.Transcriber(FakeEngine(decode=text_of_features, detect=language_of_features))


def measure(asr: wb.Transcriber, source: Any, options: wb.Options) -> Measured:  # noqa: ANN401 - a source
    """Transcribe a source."""
    started, first = time.perf_counter(), None
    with asr.stream(source, options=options) as stream:
        segments = []
        for segment in stream:
            first = first or time.perf_counter() - started
            segments.append(segment)
        transcript = stream._recording.transcript(segments)  # noqa: SLF001 - as `transcribe`
    return replace(transcript, source="recording"), first or 0.0


class SlowStore(io.RawIOBase):
    """A file that gives a piece at a time, after a pause."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb")

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        super().close()

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        """Seek in the file."""
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        """Return the position in the file."""
        return self._file.tell()

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401 - a buffer
        """Read at most a piece."""
        time.sleep(PAUSE)
        data = self._file.read(min(len(buffer), PIECE))
        buffer[: len(data)] = data
        return len(data)


@contextmanager
def pipe(path: Path) -> Iterator[Any]:
    """Open a pipe that a thread fills with a file."""
    reading, writing = os.pipe()

    def fill() -> None:
        with os.fdopen(writing, "wb") as end:
            end.write(path.read_bytes())

    thread = threading.Thread(target=fill)
    thread.start()
    with os.fdopen(reading, "rb") as source:
        yield source
    thread.join()


def compare_sources(
    asr: wb.Transcriber, recording: Recording, path: Path, readers: int
) -> Iterator[tuple[str, bool]]:
    """Yield a line for each kind of source, and whether the transcripts are equal."""
    options = wb.Options(language=corpora.parse(recording.name)[1], beam_size=1)
    samples = recording.samples.astype(np.float32) / np.float32(32768)
    opened: dict[str, Callable[[], Any]] = {
        "file": lambda: path,
        "array": lambda: samples,
        "bytes": path.read_bytes,
    }
    for name, source in opened.items():
        yield _compared(name, *(measure(asr, source(), each) for each in _both(options, readers)))
    streams: dict[str, Callable[[], AbstractContextManager[Any]]] = {
        "slow store": lambda: SlowStore(path),
        "pipe": lambda: pipe(path),
    }
    for name, stream in streams.items():
        found = []
        for each in _both(options, readers):
            with stream() as file:
                found.append(measure(asr, file, each))
        yield _compared(name, *found)


def compare_options(
    asr: wb.Transcriber, path: Path, readers: int, sets: int
) -> Iterator[tuple[str, bool]]:
    """Yield a line for each set of options, and whether the transcripts are equal."""
    for seed in range(sets):
        options = random_options(seed)
        one, several = (measure(asr, path, each) for each in _both(options, readers))
        yield _compared(f"options {seed}", one, several)


def _both(options: wb.Options, readers: int) -> tuple[wb.Options, wb.Options]:
    return replace(options, readers=1), replace(options, readers=readers)


def _compared(name: str, one: Measured, several: Measured) -> tuple[str, bool]:
    times = f"{one[1]:6.2f} s {several[1]:6.2f} s"
    return f"{name:12} {len(one[0].segments):6} segments {times}", one[0] == several[0]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a line for each comparison; return 1 if two transcripts differ."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.readers", description=(__doc__ or "").partition("\n")[0]
    )
    add_recordings(parser, RECORDINGS)
    parser.add_argument("--model", help="of the texts")
    parser.add_argument("--readers", type=int, default=READERS, help="beside one")
    parser.add_argument("--sets", type=int, default=10, help="of random options")
    given = parser.parse_args(arguments)
    different = 0
    with open_model(given.model) as asr, tempfile.TemporaryDirectory() as folder:
        for name in given.recordings:
            recording = corpora.build(name)
            path = write(recording, Path(folder, "recording.wav"))
            print(name, f"      first segment: one reader, {given.readers} readers", flush=True)
            for line, same in (
                *compare_sources(asr, recording, path, given.readers),
                *compare_options(asr, path, given.readers, given.sets),
            ):
                different += not same
                print(f"  {line}  {'equal' if same else 'DIFFERENT'}", flush=True)
    return int(different > 0)


if __name__ == "__main__":
    sys.exit(main())
