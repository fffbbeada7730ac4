"""Random runs with the model base and short real speech: see `tests.fuzz.runs`."""

import io
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import psutil
import pytest

import whisperbatch as wb
from benchmarks import recordings
from tests.fuzz.cases import Case
from tests.fuzz.runs import Material, check_run, run_of
from whisperbatch.engines.calls import Calls
from whisperbatch.options import SearchOptions
from whisperbatch.protocols import Alignment, AlignRequest, Decoded, DecodeRequest, Encoded, Engine
from whisperbatch.types import Source

SEED = 19
RUNS = 50
WORKERS = 2
READABLE = 0.6  # of the bytes of a file that fails later
SMALL_CHUNKS = {"language": "en", "beam_size": 1, "chunk_length": 8.0, "batch_size": 4}
RETRIES = {"log_prob_threshold": -0.3, "temperature": (0.0, 0.4)}  # and samples
OPTIONS: tuple[dict[str, Any], ...] = (
    {"language": "en", "beam_size": 1},
    {"beam_size": 2, "word_timestamps": True},
    {"beam_size": 1, "chunk_length": 10.0, "batch_size": 1},
    {**SMALL_CHUNKS, "condition_on_previous_text": True},
    {**SMALL_CHUNKS, **RETRIES, "beam_size": 2, "word_timestamps": True},
)


class LentEngine:
    """A loaded engine, lent to one Transcriber: its `close` does not free the weights."""

    encodes_rows_alone = True

    def __init__(self, engine: Engine, workers: int) -> None:
        self.name, self.fingerprint = engine.name, engine.fingerprint
        self.is_multilingual, self.can_translate = engine.is_multilingual, engine.can_translate
        self.n_mels, self.tokenizer, self.workers = engine.n_mels, engine.tokenizer, workers
        self.check, self.split, self.join = engine.check, engine.split, engine.join
        self._engine, self._calls = engine, Calls(engine.name)

    def encode(self, features: npt.NDArray[np.float32]) -> Encoded:
        with self._calls():
            return self._engine.encode(features)

    def detect_language(self, encoded: Encoded) -> list[dict[str, float]]:
        with self._calls():
            return self._engine.detect_language(encoded)

    def decode(
        self, encoded: Encoded, requests: Sequence[DecodeRequest], options: SearchOptions
    ) -> list[Decoded]:
        with self._calls():
            return self._engine.decode(encoded, requests, options)

    def align(self, encoded: Encoded, texts: Sequence[AlignRequest]) -> list[Alignment]:
        with self._calls():
            return self._engine.align(encoded, texts)

    def close(self) -> None:
        self._calls.close(lambda: None)


class FailingFile(io.BytesIO):
    """A file whose end cannot be read."""

    name = "failing.wav"

    def read(self, size: int | None = -1) -> bytes:
        if self.tell() > READABLE * len(self.getbuffer()):
            raise OSError("the connection is lost")
        return super().read(size)


def readable(folder: Path) -> Iterator[Callable[[], Source]]:
    """Yield functions that return a recording: six short ones, and two of 40 s."""
    short = [
        recordings.prompts(language, duration, seed=2)
        for language, duration in (
            ("en", 3),
            ("es", 5),
            ("en", 6),
            ("fr", 8),
            ("en", 9),
            ("en", 12),
        )
    ]
    long = (
        recordings.read_speech(40),
        recordings.switching(("en", "es"), block=(10, 15), duration=40),
    )
    yield partial(wb.Audio, short[0].samples, recordings.SAMPLING_RATE)
    yield partial(Path, recordings.write(short[1], folder / "spanish.wav"))
    yield partial(io.BytesIO, recordings.write(short[2], folder / "english.ogg").read_bytes())
    yield partial(bytes, recordings.write(short[3], folder / "french.flac").read_bytes())
    yield partial(np.copy, samples(short[4]))
    yield partial(Path, cut(recordings.write(short[5], folder / "cut.ogg")))
    yield partial(str, recordings.write(long[0], folder / "read.mp4"))
    yield partial(io.BytesIO, recordings.write(long[1], folder / "switching.wav").read_bytes())


def failing(folder: Path) -> Iterator[Callable[[], Source]]:
    """Yield functions that return a recording that cannot be read, or not to its end."""
    speech = recordings.prompts("en", duration=20, seed=6)
    yield partial(Path, folder / "missing.wav")
    yield partial(Path, cut(recordings.write(speech, folder / "cut.mp4")))
    yield partial(FailingFile, recordings.write(speech, folder / "speech.wav").read_bytes())
    ends_with_nan = samples(speech)
    ends_with_nan[-1] = np.nan
    yield partial(np.copy, ends_with_nan)


def samples(recording: recordings.Recording) -> npt.NDArray[np.float32]:
    return (recording.samples / 32768).astype(np.float32)


def cut(path: Path) -> Path:
    """Remove the end of a file."""
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("random")


@pytest.fixture(scope="module")
def material(folder: Path) -> Iterator[Material]:
    with wb.load("base", device="cpu", inter_threads=WORKERS) as asr:
        yield Material(
            [*readable(folder), *failing(folder)],
            OPTIONS,
            lambda workers: LentEngine(asr.engine, workers),
            delay=4.0,
            timeout=180.0,
        )


SHORT, LONG, FAILING = range(6), range(6, 8), range(8, 12)
DRAWN = [*SHORT, *SHORT, *LONG, *FAILING]


@pytest.mark.slow
@pytest.mark.parametrize("number", range(RUNS))
def test_other_recordings_change_no_transcript(
    material: Material, folder: Path, number: int
) -> None:
    check_run(material, run_of(Case(SEED, "run", number).random(), DRAWN, len(OPTIONS)))
    assert [f.path for f in psutil.Process().open_files() if f.path.startswith(str(folder))] == []


@pytest.mark.slow
def test_the_recordings_have_text_and_the_others_fail(material: Material) -> None:
    results = [material.alone(number, 2).result for number in (*SHORT, *LONG, *FAILING)]
    failed = [isinstance(result, wb.AudioError) for result in results]
    assert failed == [False] * 8 + [True] * 4
    languages = [r.language for r in results if isinstance(r, wb.Transcript) and r.text]
    assert {*languages} == {"en", "es", "fr"}
    assert len(languages) == 8
